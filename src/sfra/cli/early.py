"""Refuse files that are of no use at once: torch takes longer to import than to say so."""

from __future__ import annotations

import zipfile
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from sfra.core.refusals import forget_out_of_range, head_not_finite, no_audit, other_width

LARGEST = 2**26
"""Bytes of a head that is looked at; of a larger one the audit itself tells."""


def check_head_file(model: str, forget: Sequence[str], data: str | None, *, missing_row: bool) -> None:
    """Refuse an ``.npz`` head that is not finite, has no such output, or is not as wide as the features.

    Whatever else is wrong with the files is left to the audit, which reads them with care.
    """
    head: dict[str, Any] = {}
    width: int | None = None
    with suppress(Exception):
        head = _small_arrays(model) if _archive(model) else {}
    with suppress(Exception):
        width = _width(data) if data is not None and _archive(data) else None
    weight, bias = head.get("weight"), head.get("bias")
    if weight is None or weight.ndim != 2 or (bias is not None and bias.shape != weight.shape[:1]):
        return
    import numpy as np

    for name, values in head.items():
        with np.errstate(over="ignore"):
            bad = int((~np.isfinite(values.astype(np.float32))).sum())
        if bad:
            raise head_not_finite(name, bad, values.size)
    labels = sorted({int(text) for text in forget if text.isdecimal()})
    if not missing_row and labels and labels[-1] >= len(weight) + len(forget):
        raise forget_out_of_range(len(weight), labels)
    if width is not None and width != weight.shape[1]:
        raise other_width(weight.shape[1], width)


def check_audits(results: Sequence[Path]) -> None:
    """Refuse a path that holds no audit.json, neither itself nor in a folder of it."""
    for path in results:
        if not path.is_file() and not any(path.glob("audit.json")) and not any(path.glob("*/audit.json")):
            raise no_audit(path)


def _archive(path: str) -> bool:
    """Tell a file from what never ends when it is read, such as a pipe."""
    return Path(path).suffix == ".npz" and Path(path).is_file()


def _small_arrays(path: str) -> dict[str, Any]:
    """Read weight and bias, unless they are large or not numbers."""
    import numpy as np

    with zipfile.ZipFile(path) as members:
        if sum(member.file_size for member in members.infolist()) > LARGEST:
            return {}
    with np.load(path, allow_pickle=False) as archive:
        if {*archive.files} - {"weight", "bias"}:
            return {}
        arrays = {name: archive[name] for name in archive.files}
    return {name: array for name, array in arrays.items() if array.dtype.kind in "iuf"}


def _width(path: str) -> int | None:
    """Read how wide the features of a file are, off its header."""
    from numpy.lib import format as npy

    with zipfile.ZipFile(path) as members, members.open("features.npy") as file:
        version = npy.read_magic(file)
        shape, _, kind = (npy.read_array_header_1_0 if version == (1, 0) else npy.read_array_header_2_0)(file)
    return int(shape[1]) if len(shape) == 2 and kind.kind == "f" else None
