"""The heads that are committed: of all models where they are small, else of those that others are measured against."""

from __future__ import annotations

import tarfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sfra.bench.tables.names import METHODS
from sfra.core.files import write_atomically

LARGEST_HEADS = 6 * 2**20
"""Bytes that the heads of a group may weigh; what is more stays behind."""


def write_heads(files: Sequence[Path], target: Path) -> None:
    """Put the heads of archives into one file, ``NAME.weight`` and ``NAME.bias`` each, as many as may be kept.

    Where all are too many, those of originals and retrained models go before those of the group's other models, and
    these before those of further protocols; what is left out is said. A masked head is the original's with zeros and
    -15 in the place of the forget row and bias, and is never kept. Of heads of the same name, those of the first
    archive stay.
    """
    from safetensors.torch import save

    heads = read_heads(files)
    chosen, total = [], 0
    for turn in range(3):
        names = [name for name in heads if _turn(name) == turn]
        total += sum(part.nbytes for name in names for part in heads[name].values())
        if total > LARGEST_HEADS:
            break
        chosen += names
    if chosen:
        kept = {f"{name}.{part}": value for name in chosen for part, value in heads[name].items()}
        write_atomically(target, save({name: kept[name].contiguous() for name in sorted(kept)}))
    left = [name for name in heads if name not in chosen]
    if left:
        weight = sum(part.nbytes for name in left for part in heads[name].values())
        print(f"heads: {len(chosen)} kept, {len(left)} of {megabytes(weight)} left out, as more than "
              f"{megabytes(LARGEST_HEADS)} are not kept: {', '.join(sorted(left))}", flush=True)  # fmt: skip


def read_heads(files: Sequence[Path]) -> dict[str, dict[str, Any]]:
    """Read the heads of archives by name, but masked ones; of the same name, those of the first archive."""
    from safetensors.torch import load

    heads: dict[str, dict[str, Any]] = {}
    for file in files:
        with tarfile.open(file) as archive:
            for member in archive:
                name = Path(member.name).stem
                stream = archive.extractfile(member) if member.name.endswith(".safetensors") else None
                if stream is not None and "heads/" in member.name and not name.startswith("masked"):
                    heads.setdefault(name, load(stream.read()))
    return heads


def _turn(name: str) -> int:
    """Say which heads are kept first: references, the group's own models, those of further protocols."""
    method = name.rpartition("-")[0] or name
    return 0 if method in ("original", "retrained") else 1 if method in METHODS else 2


def megabytes(size: int) -> str:
    """Write a number of bytes.

    >>> megabytes(3 * 2**20)
    '3.0 MiB'
    """
    return f"{size / 2**20:.1f} MiB"
