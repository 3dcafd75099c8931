"""Step 1 of the audit: synthetic probes from nothing but the head."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

import torch
from jaxtyping import Float, Int
from torch import Tensor

from sfra.attack.known import MAX_DRAWS
from sfra.attack.probes import proposals, scores
from sfra.attack.probes.assign import assign
from sfra.attack.probes.choose import FEW, Plan, plan_weights
from sfra.attack.probes.pools import Pools
from sfra.attack.probes.proposals import Support, support
from sfra.attack.probes.rare import RegionSample, sample_region
from sfra.attack.probes.review import Review, unfilled
from sfra.attack.probes.rowspace import RowSpace, row_space
from sfra.attack.probes.select import Selected
from sfra.attack.probes.settings import ProbeSettings
from sfra.attack.probes.stream import Stream, derived_seed, open_stream
from sfra.attack.probes.weighted import WeightedPools
from sfra.attack.pulse import Pulse
from sfra.core.checked import check_threads
from sfra.core.cpu import cores, one_thread
from sfra.core.errors import InputError, SamplingError
from sfra.core.head import Head
from sfra.core.types import Features, Labels, Progress

MOST_NUMBERS = 2**32
"""Numbers of the largest set of probes, or of the rest of a pool, that is made: 16 GiB."""

NO_INPUT = "audit a head that still assigns inputs to every retain class"


@dataclass(frozen=True, kw_only=True)
class Probes:
    """Synthetic probes for relearning: retain probes first, then forget probes."""

    samples: Features
    """Points of the head's input space, retain probes first."""
    labels: Labels
    """Class that each probe is to be relearned as."""
    sources: Labels
    """Class that the released head itself gives each probe (the pool it came from)."""
    sureness: Float[Tensor, " n"]
    """Rank score of each probe inside its pool; higher is surer."""
    retain_count: int
    """How many of the probes are retain probes."""
    draws: int
    """Raw draws of the stream."""
    acceptance: Float[Tensor, " C"]
    """Per class, the share of draws that the head gives to it: counted, or for conditional classes computed."""
    conditional: dict[int, str]
    """Classes whose pool was completed by conditional sampling, and how: ``tilting`` (exact) or ``slice``."""
    repeats: float
    """Share of the candidates that share their draw with another of their class; 0 but for the weighted stream."""
    support: Support
    """Where the probes lie."""
    engine: str
    """What computed the stream."""
    seconds: float
    """Wall time of the construction."""

    def __repr__(self) -> str:
        """Say how many there are and how they came about, without their values."""
        kinds = f"{self.retain_count:,} retain and {len(self.labels) - self.retain_count:,} forget probes"
        rare = f", conditional={sorted(self.conditional)}" if self.conditional else ""
        how = f"{self.draws:,} draws by {self.engine}{rare}, {self.seconds:.2g} s"
        return f"Probes({kinds} of {self.samples.shape[1]:,} features, {how})"

    @property
    def retain(self) -> Features:
        """The retain probes."""
        return self.samples[: self.retain_count]

    @property
    def forget(self) -> Features:
        """The forget probes."""
        return self.samples[self.retain_count :]


def sample_probes(
    head: Head,
    forget: int | Sequence[int],
    *,
    n: int,
    m: int,
    proposal: str = "gaussian",
    score: str = "softmax",
    assignment: str = "greedy",
    seed: int = 0,
    device: str | torch.device | None = None,
    max_draws: int = MAX_DRAWS,
    threads: int | None = None,
    path: Literal["auto", "plain", "weighted"] = "auto",
    progress: Progress | None = None,
) -> Probes:
    """Sample retain and forget probes of a head (step 1); sees ``(W, b)`` and the forget classes only.

    Every retain class gets a pool of exactly ``n`` draws of the proposal whose arg-max over all outputs is that
    class. The ``m`` most confident become retain probes; the ``m`` least confident (per forget class) are relabelled as
    the forget class. The result does not depend on the number of threads.

    Args:
        head: The released head.
        forget: The forget class, or several.
        n: Candidates per retain class.
        m: Probes per retain class; ``(1 + number of forget classes) m <= n``.
        proposal: ``gaussian``, ``uniform``, ``laplace``, ``relu-gaussian`` or ``abs-gaussian``.
        score: ``softmax``, ``entropy`` or ``energy``.
        assignment: How several forget classes share a pool: ``greedy`` or ``optimal``.
        seed: Non-negative seed of all draws.
        device: Where to compute; the CPU by default.
        max_draws: Draw budget: the stream never exceeds it by more than a chunk.
        threads: Worker threads on the CPU; all cores by default.
        path: ``plain``: each draw serves the class that it falls to. ``weighted``: each serves every class
            (:mod:`sfra.attack.probes.weighted`); Gaussian proposal, softmax score, CPU or CUDA. ``auto``: weighted for
            many classes, where it is clearly cheaper.
        progress: Called now and then with the name of the stage, the amount done and the total.

    Raises:
        SamplingError: A retain class could not be filled; the message names it and its acceptance.

    >>> head = Head(weight=torch.eye(4))
    >>> probes = sample_probes(head, 3, n=100, m=10)
    >>> probes.retain.shape, probes.labels[-1].item()
    (torch.Size([30, 4]), 3)
    """
    began = time.perf_counter()
    settings = ProbeSettings(n=n, m=m, proposal=proposal, score=score, assignment=assignment, max_draws=max_draws)
    classes = settings.check(head.classes, forget if isinstance(forget, Sequence) else [forget])
    workers = cores() if threads is None else check_threads(threads)
    _check_room((head.classes - len(classes)) * (1 + len(classes)) * m, head.width)
    if seed < 0 or seed >= 2**63:
        raise InputError("the seed is out of range", expected="0 to 2^63 - 1", got=seed)
    with one_thread():  # the workers have the cores, and the result must not depend on torch's threads
        where = torch.device(device or "cpu")
        law, ranking = proposals.get(proposal), scores.get(score)
        space = row_space(head, where) if law.isotropic else None
        weight = space.weight if space else head.weight
        plan = _plan(path, weight, head.bias, classes, settings, where, seed, workers)
        kept = {"n": n, "top": m, "bottom": m * len(classes)}
        if plan:
            stream: Stream = plan.stream(seed, workers)
            pools: Pools = WeightedPools(plan.bounds, classes, **kept, device=where)
        else:
            stream = open_stream(
                weight, head.bias, proposal=law, score=ranking, seed=seed, device=where, threads=workers
            )
            pools = Pools(head.classes, classes, **kept, device=where)
        pulse = Pulse(progress, "drawing probes")
        _fill(pools, stream, plan or Review(max_draws, can_condition=law.isotropic), pulse)
        conditional = _complete(pools, stream, weight, head.bias, ranking, seed, workers, pulse, began)
        return _label(head, classes, settings, pools, stream, space, conditional, began)


def _check_room(probes: int, width: int) -> None:
    """Refuse probes that would fill the memory."""
    if probes * width > MOST_NUMBERS:
        raise InputError(
            "the probes do not fit into memory",
            expected=f"at most {MOST_NUMBERS // width:,} probes of {width:,} numbers",
            got=f"{probes:,}",
            do="lower m",
        )


def _plan(
    path: str,
    weight: Float[Tensor, "C r"],
    bias: Float[Tensor, " C"],
    forget: tuple[int, ...],
    settings: ProbeSettings,
    device: torch.device,
    seed: int,
    threads: int,
) -> Plan | None:
    """Return the plan of the weighted stream, if that is the way to go."""
    able = device.type in ("cpu", "cuda") and settings.proposal == "gaussian" and settings.score == "softmax"
    if path == "plain" or (path == "auto" and not (able and len(bias) > FEW)):
        return None
    if path not in ("auto", "weighted") or not able:
        raise InputError(
            "the path cannot be taken",
            expected="auto, plain, or weighted (gaussian proposal, softmax score, CPU or CUDA)",
            got=f"{path} ({settings.proposal}, {settings.score}, {device.type})",
        )
    retain = torch.ones(len(bias), dtype=torch.bool)
    retain[list(forget)] = False
    budget = {"n": settings.n, "max_draws": settings.max_draws}
    plan = plan_weights(weight, bias, retain, **budget, seed=seed, device=device, threads=threads)
    return plan if path == "weighted" or plan.pays else None


def _fill(pools: Pools, stream: Stream, review: Review | Plan, pulse: Pulse) -> None:
    """Feed the stream to the pools until they are full or it no longer pays."""
    chunks = stream.chunks(pools.limits)
    try:
        for chunk in chunks:
            if not pools.absorb(chunk).open or not review.goes_on(pools):
                return
            if pulse.due:
                pulse(pools.draws, pools.draws + int(review.left(pools)), pools.note)
    finally:
        chunks.close()  # type: ignore[attr-defined]


def _complete(
    pools: Pools,
    stream: Stream,
    weight: Tensor,
    bias: Tensor,
    score: scores.Ranking,
    seed: int,
    threads: int,
    pulse: Pulse,
    began: float,
) -> dict[int, RegionSample]:
    """Complete the pools that are still open by sampling the Gaussian conditioned on their class."""
    regions: dict[int, RegionSample] = {}
    still, switched = pools.open, time.perf_counter()
    for at, label in enumerate(still):
        if at:  # as long as those before it
            now = time.perf_counter()
            total = now - began + (now - switched) / at * (len(still) - at)
            pulse(int(1e3 * (now - began)), int(1e3 * total), f"{at} of {len(still)} rare classes by themselves")
        missing = pools.n - int(pools.landed[label])
        if missing * weight.shape[1] > MOST_NUMBERS:
            raise unfilled(pools, [label], f"the pool of class {label} does not fit into memory", do="lower n")
        generator = torch.Generator().manual_seed(derived_seed(seed, 2, label))
        try:
            region = sample_region(weight, bias, label, missing, generator=generator, threads=threads)
        except SamplingError as problem:
            raise unfilled(pools, [label], str(problem.what), do=NO_INPUT) from None
        _, sure = scores.judge(torch.nn.functional.linear(region.samples, weight, bias), score)
        near = pools.extremes.shortlist(sure)
        pools.top_up(label, sure[near].to(pools.landed.device), stream.store(region.samples[near]))
        regions[label] = replace(region, samples=region.samples[:0])
    return regions


def _label(
    head: Head,
    forget: tuple[int, ...],
    settings: ProbeSettings,
    pools: Pools,
    stream: Stream,
    space: RowSpace | None,
    regions: dict[int, RegionSample],
    began: float,
) -> Probes:
    """Turn the selected candidates into labelled probes."""
    surest, unsure = pools.surest, pools.least_sure
    samples = stream.rows(torch.cat([surest.items, unsure.items]))
    if space is not None:
        samples = space.lift(samples, stream.noise(len(samples), head.width))
    count = surest.labels.numel()
    acceptance = pools.acceptance.float()
    for label, region in regions.items():
        acceptance[label] = math.exp(region.log_probability)
    labels = torch.cat([surest.labels, _forget_labels(head, forget, settings, samples[count:], unsure)])
    return Probes(
        samples=samples,
        labels=labels,
        sources=torch.cat([surest.labels, unsure.labels]),
        sureness=torch.cat([surest.scores, unsure.scores]),
        retain_count=count,
        draws=pools.draws,
        acceptance=acceptance,
        conditional={label: region.method for label, region in regions.items()},
        repeats=float(pools.repeats.sum()) / max(int(pools.landed.sum()), 1),
        support=support(samples),
        engine=stream.name,
        seconds=time.perf_counter() - began,
    )


def _forget_labels(
    head: Head, forget: tuple[int, ...], settings: ProbeSettings, samples: Features, unsure: Selected
) -> Int[Tensor, " n"]:
    """Relabel the least sure candidates of each pool as the forget classes, ``m`` to each."""
    targets = torch.tensor(forget, device=samples.device)
    if len(forget) == 1:
        return targets.expand(samples.shape[0]).clone()
    affinity = head(samples).log_softmax(1)[:, targets]
    labels = torch.empty_like(unsure.labels)
    for pool in set(unsure.labels.tolist()):
        mine = unsure.labels == pool
        labels[mine] = targets[assign(affinity[mine], settings.m, settings.assignment)]
    return labels
