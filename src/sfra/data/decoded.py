"""Images decoded once: pixels on disk as one array that is mapped into memory, not read.

An entry is a folder ``<cache>/decoded/<key>`` with ``<set>.npy`` (uint8 ``[n, c, h, w]``), ``<set>-labels.npy``
and ``sets.json``. The key stands for the source: its path, and the names, sizes and dates of its files. Entries are
renamed into place when complete and can be deleted at any time; a cache that cannot be used is never an error.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import logging
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from sfra.data.cache import cache_folder
from sfra.data.sets import ImageSet, Pixels, hash_arrays

VERSION = 1
"""Raised when the same source would be decoded to something else than before."""

SMALL = 4 * 2**20
"""Sources of fewer bytes are not worth an entry: they are decoded in well under a second."""

CHUNK = 1024
"""Images that are copied or hashed at once."""

Sets = dict[str, ImageSet]
"""Image sets that come from one source, by name."""

_log = logging.getLogger(__name__)


@dataclass(frozen=True, eq=False, repr=False)
class MappedPixels(Pixels):
    """Images of one size in one array, in memory or mapped from a file; a selection copies nothing."""

    images: NDArray[np.uint8]
    """Pixels ``[n, c, h, w]``."""
    rows: NDArray[np.int64] | None = None
    """Which of them, in which order; None for all."""
    known: str | None = None
    """Their fingerprint, where it was computed before."""

    def __len__(self) -> int:
        return len(self.images) if self.rows is None else len(self.rows)

    @property
    def shape(self) -> tuple[int, ...]:
        """Channels, height and width."""
        return tuple(self.images.shape[1:])

    def blocks(self, start: int, stop: int) -> list[Tensor]:
        """Copy one stack."""
        part = self.images[start:stop] if self.rows is None else self.images[self.rows[start:stop]]
        return [torch.from_numpy(np.array(part))]

    def take(self, rows: Sequence[int]) -> MappedPixels:
        """Note these rows."""
        chosen = np.asarray(rows, dtype=np.int64)
        return MappedPixels(self.images, chosen if self.rows is None else self.rows[chosen])

    def fingerprint(self) -> str:
        """Hash type, shape and pixels, as for images in memory."""
        if self.known is not None:
            return self.known
        digest = hashlib.sha256(f"{(len(self), *self.images.shape[1:])} torch.uint8;".encode())
        for start in range(0, len(self), CHUNK):
            digest.update(self.blocks(start, start + CHUNK)[0].numpy().data)
        return digest.hexdigest()


def decode_once(
    what: str,
    files: Sequence[str | Path],
    make: Callable[[], Sets],
    *,
    dense: Callable[[ImageSet], ImageSet] | None = None,
) -> Sets:
    """Return image sets from the cache, or make and keep them.

    Args:
        what: Tells apart what is made of the same files.
        files: All files that determine the sets.
        make: Makes the sets.
        dense: Decodes a set to :class:`MappedPixels`, if it can; sets with other pixels are handed on, and not kept.
            Not asked for small sources, which stay as they are made.
    """
    names = [os.path.abspath(path) for path in files]
    stats = [os.stat(name) for name in names]
    features = cache_folder()
    if features is None or sum(stat.st_size for stat in stats) < SMALL:
        return make()
    identity = [VERSION, what, names, [(stat.st_size, stat.st_mtime_ns) for stat in stats]]
    entry = features.parent / "decoded" / hashlib.sha256(json.dumps(identity).encode()).hexdigest()[:32]
    found = _open(entry)
    if found is not None:
        return found
    with _alone(entry):
        found = _open(entry)
        if found is not None:
            return found
        made = make()
        return _keep(entry, made if dense is None else {name: dense(images) for name, images in made.items()})


def _open(entry: Path) -> Sets | None:
    """Map the sets of an entry; None if there is none, or it is damaged."""
    if not entry.is_dir():
        return None
    try:
        notes = json.loads((entry / "sets.json").read_text())
        return {name: _open_set(entry, name, note) for name, note in notes.items()}
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as problem:
        _log.warning("decoded images are damaged and will be made again: %s", problem)
        return None


def _open_set(entry: Path, name: str, note: dict[str, Any]) -> ImageSet:
    images = np.load(entry / f"{name}.npy", mmap_mode="r", allow_pickle=False)
    labels = torch.from_numpy(np.load(entry / f"{name}-labels.npy", allow_pickle=False))
    pixels = MappedPixels(images, None, note["pixels"])
    # A file whose date is as it was left has not been written to; otherwise its content decides.
    if _date(entry, name) != note["date"] and MappedPixels(images).fingerprint() != note["pixels"]:
        raise ValueError(f"the pixels of {name} changed")
    if images.dtype != np.uint8 or list(images.shape) != note["shape"] or hash_arrays(labels) != note["labels"]:
        raise ValueError(f"{name} is not what was stored")
    names = None if note["class_names"] is None else tuple(note["class_names"])
    return ImageSet(pixels=pixels, labels=labels, class_names=names, source=note["source"])


def _keep(entry: Path, made: Sets) -> Sets:
    """Store sets and return them mapped; return them as they are where that is not possible."""
    if not all(isinstance(images.pixels, MappedPixels) for images in made.values()):
        return made
    try:
        for stale in entry.parent.glob(f".{entry.name}.*"):
            shutil.rmtree(stale, ignore_errors=True)
        with _temporary(entry) as folder:
            notes = {name: _write_set(folder, name, images) for name, images in made.items()}
            (folder / "sets.json").write_text(json.dumps(notes))
            if entry.exists():
                shutil.rmtree(entry)
            os.rename(folder, entry)
    except OSError as problem:
        _log.info("the decoded images are not kept: %s", problem)
        return made
    return _open(entry) or made


def _write_set(folder: Path, name: str, images: ImageSet) -> dict[str, object]:
    pixels = images.pixels
    assert isinstance(pixels, MappedPixels)
    shape = (len(pixels), *pixels.images.shape[1:])
    target = np.lib.format.open_memmap(folder / f"{name}.npy", mode="w+", dtype=np.uint8, shape=shape)
    for start in range(0, len(pixels), CHUNK):
        target[start : start + CHUNK] = pixels.blocks(start, start + CHUNK)[0].numpy()
    target.flush()
    np.save(folder / f"{name}-labels.npy", images.labels.numpy(), allow_pickle=False)
    return {
        "shape": list(shape),
        "pixels": MappedPixels(target).fingerprint(),
        "labels": hash_arrays(images.labels),
        "date": _date(folder, name),
        "class_names": images.class_names,
        "source": images.source,
    }


def _date(folder: Path, name: str) -> int:
    return (folder / f"{name}.npy").stat().st_mtime_ns


@contextlib.contextmanager
def _temporary(entry: Path) -> Iterator[Path]:
    """Open a neighbour of an entry that is gone afterwards, unless it was renamed."""
    entry.parent.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=entry.parent, prefix=f".{entry.name}."))
    try:
        folder.chmod(0o755)
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextlib.contextmanager
def _alone(entry: Path) -> Iterator[None]:
    """Have other processes wait that would decode the same; go on without where files cannot be locked."""
    with contextlib.ExitStack() as stack:
        with contextlib.suppress(ImportError, OSError):
            import fcntl

            entry.parent.mkdir(parents=True, exist_ok=True)
            lock = stack.enter_context((entry.parent / f"{entry.name}.lock").open("w"))
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield
