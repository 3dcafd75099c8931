"""What an attack is told to do: how probes are made, at which scale, and how long the head is relearned."""

from __future__ import annotations

import math
from dataclasses import dataclass, fields
from math import ceil

from sfra.attack.probes.settings import MAX_DRAWS, ProbeSettings
from sfra.attack.scale import KAPPA
from sfra.core.cpu import check_threads
from sfra.core.errors import InputError
from sfra.core.head import MIN_CLASSES

PROTOCOL = ((20, 500_000, 500), (150, 100_000, 50), (None, 50_000, 25))
"""Up to so many classes: candidates per class, probes per class. The figures of the published protocol."""

STABLE_M, STABLE_PROBES = 200, 1800  # 200 a class in one of 10 classes, and no fewer probes than that in all

LAST_SEED = 2**63 - 1
"""Largest seed of the probes."""


COUNTS = ("n", "m", "epochs", "seeds", "batch_size", "max_draws", "threads")

KINDS: dict[str, tuple[tuple[type, ...], str]] = {
    **dict.fromkeys(("proposal", "score", "assignment"), ((str,), "a name in quotes")),
    **dict.fromkeys(("learning_rate", "weight_decay", "epsilon_r", "delta_f"), ((int, float), "a number")),
    "scale": ((str, int, float), '"native", "canonical", "sweep" or a number'),
    "seed": ((int,), "a whole number of at least 0"),
    "reset_row": ((bool,), "True or False"),
    "budgets": ((tuple, list), "several numbers, such as (0.01, 0.05)"),
    "device": ((str,), 'a name in quotes, such as "cpu" or "cuda:1"'),
}
"""What a setting that is no count may be, and how to say it."""


@dataclass(frozen=True, kw_only=True)
class AttackSettings:
    """Settings of steps 1 and 2. Everything that determines the relearned head is here."""

    n: int | None = None
    """Candidates per retain class; by default the protocol's for the number of classes."""
    m: int | None = None
    """Probes per retain class; by default the protocol's, but never fewer than :func:`stable_m`."""
    proposal: str = "gaussian"
    score: str = "softmax"
    assignment: str = "greedy"
    max_draws: int = MAX_DRAWS
    epochs: int = 100
    """Length of the relearning; the source-free rule takes the last epoch."""
    learning_rate: float = 1e-2
    weight_decay: float = 1e-4
    batch_size: int = 256
    scale: str | float = "canonical"
    """Scale of the verdict: ``canonical``, ``native``, ``sweep`` (canonical, plus the curve) or a number for κ."""
    seeds: int = 1
    """Number of audit seeds; each redraws pools, selection, fresh rows and optimisation."""
    seed: int = 0
    """First seed."""
    reset_row: bool = True
    """Also audit with the forget row re-initialised."""
    device: str = "cpu"
    threads: int | None = None

    def __post_init__(self) -> None:
        self._check_kinds()
        for name in COUNTS:
            number = getattr(self, name)
            if number is not None and number < 1:
                raise InputError(f"{name} is too small", expected="at least 1", got=number)
        if self.threads is not None:
            check_threads(self.threads)
        if not 0 <= self.seed <= LAST_SEED - self.seeds + 1:
            raise InputError("the seed is out of range", expected="0 to 2^63 - 1, for every seed", got=self.seed)
        if not (0.0 < self.learning_rate < math.inf and 0.0 <= self.weight_decay < math.inf):
            raise InputError(
                "the optimiser's settings are off",
                expected="learning_rate > 0 and weight_decay >= 0",
                got=f"{self.learning_rate}, {self.weight_decay}",
            )
        self.kappa  # noqa: B018  (checks the scale)
        self.probe_settings(MIN_CLASSES)  # checks proposal, score and assignment

    def _check_kinds(self) -> None:
        """Refuse what is of another kind than its setting, before it is compared with anything."""
        for field in fields(self):
            value = getattr(self, field.name)
            kinds, words = KINDS.get(field.name, ((int,), "a whole number of at least 1"))
            right = isinstance(value, kinds) and (not isinstance(value, bool) or bool in kinds)
            if not right and not (value is None and field.default is None):
                raise InputError(f"{field.name} is of the wrong kind", expected=words, got=repr(value))

    @property
    def kappa(self) -> float | None:
        """Median retain-row norm at the scale of the verdict; None for native."""
        if self.scale == "native":
            return None
        if self.scale in ("canonical", "sweep"):
            return KAPPA
        try:
            kappa = float(self.scale)
        except ValueError:
            kappa = 0.0
        if not 0.0 < kappa < float("inf"):
            raise InputError(
                "there is no such scale",
                expected="native, canonical, sweep or a positive number (the median retain-row norm κ)",
                got=self.scale,
            )
        return kappa

    @property
    def scale_name(self) -> str:
        """Name of the scale of the verdict in the results."""
        return "native" if self.kappa is None else scale_name(self.kappa)

    def probe_settings(self, classes: int, forgotten: int = 1) -> ProbeSettings:
        """Fill in ``n`` and ``m`` for a number of classes, so many of which are forget classes."""
        n, m = next((n, m) for limit, n, m in PROTOCOL if limit is None or classes <= limit)
        return ProbeSettings(
            n=n if self.n is None else self.n,
            m=max(m, stable_m(max(1, classes - forgotten))) if self.m is None else self.m,
            proposal=self.proposal,
            score=self.score,
            assignment=self.assignment,
            max_draws=self.max_draws,
        )


def scale_name(kappa: float) -> str:
    """Name a scale: canonical, or its κ."""
    return "canonical" if kappa == KAPPA else f"kappa={kappa:.4g}"


def stable_m(retain_classes: int) -> int:
    """Return the least M that was seen to be stable: ``min(200, 1800 / retain classes)``, rounded up.

    >>> stable_m(9), stable_m(99)
    (200, 19)
    """
    return min(STABLE_M, ceil(STABLE_PROBES / retain_classes))
