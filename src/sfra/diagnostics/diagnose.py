"""The diagnostics of one audit in one call: all that cost little."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from jaxtyping import Float, Int
from torch import Tensor

from sfra.attack.grid import Setting
from sfra.attack.probes import Probes
from sfra.auditing.measure import Evidence
from sfra.auditing.trace import Trace
from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.diagnostics.alignment import AlignmentOverSeeds, alignment, over_seeds
from sfra.diagnostics.confidence import Confidence, confidence
from sfra.diagnostics.margin import BOOTSTRAP, POINTS, Margin, margin
from sfra.diagnostics.record import Record
from sfra.diagnostics.support import ProposalSupport, describe_support
from sfra.diagnostics.tradeoff import BUDGETS, Tradeoff, tradeoff


@dataclass(frozen=True, kw_only=True)
class Diagnostics(Record):
    """What the diagnostics say of one setting of an audit; those that need real data are None without it."""

    scale: str
    """Name of the scale; alignment, margin, trade-off and support hold for this one."""
    gain: float
    """What the head's weight was multiplied by, and the features divided by, at this scale; 1 is native."""
    variant: str
    """What became of the forget row."""
    support: tuple[ProposalSupport, ...]
    """The probes of every seed."""
    alignment: tuple[AlignmentOverSeeds, ...] | None = None
    """Per forget class, over the seeds."""
    margin: tuple[Margin, ...] | None = None
    """Per forget class, with the probes of the first seed."""
    confidence: Confidence | None = None
    """Of the head before relearning; the same at every scale."""
    tradeoff: Tradeoff | None = None
    """Over the seeds."""


def diagnose(
    evidence: Evidence,
    forget: Sequence[int],
    *,
    setting: Setting | None = None,
    proposal: str = "gaussian",
    epsilons: Sequence[float] = BUDGETS,
    bootstrap: int = BOOTSTRAP,
) -> Diagnostics:
    """Diagnose what an audit gathered, at one of its settings.

    Args:
        evidence: A subject, its runs and, where there was data, their measurements.
        forget: Forget classes.
        setting: Scale and variant; by default those of the verdict, which come first.
        proposal: Name of the proposal that the probes were drawn from.
        epsilons: Retain budgets of the trade-off.
        bootstrap: Bootstrap samples of the margin.
    """
    chosen = setting or evidence.runs[0].setting
    runs = [run for run in evidence.runs if run.setting == chosen]
    if not runs:
        there = dict.fromkeys(f"{run.setting.scale.name}, {run.setting.variant}" for run in evidence.runs)
        raise InputError(
            "the audit has no such setting", expected=" or ".join(there), got=f"{chosen.scale.name}, {chosen.variant}"
        )
    measured = [one for one in evidence.measured or () if one.run.setting == chosen]
    test = evidence.subject.test
    return diagnose_parts(
        head=runs[0].placed.head,
        forget=forget,
        probes=[run.probes for run in runs],
        features=None if test is None else runs[0].placed.framed(test.features),
        labels=None if test is None else test.labels,
        traces=[one.test for one in measured],
        gain=runs[0].placed.gain,
        scale=chosen.scale.name,
        variant=chosen.variant,
        proposal=proposal,
        epsilons=epsilons,
        bootstrap=bootstrap,
    )


def diagnose_parts(
    *,
    head: Head,
    forget: Sequence[int],
    probes: Sequence[Probes],
    features: Float[Tensor, "samples d"] | None = None,
    labels: Int[Tensor, " samples"] | None = None,
    traces: Sequence[Trace] = (),
    gain: float = 1.0,
    scale: str = "native",
    variant: str = "released",
    proposal: str = "gaussian",
    epsilons: Sequence[float] = BUDGETS,
    bootstrap: int = BOOTSTRAP,
    points: int = POINTS,
) -> Diagnostics:
    """Compute alignment, margin, confidence, trade-off and support from their parts.

    Args as in :func:`diagnose`, ``scale``, ``variant`` and ``proposal`` for the record only, and:
        head: The head at the scale of the probes, before relearning.
        probes: Probes of each audit seed, one or more.
        features: Real features in the frame of the head (as released, unless anchored); None where there are none.
        labels: True class of each row of features.
        traces: Accuracies per epoch of each audit seed; none where nothing was measured.
        gain: What the head's weight was multiplied by at that scale; features are divided by it.
        points: Most pairs of the margin that are kept for a plot.
    """
    if not probes:
        raise InputError("there are no probes to diagnose", expected="those of one seed or more")
    if (features is None) != (labels is None):
        raise InputError("features and labels come together", got="one of them")
    bare = Diagnostics(
        scale=scale,
        gain=gain,
        variant=variant,
        support=tuple(describe_support(one, proposal) for one in probes),
        tradeoff=tradeoff(traces, epsilons=epsilons) if traces else None,
    )
    if features is None or labels is None:
        return bare
    return replace(
        bare,
        alignment=over_seeds([alignment(one, features, labels, forget, gain=gain) for one in probes]),
        margin=margin(head, probes[0], features, labels, forget, gain=gain, bootstrap=bootstrap, points=points),
        confidence=confidence(head, features, labels, forget, gain=gain),
    )
