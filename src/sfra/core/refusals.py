"""Refusals that are made in two places: at once, before anything slow is imported, and where the rule is."""

from __future__ import annotations

from collections.abc import Sequence

from sfra.core.errors import InputError


def head_not_finite(name: str, bad: int, entries: int) -> InputError:
    """Say that a part of the head holds numbers that are none."""
    return InputError(
        f"the head's {name} is not finite",
        expected="finite numbers (in float32)",
        got=f"{bad} of {entries} entries are NaN or infinite",
        do="the model is damaged: check how it was saved",
    )


def forget_out_of_range(classes: int, forget: Sequence[int]) -> InputError:
    """Say that a head has no such output."""
    return InputError(
        "the forget class is out of range",
        expected=f"an index from 0 to {classes - 1} (the head has {classes} outputs)",
        got=", ".join(map(str, forget)),
    )


def other_width(width: int, got: int) -> InputError:
    """Say that features are not inputs of this head."""
    return InputError(
        "the features do not fit the head",
        expected=f"features {width} wide",
        got=got,
        do="use features of the same model, taken right before its last layer",
    )


def no_audit(path: object) -> InputError:
    """Say that there is no result of an audit."""
    return InputError(
        "there is no audit to report",
        expected="an audit.json, or a folder with one",
        got=path,
        do="keep an audit with sfra audit … --out DIR, and pass that folder",
    )
