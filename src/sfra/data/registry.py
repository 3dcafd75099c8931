"""Named data sets: what ``--data`` knows besides files and folders."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

from sfra.data.sets import FeatureSet, ImageSet

Split = Literal["train", "validation", "test"]
"""Disjoint parts of a data set."""

SPLITS: tuple[Split, ...] = ("train", "validation", "test")

Loader = Callable[[Split], FeatureSet | ImageSet]
"""From a split to its data."""

_DATASETS: dict[str, tuple[str, Loader]] = {}


def dataset(name: str, description: str) -> Callable[[Loader], Loader]:
    """Register the decorated loader under a name.

    A new data set is one function in one file that :mod:`sfra.data` imports::

        @dataset("digits", "1,797 handwritten digits, 1x8x8, 10 classes")
        def digits(split: Split) -> ImageSet: ...
    """

    def register(loader: Loader) -> Loader:
        if name in _DATASETS:
            raise ValueError(f"two data sets are called {name!r}: choose another name")
        _DATASETS[name] = (description, loader)
        return loader

    return register


def datasets() -> dict[str, str]:
    """Return the name and one-line description of every named data set, sorted by name."""
    return {name: _DATASETS[name][0] for name in sorted(_DATASETS)}


def loader_of(name: str) -> Loader | None:
    """Return the loader of a named data set, or None."""
    return _DATASETS[name][1] if name in _DATASETS else None
