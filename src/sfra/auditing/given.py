"""Samples as callers have them at hand, where they cannot be taken as they are: say how to bring them into shape."""

from __future__ import annotations

from collections.abc import Mapping

from torch.utils.data import DataLoader, Dataset

from sfra.core.errors import InputError

EXPECTED = "a pair (images, labels) or (features, labels) of arrays or tensors, a name, or a path"
CAT = "images, labels = (torch.cat(parts) for parts in zip(*{loader}))"
"""Gathers what a loader yields."""


def refuse_unusable(data: object, name: str) -> None:
    """Refuse what holds samples in a form that an audit does not read, and say how to get at them.

    Args:
        data: What was handed over.
        name: As which argument.
    """
    advice = _advice(data, name)
    if advice is not None:
        raise InputError(f"{name} cannot be read from a {type(data).__name__}", expected=EXPECTED, do=advice)


def _advice(data: object, name: str) -> str | None:
    if isinstance(data, DataLoader):
        return f"{CAT.format(loader='loader')}; then {name}=(images, labels)"
    if isinstance(data, Dataset):
        return f"{CAT.format(loader='DataLoader(dataset, 1000)')}; then {name}=(images, labels)"
    if isinstance(data, Mapping):
        return f"{name}=(columns['images'], columns['labels']), under the names that they have there"
    if isinstance(data, list) and len(data) == 2:
        return f"write a pair in round brackets: {name}=(samples, labels)"
    if isinstance(data, list) or hasattr(data, "shape"):
        return f"pass the labels as well: {name}=(samples, labels)"
    return None
