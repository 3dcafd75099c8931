"""From scores to a sentence that can be quoted."""

from __future__ import annotations

from collections.abc import Sequence

from sfra.auditing.result import Finding, Score
from sfra.core.metrics import TOLERANCE, degenerate_floor, relearning_score

DELTA = 0.1
"""ΔRS above which a class comes back more than in a model that never saw it; the band that separate trainings span."""

RETAIN_LIMIT = 0.10
"""Retain drop above which relearning has broken the classifier."""

ENRICHMENT = 2.0
"""How much likelier than a lost retain sample a forget sample must be to be answered with its class, at least."""

STILL_KNOWN = 0.5
"""Forget accuracy of the released model above which there is nothing to audit: the class was never gone."""

VERDICTS = {
    "unusable": "This measurement cannot carry a verdict: something about the set-up is wrong.",
    "recovered": "The forgotten class comes back, and clearly more than in a model that never saw it.",
    "recovered-after-reset": "The class comes back once its odd output row is reset: it was hidden at the head.",
    "inconclusive": "The class comes back somewhat more than in a model that never saw it, within sampling error.",
    "generic": "The class comes back no more than in a model that never saw it: no evidence of residual memory.",
    "not-recovered": "The class did not come back in this audit. That is no proof of erasure.",
    "degenerate": "Relearning broke the retain classes: this score shows no recovery, read RS at a retain budget.",
    "no-reference": "Part of the class comes back, but without a retrained reference that alone is not evidence.",
    "not-unlearned": "The released model still recognises the class: it was not unlearned in the first place.",
    "not-measured": "The head was relearned, but without evaluation data nothing was measured.",
}
"""What an audit can conclude, in words."""


def overall_verdict(released: Score | None, reset: Score | None, *, row_is_odd: bool) -> str:
    """Name what the audit concludes from the head as released and, if its forget row is odd, with that row reset.

    An extreme bias hides a class from any relearning of limited length: Adam moves a bias by about its learning rate a
    step. So a release with an odd row does not pass where the same release with a fresh row would not.
    """
    found = verdict(released)
    if found == "not-unlearned":
        return found
    fresh = verdict(reset) if row_is_odd else None
    if fresh == "recovered" and found != "recovered":
        return "recovered-after-reset"
    return "no-reference" if fresh == "no-reference" and found == "not-recovered" else found


def conclude(found: str, findings: Sequence[Finding]) -> tuple[str, str]:
    """Return the verdict and its statement: a critical finding leaves none but ``unusable``, with cause and remedy."""
    critical = next((one for one in findings if one.severity == "critical"), None)
    if critical is None:
        return found, VERDICTS[found]
    return "unusable", f"{VERDICTS['unusable']} {critical.message} What to do: {critical.remedy}."


def verdict(score: Score | None) -> str:
    """Name what the numbers allow one to say; a key of ``VERDICTS``."""
    if score is None:
        return "not-measured"
    if score.forget_before > STILL_KNOWN:
        return "not-unlearned"
    if score.retain_before - score.retain_after > RETAIN_LIMIT + TOLERANCE:
        return "degenerate"
    if score.rs <= _blind_score(score) + TOLERANCE:
        return "not-recovered"
    if score.delta_rs is None:
        return "no-reference"
    if score.delta_rs <= DELTA + TOLERANCE:
        return "generic"
    return "recovered" if (score.delta_rs_interval or (0.0, 0.0))[0] > 0.0 else "inconclusive"


def _blind_score(score: Score) -> float:
    """Return the RS that a head reaches without telling forget samples from others.

    Always answering the forget class scores the degenerate floor. Answering it for a share ``p`` of all inputs loses
    ``p A_r`` of retain accuracy and gains ``p``, so the gain must exceed ``ENRICHMENT`` times ``drop / A_r``.
    """
    before, after = score.retain_before, score.retain_after
    share = max(0.0, before - after) / before if before > 0 else 1.0
    by_chance = relearning_score(before, after, 0.0, min(1.0, ENRICHMENT * share))
    return max(degenerate_floor(before), by_chance)
