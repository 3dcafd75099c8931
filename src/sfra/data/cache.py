"""What was computed once and is kept on disk: features of an encoder, and decoded images.

Everything is renamed into place when complete, so processes may share the folder, and can be deleted at any time. A
cache that cannot be used is never an error.
"""

from __future__ import annotations

import contextlib
import dataclasses
import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path

import msgspec
import numpy as np
import torch
from safetensors.torch import save as dump_safetensors
from torch import Tensor

from sfra.core.errors import InputError
from sfra.core.files import alone, read_arrays, write_atomically
from sfra.data.decode import decode_all
from sfra.data.sets import CHUNK, ArrayPixels, ImageSet, Transform, hash_arrays

VERSION = 1
"""Raised when the same images and model would give other features than before."""

LAYOUT = 2
"""Raised when the same files would be decoded to other pixels, or kept otherwise, than before."""

SMALL = 4 * 2**20
"""Images in files of fewer bytes are not kept: they are decoded in well under a second."""

Sets = dict[str, ImageSet]
"""Image sets that come from one source, by name."""

_log = logging.getLogger(__name__)


def cache_folder() -> Path | None:
    """Return ``$SFRA_CACHE``, else ``sfra`` in the user's cache folder, if there is one."""
    own = os.environ.get("SFRA_CACHE")
    if own:
        return Path(own)
    try:
        return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sfra"
    except RuntimeError:
        return None


def features_path(model_fingerprint: str, images: ImageSet, preprocess: Transform | None) -> Path | None:
    """Return where these features belong, or None if the preprocessing cannot be told from others."""
    folder, preprocessing = cache_folder(), _describe_preprocess(preprocess)
    if folder is None or preprocessing is None:
        return None
    parts = [VERSION, model_fingerprint, images.fingerprint, preprocessing]
    return folder / "features" / f"{hashlib.sha256(json.dumps(parts).encode()).hexdigest()}.safetensors"


def _describe_preprocess(preprocess: Transform | None) -> str | None:
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


def read_features(path: Path) -> Tensor | None:
    """Read cached features; None if there are none, or they are not those that were written there."""
    if not path.is_file():
        return None
    try:
        arrays = read_arrays(path)
        features, found = arrays["features"], bytes(arrays["checksum"].tolist())
        if features.ndim != 2 or features.dtype != torch.float32 or found != _checksum(path, features):
            raise ValueError("the checksum does not fit")  # noqa: TRY301
    except (InputError, KeyError, ValueError, TypeError) as problem:
        _log.warning("the cached features are damaged and will be made again: %s", problem)
        return None
    return features


def write_features(path: Path, features: Tensor) -> None:
    """Store features with a checksum, or do nothing where the folder cannot be written."""
    checksum = torch.tensor(list(_checksum(path, features)), dtype=torch.uint8)
    try:
        write_atomically(path, dump_safetensors({"features": features.contiguous(), "checksum": checksum}))
    except OSError as problem:
        _log.info("the features are not cached: %s", problem)


def _checksum(path: Path, features: Tensor) -> bytes:
    """Sum up features together with the name of their file, which stands for the model and the images."""
    return hashlib.sha256(f"{path.name} {hash_arrays(features)}".encode()).digest()


def decode_once(what: str, files: Sequence[str | Path], make: Callable[[], Sets]) -> Sets:
    """Return image sets from the cache, or make, decode and keep them.

    An entry is a folder ``decoded/<key>`` with ``<set>.npy`` (uint8 ``[n, c, h, w]``), which is mapped into memory and
    not read, and ``sets.json``. The key stands for the source: its path, and the names, sizes and
    dates of its files; ``what`` tells apart what is made of the same files. Small sources, and images of several sizes,
    stay as they are made.
    """
    names = [os.path.abspath(path) for path in files]
    stats = [os.stat(name) for name in names]
    folder = cache_folder()
    if folder is None or sum(stat.st_size for stat in stats) < SMALL:
        return make()
    identity = [LAYOUT, what, names, [(stat.st_size, stat.st_mtime_ns) for stat in stats]]
    entry = folder / "decoded" / hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]
    found = _open(entry)
    if found:
        return found
    lock = entry.parent / f"{entry.name}.lock"  # a folder: others wait that would decode the same
    with contextlib.suppress(OSError):
        lock.mkdir(parents=True, exist_ok=True)
    with alone(lock):
        return _open(entry) or _keep(entry, {name: decode_all(images) for name, images in make().items()})


class _Note(msgspec.Struct, frozen=True, kw_only=True):
    """What is stored of a set besides its pixels."""

    date: int
    """When the pixels were written, in nanoseconds."""
    pixels: str
    """Fingerprint of the pixels."""
    labels: list[int]
    checked: str
    """Hash of the labels."""
    class_names: tuple[str, ...] | None
    source: str


def _open(entry: Path) -> Sets | None:
    """Map the sets of an entry; None if there is none, or it is damaged."""
    if not entry.is_dir():
        return None
    try:
        notes = msgspec.json.decode((entry / "sets.json").read_bytes(), type=dict[str, _Note])
        return {name: _open_set(entry, name, note) for name, note in notes.items()}
    except (OSError, ValueError, TypeError, EOFError, msgspec.MsgspecError) as problem:
        _log.warning("decoded images are damaged and will be made again: %s", problem)
        return None


def _open_set(entry: Path, name: str, note: _Note) -> ImageSet:
    images = np.load(entry / f"{name}.npy", mmap_mode="r", allow_pickle=False)
    labels = torch.tensor(note.labels, dtype=torch.int64)
    # A file whose date is as it was left has not been written to; otherwise its content decides.
    if _date(entry, name) != note.date and ArrayPixels(images).fingerprint() != note.pixels:
        raise ValueError(f"the pixels of {name} changed")
    if hash_arrays(labels) != note.checked:
        raise ValueError(f"the labels of {name} changed")
    pixels = ArrayPixels(images, None, note.pixels)
    return ImageSet(pixels=pixels, labels=labels, class_names=note.class_names, source=note.source)


def _keep(entry: Path, made: Sets) -> Sets:
    """Store sets and return them mapped; return them as they are where that is not possible."""
    if not all(isinstance(images.pixels, ArrayPixels) for images in made.values()):
        return made
    try:
        for stale in entry.parent.glob(f".{entry.name}.*"):
            shutil.rmtree(stale, ignore_errors=True)
        with tempfile.TemporaryDirectory(dir=entry.parent, prefix=f".{entry.name}.") as place:
            folder = Path(place, "whole")
            folder.mkdir()
            notes = {name: _write_set(folder, name, images) for name, images in made.items()}
            (folder / "sets.json").write_bytes(msgspec.json.encode(notes))
            if entry.exists():
                shutil.rmtree(entry)
            os.rename(folder, entry)
    except OSError as problem:
        _log.info("the decoded images are not kept: %s", problem)
        return made
    return _open(entry) or made


def _write_set(folder: Path, name: str, images: ImageSet) -> _Note:
    pixels = images.pixels
    shape = (len(pixels), *(pixels.shape or ()))
    target = np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=np.uint8, shape=shape)
    for start in range(0, len(pixels), CHUNK):
        target[start : start + CHUNK] = next(pixels.pieces(start, start + CHUNK)).numpy()
    target.flush()
    return _Note(
        date=_date(folder, name),
        pixels=ArrayPixels(target).fingerprint(),
        labels=images.labels.tolist(),
        checked=hash_arrays(images.labels),
        class_names=images.class_names,
        source=images.source,
    )


def _date(folder: Path, name: str) -> int:
    return (folder / f"{name}.npy").stat().st_mtime_ns
