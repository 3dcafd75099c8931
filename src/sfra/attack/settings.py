"""What an attack is told to do: how probes are made, at which scale, and how long the head is relearned."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from msgspec import Meta

from sfra.attack.known import MAX_DRAWS, check_name, check_scale
from sfra.core.checked import LAST_SEED, check_fields, check_threads
from sfra.core.errors import InputError

if TYPE_CHECKING:  # they import torch, and wrong settings are refused sooner
    from sfra.attack.probes import ProbeSettings
    from sfra.attack.scale import ScaleChoice

PROTOCOL = ((20, 500_000, 500), (150, 100_000, 50), (5000, 50_000, 25), (None, 5000, 1))
"""Number of classes up to which, candidates per class, probes per class.

The figures of the published protocol. Beyond 5,000 classes it has none, and these are what two cores can draw and
relearn: a probe more of each of 21,841 classes takes half an hour more for every run."""

STABLE_M, STABLE_PROBES = 200, 1800
"""M = 200 was seen to be stable at ten classes: 9 x 200 forget probes."""

LONGEST = 1_000_000
"""Epochs of the longest relearning; every one of them is kept and measured."""

MOST_SEEDS = 10_000
"""Repetitions of an audit; the first hundred tell what there is to tell."""

Count = Annotated[int, Meta(ge=1)]


@dataclass(frozen=True, kw_only=True)
class AttackSettings:
    """Settings of steps 1 and 2. Everything that determines the relearned head is here."""

    n: Count | None = None
    """Candidates per retain class; by default the protocol's for the number of classes."""
    m: Count | None = None
    """Probes per retain class; by default the protocol's, but never fewer than :func:`stable_m`."""
    proposal: str = "gaussian"
    score: str = "softmax"
    assignment: str = "greedy"
    max_draws: Count = MAX_DRAWS
    epochs: Annotated[int, Meta(ge=1, le=LONGEST)] = 100
    """Length of the relearning; the source-free rule takes the last epoch."""
    learning_rate: Annotated[float, Meta(gt=0)] = 1e-2
    weight_decay: Annotated[float, Meta(ge=0)] = 1e-4
    batch_size: Count = 256
    forget_weight: str = "published"
    """How much forget probes count in the loss: a name of ``sfra.attack.weight.FORGET_WEIGHTS``."""
    scale: str | float = "canonical"
    """Scale of the verdict: a name of ``sfra.attack.scale.SCALES``, or a number for κ."""
    seeds: Annotated[int, Meta(ge=1, le=MOST_SEEDS)] = 1
    """Number of audit seeds; each redraws pools, selection, fresh rows and optimisation."""
    seed: Annotated[int, Meta(ge=0)] = 0
    """First seed."""
    reset_row: bool = True
    """Also audit with the forget row re-initialised."""
    device: str = "cpu"
    threads: Count | None = None

    def __post_init__(self) -> None:
        check_fields(self)
        if self.threads is not None:
            check_threads(self.threads)
        if self.seed > LAST_SEED - self.seeds + 1:
            raise InputError("the seed is too large", expected="0 to 2^63 - 1, for every seed", got=self.seed)
        if not math.isfinite(self.learning_rate + self.weight_decay):
            got = f"{self.learning_rate}, {self.weight_decay}"
            raise InputError("learning_rate and weight_decay must be finite", got=got)
        check_scale(self.scale)
        for setting in ("proposal", "score", "assignment", "forget_weight"):
            check_name(setting, getattr(self, setting))

    @property
    def scales(self) -> ScaleChoice:
        """What ``scale`` asks for."""
        from sfra.attack.scale import choose_scale

        return choose_scale(self.scale)

    def probe_settings(self, classes: int, forgotten: int = 1) -> ProbeSettings:
        """Fill in ``n`` and ``m`` for a number of classes and of forget classes among them."""
        from sfra.attack.probes import ProbeSettings

        n, m = next((n, m) for limit, n, m in PROTOCOL if limit is None or classes <= limit)
        return ProbeSettings(
            n=n if self.n is None else self.n,
            m=max(m, stable_m(max(1, classes - forgotten))) if self.m is None else self.m,
            proposal=self.proposal,
            score=self.score,
            assignment=self.assignment,
            max_draws=self.max_draws,
        )


def published_n(classes: int) -> int:
    """Return N of the published protocol for a number of classes; the least one where it has none.

    >>> published_n(10), published_n(100), published_n(1000), published_n(21841)
    (500000, 100000, 50000, 50000)
    """
    return next((n for limit, n, _ in PROTOCOL if limit is not None and classes <= limit), PROTOCOL[-2][1])


def stable_m(retain_classes: int) -> int:
    """Return the least M that was seen to be stable: ``min(200, 1800 / retain classes)``, rounded up.

    >>> stable_m(9), stable_m(99)
    (200, 19)
    """
    return min(STABLE_M, math.ceil(STABLE_PROBES / retain_classes))
