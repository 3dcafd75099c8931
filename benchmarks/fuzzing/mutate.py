"""Change bytes, JSON and arrays at random: every change comes from the generator that it is given."""

from __future__ import annotations

import copy
import json
import random
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

ODD: tuple[Any, ...] = (
    *(None, True, False, {}, [], "", "x", 0, -1, 1, 2, 7, 2**31, 2**63, 10**30, 0.5, -0.5, 1e308, 1e-320),
    *(float("nan"), float("inf"), "NaN", "../../secret", "<script>executed()</script>", "\x1b[2J", "é" * 9, "a" * 5000),
    *([[]], [[[[1]]]], {"a": {"b": {}}}, [1, 2, 3], ["a", None], [0.5] * 100),
)
"""Values that stand where others belong."""

NUMBERS = (0.0, -0.0, 1e20, -1e20, 3e38, 1e-40, 1e-45, 1e-20, 1e6, -1e6, float("nan"), float("inf"), float("-inf"))


def change_bytes(content: bytes, chance: random.Random) -> bytes:
    """Flip, cut, repeat, zero, insert or exchange some bytes."""
    data = bytearray(content)
    for _ in range(chance.choice((1, 1, 1, 2, 4, 16))):
        if not data:
            return bytes(data)
        at, length = chance.randrange(len(data)), chance.choice((1, 2, 4, 8, 64, 1024))
        way = chance.randrange(8)
        if way < 3:
            data[at] ^= 1 << chance.randrange(8)
        elif way == 3:
            del data[at:]
        elif way == 4:
            data[at : at + length] = bytes(min(length, len(data) - at))
        elif way == 5:
            data[at : at + length] = data[at : at + length] * 2
        elif way == 6:
            data[at:at] = chance.randbytes(length)
        else:
            data[at : at + 8] = chance.choice((b"\xff" * 8, b"\x7f" + b"\xff" * 7, bytes(8), b"\xff\xff\xff\x7f"))
    return bytes(data)


def change_json(value: Any, chance: random.Random) -> Any:
    """Replace, remove, copy or rename some parts of a parsed JSON."""
    changed = copy.deepcopy(value)
    for _ in range(chance.choice((1, 1, 1, 2, 5))):
        places = list(_places(changed))
        if not places:
            return chance.choice(ODD)
        holder, key = chance.choice(places)
        way = chance.randrange(6)
        if way == 0:
            del holder[key]
        elif way == 1 and isinstance(holder, dict):
            holder[chance.choice(("", "auto_map", "x" * 300, "__proto__"))] = holder.pop(key)
        elif way == 2:
            holder[key] = copy.deepcopy(chance.choice(places)[0])
        elif way == 3 and isinstance(holder[key], (int, float)) and not isinstance(holder[key], bool):
            holder[key] = holder[key] * chance.choice((-1, 0, 2, 1000, 10**9, 0.5)) + chance.choice((0, 1, -1))
        else:
            holder[key] = copy.deepcopy(chance.choice(ODD))
    return changed


def change_text(text: str, chance: random.Random) -> bytes:
    """Change the parsed JSON, or its bytes."""
    if chance.random() < 0.2:
        return change_bytes(text.encode(), chance)
    return json.dumps(change_json(json.loads(text), chance)).encode()


def _places(value: Any) -> list[tuple[Any, Any]]:
    found: list[tuple[Any, Any]] = []
    waiting = [value]
    while waiting:
        part = waiting.pop()
        keys = list(part) if isinstance(part, dict) else range(len(part)) if isinstance(part, list) else ()
        found += [(part, key) for key in keys]
        waiting += [part[key] for key in keys]
    return found


Arrays = dict[str, NDArray[Any]]


def change_arrays(arrays: Arrays, chance: random.Random) -> Arrays:
    """Change values, kinds, shapes and names of some arrays."""
    changed = {name: array.copy() for name, array in arrays.items()}
    for _ in range(chance.choice((1, 1, 2, 3))):
        name = chance.choice([*changed])
        with np.errstate(all="ignore"):
            made = chance.choice(CHANGES)(changed[name], chance)
        if chance.random() < 0.1:
            changed[chance.choice(("weight", "bias", "features", "labels", "images", "anchor", "", "a/../b"))] = made
        elif chance.random() < 0.05:
            del changed[name]
            changed = changed or {"weight": np.zeros((0, 0))}
        else:
            changed[name] = made
    return changed


def _values(array: NDArray[Any], chance: random.Random) -> NDArray[Any]:
    if array.dtype.kind == "f" and array.size:
        places = array.reshape(-1)
        places[chance.randrange(array.size)] = np.float64(chance.choice(NUMBERS)).astype(array.dtype)
    elif array.dtype.kind in "iu" and array.size:
        array.reshape(-1)[chance.randrange(array.size)] = np.int64(
            chance.choice((-1, 0, 99, 2**31 - 1, -(2**31)))
        ).astype(array.dtype)
    return array


def _scaled(array: NDArray[Any], chance: random.Random) -> NDArray[Any]:
    factor = chance.choice((1e-45, 1e-40, 1e-38, 1e-20, 1e-6, 1e3, 1e10, 1e20, 1e30, 1e38, 0.0, -1.0))
    return (array.astype(np.float64) * factor).astype(np.float32) if array.dtype.kind in "fiu" else array


def _row(array: NDArray[Any], chance: random.Random) -> NDArray[Any]:
    if array.ndim and len(array) and array.dtype.kind in "fiu":
        row = chance.randrange(len(array))
        factor = chance.choice((0.0, 1e-30, 1e-6, 10.0, 100.0, 1e6, 1e20, -1.0))
        moved = array.astype(np.float64)
        moved[row] = moved[chance.randrange(len(array))] if chance.random() < 0.3 else moved[row] * factor
        return moved.astype(array.dtype if array.dtype.kind == "f" else np.float32)
    return array


def _kind(array: NDArray[Any], chance: random.Random) -> NDArray[Any]:
    kinds = ("f2", "f8", "i1", "u8", "i8", "?", "c8", ">f4", "S4", "U3", "M8[s]")
    return np.abs(array).astype(chance.choice(kinds)) if array.dtype.kind in "fiu" else array


def _shape(array: NDArray[Any], chance: random.Random) -> NDArray[Any]:
    def flat(array: NDArray[Any]) -> NDArray[Any]:
        return array.reshape(-1)

    ways: tuple[Callable[[NDArray[Any]], NDArray[Any]], ...] = (
        np.transpose,
        flat,
        lambda one: one[None],
        lambda one: one[:0],
        lambda one: flat(one)[:1].reshape(()) if one.size else one,
        lambda one: one[: len(one) // 2] if one.ndim else one,
        lambda one: np.concatenate([one, one]) if one.ndim else one,
        lambda one: one[..., :0],
        lambda one: np.broadcast_to(one, (3, *one.shape)).copy(),
    )
    return np.ascontiguousarray(chance.choice(ways)(array))


CHANGES = (_values, _values, _scaled, _row, _row, _kind, _shape)
