"""How many probes are made, and how: settings that are checked on creation and against the classes of a head."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from dataclasses import dataclass

from sfra.attack.known import MAX_DRAWS, check_name
from sfra.core.errors import InputError
from sfra.core.refusals import forget_out_of_range

MOST_DRAWS = 2**62
"""Draws that can be counted."""


@dataclass(frozen=True, kw_only=True)
class ProbeSettings:
    """How probes are made, checked on creation."""

    n: int
    """Candidates per retain class."""
    m: int
    """Retain probes per retain class, and forget probes per retain class and forget class."""
    proposal: str = "gaussian"
    score: str = "softmax"
    assignment: str = "greedy"
    max_draws: int = MAX_DRAWS

    def __post_init__(self) -> None:
        for setting in ("proposal", "score", "assignment"):
            check_name(setting, getattr(self, setting))
        for name in ("n", "m", "max_draws"):
            value = getattr(self, name)
            if not isinstance(value, int) or value < 1:
                raise InputError(f"{name} is not a count", expected="a whole number of at least 1", got=value)

    def check(self, classes: int, forget: Sequence[int]) -> tuple[int, ...]:
        """Check the settings against a number of classes and return the forget classes in ascending order."""
        try:
            chosen = tuple(sorted({operator.index(label) for label in forget}))
        except TypeError:
            raise InputError("a forget class is not an index", expected="whole numbers", got=list(forget)) from None
        if not chosen:
            raise InputError("no forget class was given", expected=f"one or more of 0 to {classes - 1}", got="none")
        if chosen[0] < 0 or chosen[-1] >= classes:
            raise forget_out_of_range(classes, chosen)
        if classes - len(chosen) < 2:
            raise InputError(
                "too few classes would be left",
                expected="at least 2 retain classes",
                got=f"{len(chosen)} of {classes} classes to forget",
            )
        if (1 + len(chosen)) * self.m > self.n:
            raise InputError(
                "the pools are too small for the probes asked of them",
                expected=f"(1 + {len(chosen)}) m <= n",
                got=f"m={self.m}, n={self.n}",
                do=f"lower m to {self.n // (1 + len(chosen))} or raise n to {(1 + len(chosen)) * self.m}",
            )
        self._check_budget(classes - len(chosen))
        return chosen

    def _check_budget(self, retained: int) -> None:
        """Refuse pools that no budget fills: every draw falls to one class. A small budget alone is no reason."""
        most = min(max(self.max_draws, MAX_DRAWS), MOST_DRAWS)
        if self.n * retained > most:
            raise InputError(
                "the pools are too large",
                expected=f"n times {retained} retain classes to be at most {most:,} draws",
                got=f"n={self.n:,}",
                do=f"lower n to {most // retained:,}" + (" or raise max_draws" if most < MOST_DRAWS else ""),
            )
