"""Data that lies in arrays: ``.npz`` and ``.safetensors`` files, and pairs handed over in Python."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import ArrayLike
from torch import Tensor

from sfra.core.errors import InputError
from sfra.core.files import read_columns
from sfra.core.pixels import foreign_range
from sfra.data.sets import SORTED, ArrayPixels, FeatureSet, ImageSet

CHANNELS = (1, 3)
"""Grey and colour: what tells the channel axis of uint8 images from height and width."""

KINDS = ("features", "images", "inputs")
"""What the samples of a file, or of a mapping, are called."""


def load_file(path: Path) -> FeatureSet | ImageSet:
    """Read ``features``, ``images`` or ``inputs``, and ``labels`` from a file of arrays."""
    arrays = read_columns(path)
    return from_mapping(arrays, path.name, do="it holds a head: pass it as the model" if "weight" in arrays else None)


def from_mapping(
    arrays: Mapping[str, Any], source: str = "the given arrays", *, do: str | None = None
) -> FeatureSet | ImageSet:
    """Take samples for what they are called: features of the head, images, or inputs of the network as they are."""
    found = [name for name in KINDS if name in arrays]
    if "labels" not in arrays or len(found) != 1:
        raise InputError(
            f"{source} is not a data file" if source != "the given arrays" else "the given arrays are not data",
            expected=f"the array 'labels' and one of {', '.join(map(repr, KINDS))}",
            got=", ".join(sorted(map(str, arrays))[:8]) or "no arrays",
            do=do,
        )
    samples, labels = _tensor(arrays[found[0]], found[0]), arrays["labels"]
    if found == ["images"]:
        made = image_set(samples, labels, source=source)
        _check_range(samples, source)
        return made
    if found == ["inputs"]:
        return input_set(samples, labels, source=source)
    anchor = arrays.get("anchor")
    further = None if anchor is None else _tensor(anchor, "anchor")
    return feature_set(samples, labels, anchor=further, source=source)


def from_pair(samples: ArrayLike | Tensor, labels: ArrayLike | Tensor) -> FeatureSet | ImageSet:
    """Take two-dimensional samples as features until a model says otherwise, others as images."""
    tensor = _tensor(samples, "samples")
    if tensor.ndim == 1 and getattr(labels, "ndim", 1) > 1:
        raise InputError(
            "samples and labels seem to be swapped",
            expected="a pair (samples, labels)",
            got=f"{_described(tensor)} for the samples",
            do="exchange the two: data=(samples, labels)",
        )
    if tensor.ndim == 2:
        return replace(feature_set(tensor, labels, source="the given features"), bare=True)
    made = image_set(tensor, labels, source="the given images")
    if tensor.min() >= 0:  # what is normalised has negative numbers
        _check_range(tensor, made.source)
    return made


def feature_set(
    features: Tensor, labels: ArrayLike | Tensor, *, anchor: Tensor | None = None, source: str
) -> FeatureSet:
    """Check features ``[n, d]`` of any float type, and those of synthetic images, and bring them to float32."""
    for part in (features, *([] if anchor is None else [anchor])):
        if part.ndim != 2 or part.shape[1] == 0 or not part.is_floating_point():
            what = f"the features of {source} are not a table of numbers"
            raise InputError(what, expected="floats of shape [n, d]", got=_described(part))
    further = None if anchor is None else anchor.float()
    return FeatureSet(features=features.float(), anchor=further, source=source, **numbered(labels, source))


def input_set(inputs: Tensor, labels: ArrayLike | Tensor, *, source: str) -> ImageSet:
    """Check what enters a network as it is: vectors ``[n, d]``, or tensors of any shape that are prepared already."""
    if inputs.ndim < 2 or 0 in inputs.shape[1:] or not inputs.is_floating_point():
        raise InputError(
            f"the inputs of {source} cannot enter a network",
            expected="floats of shape [n, d], or as the network takes them: nothing is scaled",
            got=_described(inputs),
            do="for bytes: inputs / 255, if the network was trained on that; or call them 'images'",
        )
    _check_finite(inputs, f"the inputs of {source}")
    return ImageSet(pixels=ArrayPixels(inputs.float().numpy()), ready=True, source=source, **numbered(labels, source))


def image_set(images: Tensor, labels: ArrayLike | Tensor, *, source: str) -> ImageSet:
    """Check images and bring them to ``[n, c, h, w]``.

    - Three dimensions are grey images ``[n, h, w]``.
    - Floats of four dimensions are ``[n, c, h, w]``, with any number of channels, and are not scaled. float16 stays,
      for its size; all others become float32. Square ones with 1 or 3 channels in the last axis are refused.
    - uint8 of four dimensions has its channels where the size is 1 or 3: axis 1, or the last. Both or
      neither is an error, not a guess.
    """
    floats = images.is_floating_point()
    if images.ndim not in (3, 4) or not (floats or images.dtype == torch.uint8) or 0 in images.shape[1:]:
        expected = "uint8 or floats of shape [n, h, w], [n, c, h, w] or (uint8) [n, h, w, c]"
        do = "if the network takes vectors, call the array 'inputs'" if images.ndim == 2 else None
        raise InputError(f"the images of {source} are not images", expected=expected, got=_described(images), do=do)
    if floats:
        _check_finite(images, f"the images of {source}")
    if images.ndim == 3:
        images = images.unsqueeze(1)
    elif not floats:
        first, last = (images.shape[axis] in CHANNELS for axis in (1, 3))
        if first == last:
            expected = "1 or 3 channels in axis 1 ([n, c, h, w]) or in the last ([n, h, w, c]), not in both"
            raise InputError(f"the layout of {source} is not clear", expected=expected, got=list(images.shape))
        images = images if first else images.permute(0, 3, 1, 2)
    elif images.shape[1] == images.shape[2] not in CHANNELS and images.shape[3] in CHANNELS:
        raise InputError(
            f"the images of {source} have their channels in the last axis",
            expected="floats of shape [n, c, h, w]",
            got=_described(images),
            do="pass images.transpose(0, 3, 1, 2); for a tensor, images.permute(0, 3, 1, 2)",
        )
    images = images.float() if floats and images.dtype != torch.float16 else images
    return ImageSet(pixels=ArrayPixels(images.numpy()), source=source, **numbered(labels, source))


def _check_range(images: Tensor, source: str) -> None:
    """Refuse floats that are no pictures: a network would be fed something else than it was trained on."""
    if found := foreign_range(images):
        raise InputError(
            f"the images of {source} are not in the range of pictures",
            expected="floats in 0 to 1, or bytes in 0 to 255",
            got=found,
            do="if they are prepared for the network already, call them 'inputs'; if not, bring them to 0 to 1",
        )


def numbered(labels: ArrayLike | Tensor, source: str) -> dict[str, Any]:
    """Return class indices and, for labels that are names, the names in sorted order, as fields of a set.

    >>> numbered(["ox", "cat", "ox"], "mine")["labels"], numbered(["ox", "cat", "ox"], "mine")["class_names"]
    (tensor([1, 0, 1]), ('cat', 'ox'))
    """
    array = None if isinstance(labels, Tensor) else np.asarray(labels)
    if array is not None and array.dtype.kind == "S":  # text as HDF5 keeps it
        array = np.char.decode(array, "utf-8", "replace")
    if array is None or array.ndim != 1 or not len(array) or not all(isinstance(one, str) for one in array.tolist()):
        return {"labels": label_tensor(labels, source)}
    texts = [text.strip() for text in array.tolist()]
    if all(re.fullmatch(r"\d{1,18}", text) for text in texts):
        return {"labels": torch.tensor([int(text) for text in texts])}
    if not all(texts):
        raise InputError(f"a label of {source} is empty", expected="a class name, or an index", got="''")
    names = sorted({*texts})
    index = {name: label for label, name in enumerate(names)}
    return {
        "labels": torch.tensor([index[text] for text in texts]),
        "class_names": tuple(names),
        "numbering": SORTED,
    }


def label_tensor(labels: ArrayLike | Tensor, source: str) -> Tensor:
    """Bring class indices of any number type to int64, refusing what is not a whole number."""
    tensor, what = _tensor(labels, "labels"), f"the labels of {source} are not class indices"
    if tensor.ndim != 1 or tensor.dtype == torch.bool or tensor.is_complex():
        do = None
        if tensor.ndim == 2:
            one_hot = 1 not in tensor.shape
            do = "if they are one-hot, pass labels.argmax(axis=1)" if one_hot else "pass labels.ravel()"
        raise InputError(what, expected="whole numbers of shape [n]", got=_described(tensor), do=do)
    whole = tensor.to(torch.int64)
    if tensor.is_floating_point() and not torch.equal(whole.to(tensor.dtype), tensor):
        strange = tensor[whole.to(tensor.dtype) != tensor][0].item()
        raise InputError(what, expected="whole numbers", got=strange)
    return whole


def _check_finite(values: Tensor, what: str) -> None:
    bad = int((~torch.isfinite(values)).flatten(1).any(dim=1).sum())
    if bad:
        raise InputError(
            f"{what} are not finite",
            expected="finite numbers",
            got=f"{bad} of {len(values)} samples hold NaN or infinity",
            do="make these samples again, or leave them and their labels out",
        )


def _tensor(values: ArrayLike | Tensor, name: str) -> Tensor:
    """View numbers as a tensor on the CPU, without a copy where possible."""
    if isinstance(values, Tensor):
        return values.detach().cpu()
    try:
        array = np.asarray(values, order="C")
        return torch.from_numpy(array if array.flags.writeable else array.copy())
    except (TypeError, ValueError) as problem:
        raise InputError(f"the {name} are not numbers", expected="an array or a tensor", got=problem) from None


def _described(tensor: Tensor) -> str:
    return f"{str(tensor.dtype).removeprefix('torch.')} of shape {list(tensor.shape)}"
