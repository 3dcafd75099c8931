"""What the compressed messages of an Arrow stream would grow to, read off their metadata.

The metadata of a message is a flatbuffer. A table of it begins with the distance back to a list of 16-bit places: the
place of each field in the table, 0 for one that is left out. Only the few fields that tell sizes are looked up.
"""

from __future__ import annotations

import struct
from typing import Any

DICTIONARY, BATCH = 2, 3
"""Kinds of messages that hold values."""


def decompressed_bytes(message: Any) -> int:
    """Return how many bytes the values of a ``pyarrow.ipc.Message`` take once decompressed; 0 if they are as they are.

    Every compressed buffer begins with its size before compression, -1 if it was not worth it.

    Raises:
        struct.error: The metadata point outside of themselves.
    """
    metadata = memoryview(message.metadata)
    root = _follow(metadata, 0)
    place, header = _field(metadata, root, 1), _field(metadata, root, 2)
    kind = None if place is None else _unpack("<B", metadata, place)[0]
    if header is None or kind not in (DICTIONARY, BATCH):
        return 0
    batch = _follow(metadata, header)
    if kind == DICTIONARY:
        inner = _field(metadata, batch, 1)
        if inner is None:
            return 0
        batch = _follow(metadata, inner)
    buffers = _field(metadata, batch, 2)
    if buffers is None or _field(metadata, batch, 3) is None:
        return 0
    return sum(max(0, size) for size in _sizes(metadata, _follow(metadata, buffers), memoryview(message.body)))


def _sizes(metadata: memoryview, start: int, body: memoryview) -> list[int]:
    """Read the declared size of each buffer; ``start`` is their number, then offset and length of each."""
    (count,) = _unpack("<I", metadata, start)
    places = (_unpack("<qq", metadata, start + 4 + 16 * index) for index in range(count))
    return [int(_unpack("<q", body, offset)[0]) for offset, length in places if length >= 8]


def _field(metadata: memoryview, table: int, index: int) -> int | None:
    """Return where a field of a table is; None if it is left out."""
    places = table - _unpack("<i", metadata, table)[0]
    (size,) = _unpack("<H", metadata, places)
    if 4 + 2 * index >= size:
        return None
    (place,) = _unpack("<H", metadata, places + 4 + 2 * index)
    return table + place if place else None


def _follow(metadata: memoryview, place: int) -> int:
    return place + int(_unpack("<I", metadata, place)[0])


def _unpack(form: str, content: memoryview, place: int) -> tuple[int, ...]:
    if place < 0:
        raise struct.error("a place before the beginning")
    return struct.unpack_from(form, content, place)
