"""Files of tensors, told apart by what they hold and not by their names; nothing in them is ever executed."""

from __future__ import annotations

import argparse
import pickle
import pickletools
import re
import warnings
import zipfile
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load as parse_safetensors
from torch import Tensor
from torch.utils._python_dispatch import is_traceable_wrapper_subclass

from sfra.core.errors import InputError, UnsafeFileError
from sfra.core.files import EMPTY, refuse_growth
from sfra.release.base import one_line, read_json, unreadable
from sfra.release.foreign import DEQUANTISE, HEAD_OF, known_archive

DEEPEST = 4
"""Levels of nesting that are looked through."""

LONGEST = 200
"""Letters of a file's name; longer ones are no names that file systems take."""

INDEX_ENDING = ".index.json"
"""How the list of the files of a sharded checkpoint is called."""


class Ignored:
    """What stands for a value that is no tensor: it takes whatever a pickle gives it, and keeps nothing."""

    def __init__(self, *_: object) -> None:
        pass

    def __setstate__(self, _: object) -> None:
        pass


HARMLESS: list[Any] = [
    argparse.Namespace,
    *((Ignored, f"numpy.{name}") for name in ("dtype", "ndarray")),
    *((Ignored, f"numpy.{c}.multiarray.{name}") for c in ("core", "_core") for name in ("scalar", "_reconstruct")),
    *((Ignored, f"{home}.{name}Path") for home in ("pathlib", "pathlib._local") for name in ("Posix", "Windows")),
]
"""What training scripts save beside tensors and plain values. Of NumPy and pathlib nothing is called, only ignored."""

COMPLETE = "a complete file that torch.save wrote"
CONVERT = "in a place you trust: torch.save(model.state_dict(), 'weights.pt'), or safetensors.torch.save_file"


@dataclass(frozen=True, kw_only=True)
class Checkpoint:
    """All tensors of a file, or of the files that an index names."""

    name: str
    """The file's name."""
    parts: Mapping[str, Mapping[str, Tensor]]
    """Names with tensors, under the keys that lead to them, joined by dots; ``""`` is the top of the file."""
    ordered: bool
    """Whether the tensors stand in the order of the layers; safetensors lose it."""


def looks_like_tensors(file: Path) -> bool:
    """Tell from the first bytes whether a file may hold tensors: safetensors, a zip archive, a pickle, or an index."""
    if file.name.endswith(INDEX_ENDING):
        return True
    with file.open("rb") as opened:
        start = opened.read(9)
    pickled = start[:1] == b"\x80" and start[1:2] in (b"\x02", b"\x03", b"\x04", b"\x05")
    return start.startswith(b"PK") or pickled or _is_safetensors(file)


def read_checkpoint(file: Path) -> Checkpoint:
    """Read every tensor of a file, or of the files that its index names."""
    sharded = file.name.endswith(INDEX_ENDING)
    part = re.search(r"-0*(\d+)-of-0*(\d+)\.\w+$", file.name)
    if part is not None and part[2] != "1":
        raise InputError(
            f"{file.name} is one of several files of a checkpoint",
            expected=f"their index, called NAME{INDEX_ENDING}",
            got=f"part {part[1]} of {part[2]}",
            do="pass the index that lies beside it: the files that it names are read together",
        )
    contents = [_read(shard) for shard in (read_index(file) if sharded else [file])]
    parts: dict[str, dict[str, Tensor]] = {}
    for content in contents:
        for key, tensors in _parts(content).items():
            parts[key] = parts.get(key, {}) | tensors
    if not parts:
        found = sorted(map(str, contents[0])) if isinstance(contents[0], Mapping) else type(contents[0]).__name__
        raise InputError(
            f"{file.name} holds no state dict", expected="names with tensors", got=one_line(found or "nothing", 120)
        )
    for tensors in parts.values():
        _check_backed(tensors, file.name)
    return Checkpoint(name=file.name, parts=parts, ordered=not sharded and not _is_safetensors(file))


def read_index(index: Path, suffixes: Collection[str] = (".safetensors", ".bin")) -> list[Path]:
    """Return the files next to an index that it names, all of them there."""
    mapping = read_json(index).get("weight_map")
    if not isinstance(mapping, dict) or not mapping or not all(isinstance(n, str) for n in mapping.values()):
        raise InputError(f"{index.name} cannot be used", expected="a 'weight_map' from names to files")
    names = sorted(set(mapping.values()))
    outside = [name for name in names if Path(name).name != name or Path(name).suffix not in suffixes]
    outside += [name for name in names if len(name) > LONGEST]
    if outside:
        raise UnsafeFileError(
            f"{index.name} names files that are not weights of this directory: none was opened",
            expected=f"names of {' or '.join(suffixes)} files next to it",
            got=one_line(outside[0], 120),
        )
    missing = [name for name in names if not (index.parent / name).is_file()]
    if missing:
        raise InputError(
            f"{index.parent.name} is incomplete",
            expected=f"all {len(names)} weight files that {index.name} names",
            got=f"{len(missing)} missing: {one_line(', '.join(missing[:3]))}",
            do="download or copy the directory again",
        )
    return [index.parent / name for name in names]


def _is_safetensors(file: Path) -> bool:
    """Look for the length of a header that fits into the file, and the brace with which it begins."""
    with file.open("rb") as opened:
        start = opened.read(9)
    return start[8:] == b"{" and int.from_bytes(start[:8], "little") <= file.stat().st_size


def _read(file: Path) -> object:
    if file.suffix != ".safetensors" and not _is_safetensors(file):
        return _read_torch(file)
    try:
        return dict(sorted(parse_safetensors(file.read_bytes()).items()))  # as parsed, they are in any order
    except Exception as problem:  # bytes of a stranger: the parser raises whatever it runs into
        raise unreadable(file, problem, expected="a complete .safetensors file") from None


def _parts(content: object) -> dict[str, dict[str, Tensor]]:
    """Find everything in what a training script saved that maps names to tensors."""
    parts: dict[str, dict[str, Tensor]] = {}
    seen: set[int] = set()
    level: list[tuple[str, object]] = [("", content)]
    for _ in range(DEEPEST):
        deeper: list[tuple[str, object]] = []
        for path, inner in level:
            if not isinstance(inner, Mapping) or id(inner) in seen:
                continue
            seen.add(id(inner))
            named = {key: value for key, value in inner.items() if isinstance(key, str)}
            tensors = {key: value for key, value in named.items() if isinstance(value, Tensor)}
            parts |= {path: parts.get(path, {}) | tensors} if tensors else {}
            deeper += [(f"{path}.{key}".removeprefix("."), value) for key, value in named.items()]
        level = deeper
    return parts


def _check_backed(weights: Mapping[str, Tensor], name: str) -> None:
    """Refuse tensors that are not dense and real, or whose shape claims more numbers than the file holds for them."""
    for key, tensor in weights.items():
        if is_traceable_wrapper_subclass(tensor):
            got = one_line(f"{key}: {type(tensor).__name__}", 120)
            raise InputError(f"{name} holds tensors that are not plain numbers", got=got, do=DEQUANTISE)
        plain = tensor.layout is torch.strided and not (
            tensor.is_quantized or tensor.is_nested or tensor.is_complex() or tensor.is_meta
        )
        if not plain or tensor.numel() * tensor.element_size() > tensor.untyped_storage().nbytes():
            what = "nested" if tensor.is_nested else f"{list(tensor.shape)}, {tensor.dtype}, {tensor.layout}"
            raise InputError(
                f"{name} holds a tensor that is not plain numbers",
                expected="dense tensors of real numbers, with every element in the file",
                got=one_line(f"{key}: {what}", 120),
                do="save it again from a dense, contiguous copy",
            )


def _read_torch(file: Path) -> object:
    """Read with the restricted unpickler; name what it refused."""
    if file.stat().st_size == 0:
        raise unreadable(file, EMPTY, expected=COMPLETE)
    _refuse_archive(file)
    try:
        with warnings.catch_warnings(), torch.serialization.safe_globals(HARMLESS):
            warnings.simplefilter("ignore")
            return torch.load(file, map_location="cpu", weights_only=True)
    except pickle.UnpicklingError as problem:
        names = _refused_globals(str(problem), file)
        if names:
            raise UnsafeFileError(
                f"{file.name} holds more than tensors, and opening it could run code: it was not opened",
                expected="a state dict: names with tensors",
                got=f"a pickle that calls for {one_line(', '.join(names[:3]), 120)}",
                do=HEAD_OF if any(name.startswith("sklearn.") for name in names) else f"convert it {CONVERT}",
            ) from None
        raise unreadable(file, "not a file that torch.save wrote", expected=COMPLETE) from None
    except (KeyError, IndexError, AttributeError, TypeError, ValueError):  # text and other bytes, taken for a pickle
        raise unreadable(file, "not a file that torch.save wrote", expected=COMPLETE) from None
    except Exception as problem:
        raise unreadable(file, f"{type(problem).__name__}: {problem}", expected=COMPLETE) from None


def _refuse_archive(file: Path) -> None:
    """Refuse an archive with code, and one that would fill the memory."""
    try:
        with zipfile.ZipFile(file) as archive:
            members = {Path(member).name for member in archive.namelist()}
            size = sum(member.file_size for member in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as problem:
        with file.open("rb") as opened:
            if opened.read(2) == b"PK":  # torch may open what cannot be looked at here
                raise unreadable(file, problem, expected=COMPLETE) from None
        return
    refuse_growth(file, size)
    if "constants.pkl" in members or "data.pkl" not in members:
        what = "a TorchScript archive" if "constants.pkl" in members else one_line(sorted(members)[:4], 120)
        got, do = known_archive(members) or (what, f"save the weights {CONVERT}; or export the model to ONNX")
        raise UnsafeFileError(
            f"{file.name} is not a state dict but another archive: it was not opened",
            expected="a state dict: names with tensors",
            got=got,
            do=do,
        )


def _refused_globals(message: str, file: Path) -> list[str]:
    """Name what a pickle would call: from torch's message, or by reading the pickle without running it."""
    named = re.search(r"GLOBAL ([\w.]+)", message)
    if named:
        return [named.group(1)]
    names: list[str] = []
    strings: list[str] = []
    try:
        for opcode, argument, _ in pickletools.genops(file.read_bytes()):
            if opcode.name == "STACK_GLOBAL":
                names.append(".".join(strings[-2:]))
            elif opcode.name in ("GLOBAL", "INST"):
                names.append(str(argument).replace(" ", "."))
            elif isinstance(argument, str):
                strings.append(argument)
    except Exception:  # noqa: S110 - a damaged pickle: what was read so far is the answer
        pass
    return names
