"""What data are to a model: features or inputs, and which output each label stands for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain

import torch
from torch import Tensor

from sfra.core.errors import InputError
from sfra.data import ArrayPixels, FeatureSet, ImageSet
from sfra.data.sets import SORTED
from sfra.release import Release
from sfra.release.base import Encoder

Labelled = FeatureSet | ImageSet | None
"""Data as loaded, before any feature is extracted."""

BY_MODEL = "names as in the model"
"""How labels that are names became indices, where the model has names."""


def taken_by(release: Release, data: Labelled, names: Sequence[str] | None, *, missing: bool) -> Labelled:
    """Take data as a model does: a bare table for what fits the model, names of classes for its outputs.

    Args:
        release: The model that is measured on the data.
        data: As loaded.
        names: Names of the outputs of the audited model, where it has them.
        missing: The head has no rows for the forget classes: then names stay in sorted order.
    """
    if data is None:
        return None
    data = _as_the_model_takes(release, data)
    if data.numbering != SORTED or missing:
        return data
    if names is None:
        _check_all_named(data, release.head.classes)
        return data
    return _renumbered(data, names)


def _as_the_model_takes(release: Release, data: FeatureSet | ImageSet) -> FeatureSet | ImageSet:
    """Ask the model whether a table of numbers is its features or its inputs; a name that they have settles it."""
    if isinstance(data, ImageSet) or release.encoder is None:
        return data
    width, head = data.features.shape[1], release.head.width
    made = _made_of(release.encoder, data.features[:2], head)
    if made is None or (width == head and torch.equal(made, data.features[:2])):
        return data
    if data.bare and width != head:
        given = {name: getattr(data, name) for name in ("labels", "class_names", "numbering")}
        return ImageSet(pixels=ArrayPixels(data.features.numpy()), ready=True, source="the given inputs", **given)
    if data.bare:
        raise InputError(
            f"{data.source} may be features or inputs: the network takes {width} numbers, and so does its head",
            expected="samples with a name that says which",
            got=f"a table of {list(data.features.shape)}",
            do='data={"inputs": samples, "labels": labels}, or {"features": samples, "labels": labels}; in a file, '
            "arrays of these names",
        )
    if width != head:
        raise InputError(
            f"the features of {data.source} are not those of the head",
            expected=f"{head} numbers to a row",
            got=width,
            do="the network takes such rows: if they are its inputs, call the array 'inputs'",
        )
    return data


def _made_of(encoder: Encoder, rows: Tensor, width: int) -> Tensor | None:
    """Return what the encoder makes of some rows; None if it does not take them."""
    try:
        made = encoder(rows).cpu()
    except InputError:
        return None
    return made if made.shape == (len(rows), width) else None


def _check_all_named(data: FeatureSet | ImageSet, outputs: int) -> None:
    """Refuse names without a model that has names, unless there is one for each output: then they are sorted."""
    names = data.class_names or ()
    if len(names) != outputs:
        raise InputError(
            f"the labels of {data.source} are names, and the model has none",
            expected=f"{outputs} names, one for each output, to number them in sorted order",
            got=f"{len(names)}: {_some(names)}",
            do="pass class indices as labels",
        )


def _renumbered(data: FeatureSet | ImageSet, names: Sequence[str]) -> FeatureSet | ImageSet:
    """Number labels that are names as the model numbers its outputs; of "cat, tabby" either word will do."""
    whole, parts = dict[str, set[int]](), dict[str, set[int]]()
    for place, name in enumerate(names):
        whole.setdefault(name.strip().casefold(), set()).add(place)
        for part in name.split(","):
            parts.setdefault(part.strip().casefold(), set()).add(place)
    own = data.class_names or ()
    found = [whole.get(name.casefold()) or parts.get(name.casefold(), set()) for name in own]
    strange = [name for name, places in zip(own, found, strict=True) if len(places) != 1]
    if strange:
        raise InputError(
            f"the labels of {data.source} are names that the model does not have, or has twice",
            expected=_some(names),
            got=_some(strange),
            do="call the classes as the model does, or pass class indices as labels",
        )
    order = torch.tensor([*chain(*found)])
    return replace(data, labels=order[data.labels], class_names=tuple(names), numbering=BY_MODEL)


def _some(names: Sequence[str]) -> str:
    return ", ".join(name[:80] for name in names[:12]) + (" …" if len(names) > 12 else "")
