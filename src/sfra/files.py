"""Files in and out: plain arrays only, read without running anything, written whole or not at all."""

from __future__ import annotations

import io
import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load as parse_safetensors
from torch import Tensor

from sfra.errors import InputError


def read_arrays(source: Path) -> dict[str, Tensor]:
    """Read every array of numbers in a ``.safetensors`` or ``.npz`` file without unpickling anything."""
    if not source.is_file():
        raise InputError("there is no such file", got=source, do="check the path")
    try:
        if source.suffix == ".safetensors":
            return parse_safetensors(source.read_bytes())
        if source.suffix == ".npz":
            with source.open("rb") as file, np.load(file, allow_pickle=False) as archive:
                arrays = {name: np.asarray(archive[name]) for name in archive.files}
            return {name: torch.from_numpy(array) for name, array in arrays.items() if array.dtype.kind in "biuf"}
    except Exception as problem:  # bytes of a stranger: the parsers raise whatever they run into
        raise InputError(
            f"{source.name} cannot be read",
            expected=f"a complete {source.suffix} file of plain arrays",
            got=f"{type(problem).__name__}: {problem}",
            do="it may be truncated or hold pickled objects: save or download it again",
        ) from None
    raise InputError("this is not a file of arrays", expected="a .safetensors or .npz file", got=source.name)


def write_npz(target: Path, **arrays: NDArray[Any]) -> None:
    """Write arrays to an ``.npz`` file, whole or not at all."""
    buffer = io.BytesIO()
    np.savez(buffer, allow_pickle=False, **arrays)
    write_atomically(target, buffer.getvalue())


def write_atomically(target: Path, content: bytes) -> None:
    """Write to a temporary neighbour, then rename: a reader sees the old file or the new, never a part."""
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.chmod(name, 0o666 & ~_umask())
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise


def _umask() -> int:
    """Return the permissions that new files are denied; there is no way to ask without setting."""
    mask = os.umask(0o077)
    os.umask(mask)
    return mask
