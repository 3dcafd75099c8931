"""Support of the proposals: where probes of one head lie, proposal by proposal, and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

from sfra.attack.probes import MAX_DRAWS, Probes, proposals, sample_probes
from sfra.attack.scale import Native, Scale, place
from sfra.core.errors import SamplingError
from sfra.core.head import Head
from sfra.diagnostics.record import Record


@dataclass(frozen=True, kw_only=True)
class ProposalSupport(Record):
    """Probes of one proposal; everything but ``proposal`` and ``failure`` is None if there are none."""

    proposal: str
    negative_coordinates: float | None = None
    """Share of coordinates below zero."""
    zero_coordinates: float | None = None
    """Share of coordinates that are exactly zero."""
    nonnegative_vectors: float | None = None
    """Share of probes without a negative coordinate."""
    mean_norm: float | None = None
    """Mean l2 norm of a probe."""
    probes: int | None = None
    """Retain and forget probes."""
    draws: int | None = None
    """Raw draws."""
    seconds: float | None = None
    """Wall time of the construction."""
    conditional: tuple[int, ...] | None = None
    """Classes too rare for plain draws."""
    failure: str | None = None
    """Why there are no probes."""


def describe_support(probes: Probes, proposal: str) -> ProposalSupport:
    """Describe probes that are there already, such as those of an audit."""
    return ProposalSupport(
        proposal=proposal,
        **asdict(probes.support),
        probes=len(probes.labels),
        draws=probes.draws,
        seconds=probes.seconds,
        conditional=tuple(sorted(probes.conditional)),
    )


def compare_support(
    head: Head,
    forget: Sequence[int],
    *,
    n: int,
    m: int,
    names: Sequence[str] | None = None,
    scale: Scale = Native(),  # noqa: B008  (frozen)
    seed: int = 0,
    max_draws: int = MAX_DRAWS,
    threads: int | None = None,
) -> tuple[ProposalSupport, ...]:
    """Sample probes of one head from several proposals and describe where they lie.

    A proposal under which some retain class cannot be reached is reported with its reason; the others go on.

    Args:
        head: The released head, with all classes.
        forget: Forget classes.
        n: Candidates per retain class.
        m: Probes per retain class.
        names: Proposals; all of them by default.
        scale: Scale of the head.
        seed: Seed of all draws.
        max_draws: Draw budget of each proposal.
        threads: Worker threads on the CPU.

    >>> import torch
    >>> rows = compare_support(Head(torch.eye(4)), [3], n=100, m=10, names=["gaussian", "abs-gaussian"])
    >>> rows[0].nonnegative_vectors < 1.0, rows[1].nonnegative_vectors
    (True, 1.0)
    """
    placed = place(head, forget, scale=scale).head
    rows = []
    for name in names if names is not None else proposals.names():
        try:
            probes = sample_probes(
                placed, tuple(forget), n=n, m=m, proposal=name, seed=seed, max_draws=max_draws, threads=threads
            )
        except SamplingError as problem:
            rows.append(ProposalSupport(proposal=name, failure=str(problem)))
        else:
            rows.append(describe_support(probes, name))
    return tuple(rows)
