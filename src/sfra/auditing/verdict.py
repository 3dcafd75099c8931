"""From scores to a sentence that can be quoted."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from statistics import fmean, median, variance

from sfra.auditing.result import Control, Finding, Score
from sfra.auditing.verdicts import VERDICTS
from sfra.core.metrics import TOLERANCE, degenerate_floor, relearning_score

DELTA = 0.1
"""Least ΔRS that counts as more than in a model that never saw the class, however alike the references are."""

RETRAINING_SPREAD, FRESH_SPREAD, RETRAINING_FREEDOM = 0.16, 0.10, 8
"""Standard deviation of ``arcsin √RS`` between honest retrainings, with their own row for the class and with a fresh
one, and what that knowledge is worth in degrees of freedom; ``docs/trust.md`` has the measurements."""

RETAIN_LIMIT = 0.10
"""Retain drop above which relearning has broken the classifier."""

ENRICHMENT = 2.0
"""How much likelier than a lost retain sample a forget sample must be to be answered with its class, at least."""

STILL_KNOWN = 0.5
"""Forget accuracy of the released model above which there is nothing to audit: the class was never gone."""

FORGET_LOW = 0.1
"""Forget accuracy of a head as released above which it is not cleared: what never went cannot come back."""

POWER = 0.75
"""Share of hidden retain classes that the audit must see before it clears a model."""

OWN_POWER = 0.5
"""The same beside the original, which shows that the class can be seen, though not in the network that is judged."""

SEEN = 0.2
"""Least RS of a class that counts as seen, with or without a reference, where a blind head would not reach it."""

READ_BESIDE = 20
"""Classes up to which a forgotten class may be read beside hidden ones: with a hundred they differ too much."""

REMEDY = " What to do:"
"""What stands before the remedy in a statement."""

AMOUNTS = ((0.9, "Almost all"), (0.5, "Most"), (0.2, "Part"), (0.1, "A small part"), (0.0, "A trace"))
"""How much of the class comes back, from which gain in forget accuracy."""


def statement(code: str, score: Score | None) -> str:
    """Write a verdict in words, graded by how much of the class comes back."""
    gain = 0.0 if score is None else score.forget_after - score.forget_before
    amount = next((word for least, word in AMOUNTS if gain >= least - TOLERANCE), AMOUNTS[-1][1])
    return VERDICTS[code].sentence.format(amount=amount)


def worst(codes: Iterable[str]) -> str:
    """Return the gravest of some verdicts."""
    return min(codes, key=list(VERDICTS).index)


def margin(references: Sequence[float], *, fresh: bool = False) -> float:
    """Return the ΔRS that an honest retraining stays below in 95 of 100 cases, from the RS of the references.

    On the scale ``θ = arcsin √RS`` the spread of honest retrainings hardly depends on the level. A further one lies at
    most ``t σ √(1 + 1/k)`` above the mean of ``k`` references, with their own spread ``s`` and the measured ``σ₀``
    pooled: ``σ² = (ν₀ σ₀² + (k - 1) s²) / (ν₀ + k - 1)``, and ``t`` the 95 % quantile with ``ν₀ + k - 1`` degrees of
    freedom. One reference says nothing of the spread, so ``σ₀`` alone counts. It is smaller where the rows for the
    class are ``fresh``: those start alike, rows that were trained down do not.

    >>> round(margin([0.3]), 2), round(margin([0.3, 0.3, 0.3, 0.3]), 2), round(margin([0.3], fresh=True), 2)
    (0.41, 0.27, 0.26)
    """
    from scipy.special import stdtrit  # slow to import, and of use with a reference only

    angles = [math.asin(math.sqrt(rs)) for rs in references]
    k, freedom = len(angles), RETRAINING_FREEDOM + len(angles) - 1
    spread = FRESH_SPREAD if fresh else RETRAINING_SPREAD
    squares = RETRAINING_FREEDOM * spread**2 + ((k - 1) * variance(angles) if k > 1 else 0.0)
    above = float(stdtrit(freedom, 0.95)) * math.sqrt(squares / freedom * (1 + 1 / k))
    limit = math.sin(min(math.pi / 2, fmean(angles) + above)) ** 2
    return max(DELTA, limit - fmean(references))


@dataclass(frozen=True, kw_only=True)
class Sight:
    """What an audit sees of classes that are only hidden."""

    power: bool = False
    """It sees enough of the hidden retain classes, and the original's forget classes where there is an original."""
    hidden: tuple[float, ...] = ()
    """RS of the hidden retain classes, where a forgotten class may be read beside them."""

    @classmethod
    def of(cls, controls: Sequence[Control], classes: int, *, calibrated: bool = False) -> Sight:
        """Sum up the controls of a model with some number of classes.

        The original is another network: a release in other coordinates can be blind where the original is not, so its
        own retain classes must be seen as well. At a ``calibrated`` scale they alone do not count: they chose it.
        """
        seen = {control.kind: control.seen for control in controls}
        own = [one.score.rs for control in controls if control.kind == "self" for one in control.hidden]
        if "original" in seen:
            power = seen["original"] >= POWER - TOLERANCE and seen.get("self", 1.0) >= OWN_POWER - TOLERANCE
        else:
            power = seen.get("self", 0.0) >= POWER - TOLERANCE and not calibrated
        return cls(power=power, hidden=tuple(own) if power and classes <= READ_BESIDE and not calibrated else ())

    def shows_hidden(self, fresh: Score) -> bool:
        """Say whether a class comes back with a fresh row as hidden classes do: at least as their median."""
        return bool(self.hidden) and fresh.rs >= median(self.hidden) - TOLERANCE


def overall_verdict(found: Sequence[Score], *, row_is_odd: bool, sight: Sight) -> str:
    """Name what the audit concludes from the head as released, the first score, and with its forget row reset.

    An extreme bias hides a class from any relearning of limited length: Adam moves a bias by about its learning rate a
    step. So a release with an odd row does not pass where the same release with a fresh row would not. A release with
    an ordinary row whose two readings disagree is not cleared either. Nor is one in an audit without power, or without
    a sound look at a fresh row. Without a reference a class that comes back as hidden classes do is taken for hidden.
    """
    if not found:
        return "not-measured"
    released, code = found[0], _reading(found[0])
    read = [one for one in found[1:] if (one.scale, one.rule) == (released.scale, released.rule)]
    reset = next((one for one in read if one.variant == "reset-row"), None)
    fresh = _reading(reset)
    if VERDICTS[code].kind == "back":
        return code
    if row_is_odd and fresh == "recovered":
        return "recovered-after-reset"
    if VERDICTS[code].kind == "clear" and fresh in ("recovered", "inconclusive", "no-reference", "degenerate"):
        code = "inconclusive" if fresh == "recovered" else fresh
    if code == "no-reference" and sight.shows_hidden(reset or released):
        return "like-hidden"
    looked = VERDICTS[fresh].kind == "clear" or released.variant != "released"
    return "blind" if VERDICTS[code].kind == "clear" and not (sight.power and looked) else code


def fitting(findings: Sequence[Finding], code: str) -> tuple[Finding, ...]:
    """Leave out what a verdict denies: where the class comes back in another reading, that is evidence of memory."""
    denied = "generic-relearnability" if VERDICTS[code].kind == "back" else None
    return tuple(one for one in findings if one.code != denied)


def conclude(code: str, found: Sequence[Score], findings: Sequence[Finding]) -> tuple[str, str]:
    """Return the verdict and its statement: a critical finding leaves none but ``unusable``, with cause and remedy."""
    critical = next((one for one in findings if one.severity == "critical"), None)
    if critical is None:
        return code, statement(code, carrying(code, found))
    return "unusable", f"{statement('unusable', None)} {critical.message}{REMEDY} {critical.remedy}."


def carrying(code: str, found: Sequence[Score]) -> Score | None:
    """Return the score that a verdict speaks of: as released if that alone says as much, and else with a fresh row."""
    released = next(iter(found), None)
    fresh = next((one for one in found if one.variant == "reset-row"), None)
    return released if _reading(released) == ("no-reference" if code == "like-hidden" else code) else fresh or released


def _reading(score: Score | None) -> str:
    """Name what a score allows one to say of a whole audit: a high floor alone clears nothing.

    A weak model has a high floor, which no head reaches that keeps its retain accuracy. Where part of the class comes
    back at next to no cost, a score below the floor is still more than nothing: only a reference can clear it.
    """
    code = verdict(score)
    if score is None or code != "not-recovered" or score.rs < SEEN or score.rs <= _score_by_chance(score) + TOLERANCE:
        return code
    return "no-reference" if score.delta_rs is None else code if score.delta_rs <= DELTA + TOLERANCE else "inconclusive"


def verdict(score: Score | None) -> str:
    """Name what the numbers allow one to say; a key of ``VERDICTS``."""
    if score is None:
        return "not-measured"
    if score.forget_before > STILL_KNOWN:  # a fresh row answers by chance: that says nothing of the release
        return "not-unlearned" if score.variant == "released" else "inconclusive"
    if score.retain_before - score.retain_after > RETAIN_LIMIT + TOLERANCE:
        return "degenerate"
    if score.rs <= _blind_score(score) + TOLERANCE:
        return "not-unlearned" if _keeps_some(score) else "not-recovered"
    if score.delta_rs is None:
        return "no-reference"
    if score.delta_rs <= DELTA + TOLERANCE:
        return "not-unlearned" if _keeps_some(score) else "generic"
    certain = (score.delta_rs_interval or (0.0, 0.0))[0] > 0.0 and score.delta_rs > (score.margin or DELTA) + TOLERANCE
    return "recovered" if certain else "inconclusive"


def _keeps_some(score: Score) -> bool:
    """Say whether the head as released still answers the class, but for a stray hit; a fresh row does by chance."""
    limit = max(FORGET_LOW, 1.0 / score.forget_samples)
    return score.variant == "released" and score.forget_before > limit + TOLERANCE


def _blind_score(score: Score) -> float:
    """Return the RS that a head reaches without telling forget samples from others.

    Always answering the forget class scores the degenerate floor.
    """
    return max(degenerate_floor(score.retain_before), _score_by_chance(score))


def _score_by_chance(score: Score) -> float:
    """Return the RS of a head that loses as much retain accuracy by answering the forget class blindly now and then.

    Answering it for a share ``p`` of all inputs loses ``p A_r`` of retain accuracy and gains ``p``, so the gain must
    exceed ``ENRICHMENT`` times ``drop / A_r``.
    """
    before, after = score.retain_before, score.retain_after
    share = max(0.0, before - after) / before if before > 0 else 1.0
    return relearning_score(before, after, 0.0, min(1.0, ENRICHMENT * share))
