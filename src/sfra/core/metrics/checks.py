"""What every score asks of its numbers: fractions from 0 to 1, and at least one."""

from __future__ import annotations

from collections.abc import Sized
from typing import SupportsFloat

from jaxtyping import Float
from torch import Tensor

from sfra.core.errors import InputError


def refuse_empty(values: Sized, name: str) -> None:
    """Refuse what has no value: there is no score of nothing."""
    if len(values) == 0:
        raise InputError(f"the {name} are empty", expected="one value or more")


def accuracies(*values: SupportsFloat) -> list[float]:
    """Check the four accuracies that every score starts from, in the order of its arguments."""
    names = (
        "retain accuracy before",
        "retain accuracy after",
        "forget accuracy before",
        "forget accuracy after",
    )
    return [fraction(value, name) for value, name in zip(values, names, strict=True)]


def fraction(value: SupportsFloat, name: str) -> float:
    """Return a float in [0, 1], or refuse it; a number from 1 to 100 looks like a percentage."""
    number = float(value)
    if 0.0 <= number <= 1.0:
        return number
    hint = "this looks like a percentage: divide by 100" if 1.0 < number <= 100.0 else None
    raise InputError(f"the {name} is out of range", expected="a fraction from 0 to 1", got=number, do=hint)


def curve(values: Float[Tensor, " epochs"], name: str) -> Float[Tensor, " epochs"]:
    """Return a non-empty curve of fractions as float64."""
    refuse_empty(values, f"epochs of the {name}")
    found = values.double()
    fraction(found.min(), name)
    fraction(found.max(), name)
    return found
