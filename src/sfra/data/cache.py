"""Extracted features on disk, under the hash of everything that determines them.

A cached file holds ``features`` and ``labels`` only, and can be deleted at any time. Files are renamed into
place when complete, so processes may share the folder. A cache that cannot be used is never an error.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import logging
import os
from pathlib import Path

import torch
from safetensors.torch import save as dump_safetensors
from torch import Tensor

from sfra.core.errors import InputError
from sfra.core.files import read_arrays, write_atomically
from sfra.data.sets import ImageSet, Transform

VERSION = 1
"""Raised when the same model, data and preprocessing would give other features than before."""

_log = logging.getLogger(__name__)


def cache_folder() -> Path | None:
    """Return ``$SFRA_CACHE/features``, else ``sfra/features`` in the user's cache folder, if there is one."""
    own = os.environ.get("SFRA_CACHE")
    if own:
        return Path(own) / "features"
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sfra" / "features"
    except RuntimeError:
        return None


def cache_path(model_fingerprint: str, images: ImageSet, preprocess: Transform | None) -> Path | None:
    """Return where these features belong, or None if the preprocessing cannot be told from others."""
    folder, preprocessing = cache_folder(), describe_preprocess(preprocess)
    if folder is None or preprocessing is None:
        return None
    parts = [VERSION, model_fingerprint, images.fingerprint, preprocessing]
    return folder / f"{hashlib.sha256(json.dumps(parts).encode()).hexdigest()}.safetensors"


def describe_preprocess(preprocess: Transform | None) -> str | None:
    """Describe a preprocessing so that equal descriptions mean equal functions; None if that cannot be done.

    It can be done for a ``fingerprint`` of its own and for a dataclass whose fields are plain values. The
    name of a function, or its place in memory, would be no guarantee.
    """
    if preprocess is None:
        return "none"
    own = getattr(preprocess, "fingerprint", None)
    if isinstance(own, str):
        return own
    kind = type(preprocess)
    if not dataclasses.is_dataclass(preprocess):
        return None
    try:
        return json.dumps([kind.__module__, kind.__qualname__, dataclasses.asdict(preprocess)])
    except TypeError:
        return None


def read_features(path: Path, labels: Tensor) -> Tensor | None:
    """Read cached features of samples with these labels; None if there are none, or the file is damaged."""
    if not path.is_file():
        return None
    try:
        arrays = read_arrays(path)
    except InputError as problem:
        _log.warning("the cached features are damaged and will be made again: %s", problem)
        return None
    features, found = arrays.get("features"), arrays.get("labels")
    if features is None or found is None or not torch.equal(found, labels):
        return None
    whole = features.ndim == 2 and len(features) == len(labels) and features.dtype == torch.float32
    return features if whole and bool(torch.isfinite(features).all()) else None


def write_features(path: Path, features: Tensor, labels: Tensor) -> None:
    """Store features, or do nothing where the folder cannot be written."""
    content = dump_safetensors({"features": features.contiguous(), "labels": labels.contiguous()})
    try:
        write_atomically(path, content)
    except OSError as problem:
        _log.info("the features are not cached: %s", problem)
