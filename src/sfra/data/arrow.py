"""Columns of tables on disk, read by PyArrow: Parquet files, and the Arrow streams that ``save_to_disk`` writes.

Only columns of values are read, and never more than the memory holds.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfra.core.errors import InputError, MissingPackageError
from sfra.core.files import refuse_growth

LABELS = ("label", "labels", "class", "target")
"""Names of a column of labels that is not declared as such."""

ROWS = 256
"""Rows of a Parquet file that are read at once."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns of a table count."""

    image: str
    """Encoded images."""
    label: str
    """Class indices, or class names."""
    names: tuple[str, ...] | None
    """Name of each class index, where the table declares them."""


def find_columns(
    file: Path, *, image: str | None = None, label: str | None = None, prefer: Sequence[str] = ()
) -> Columns:
    """Find the columns of images and of labels, as named or (``prefer``, best first) expected, or ask which it is."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
        from pyarrow import types
    except ImportError as problem:
        do = "pip install 'sfra[parquet]'"
        raise MissingPackageError("tables of images need PyArrow", got=problem, do=do) from None
    try:
        if file.suffix == ".parquet":
            schema = pq.ParquetFile(file).schema_arrow
        else:
            with pa.memory_map(str(file)) as source:
                schema = pa.ipc.open_stream(source).schema
        names: list[str] = schema.names
        images = [field.name for field in schema if _holds_images(field.type)]
        holds_labels = (types.is_integer, types.is_string, types.is_large_string)
        likely = [
            field.name for field in schema if field.name in LABELS and any(is_a(field.type) for is_a in holds_labels)
        ]
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{file} cannot be read", expected="a table", got=str(problem).partition("\n")[0]) from None
    declared = _declared(schema, file)
    known = [name for name in prefer if name in names][:1] or [name for name in names if name in declared] or likely
    chosen = _choose(file, "label", label, known, names)
    return Columns(image=_choose(file, "image", image, images, names), label=chosen, names=declared.get(chosen))


def read_column(file: Path, name: str) -> list[Any]:
    """Read one column of a table as Python values; of images, the bytes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values: list[Any] = []
    size = 0
    try:
        for column in _parts(file, name):
            part = pc.struct_field(column, "bytes") if pa.types.is_struct(column.type) else column
            values += part.to_pylist()
            size += part.nbytes
            refuse_growth(file, size)
    except (pa.ArrowException, OSError, KeyError, UnicodeDecodeError, struct.error) as problem:
        raise InputError(
            f"{file} cannot be read",
            expected="a complete table",
            got=f"{type(problem).__name__}: {problem}",
            do="it may be truncated: save or download it again",
        ) from None
    return values


def decompressed_bytes(message: Any) -> int:
    """Return how many bytes the values of a ``pyarrow.ipc.Message`` take once decompressed; 0 if not compressed.

    PyArrow cannot bound what it decompresses, so the sizes are looked up by hand. The metadata are a flatbuffer: a
    table begins with the distance back to the 16-bit places of its fields, 0 for one that is left out. Every
    compressed buffer of the body begins with its size before compression, -1 if it is as it was.

    Raises:
        struct.error: The metadata point outside of themselves.
    """
    metadata = memoryview(message.metadata)

    def number(form: str, place: int, content: memoryview = metadata) -> int:
        if place < 0:
            raise struct.error("a place before the beginning")
        return int(struct.unpack_from(form, content, place)[0])

    def field(table: int, index: int) -> int:
        """Return where a field of a table is, 0 if it is left out."""
        places = table - number("<i", table)
        there = number("<H", places + 4 + 2 * index) if 4 + 2 * index < number("<H", places) else 0
        return table + there if there else 0

    def inner(table: int, index: int) -> int:
        """Return where the table or list is that a field points to, 0 if it is left out."""
        place = field(table, index)
        return place + number("<I", place) if place else 0

    root = number("<I", 0)
    kind = number("<B", field(root, 1)) if field(root, 1) else 0
    batch = inner(root, 2) if kind in (2, 3) else 0  # a dictionary, or a batch of rows; a schema has no values
    batch = inner(batch, 1) if batch and kind == 2 else batch
    buffers = inner(batch, 2) if batch and field(batch, 3) else 0  # the fourth field is there if it is compressed
    if not buffers:
        return 0
    body = memoryview(message.body)
    places = range(buffers + 4, buffers + 4 + 16 * number("<I", buffers), 16)
    filled = (place for place in places if number("<q", place + 8) >= 8)
    return sum(max(0, number("<q", number("<q", place), body)) for place in filled)


def _parts(file: Path, name: str) -> Iterator[Any]:
    """Yield a column part by part: a value that many rows share takes little room in a file, and much in memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if file.suffix == ".parquet":
        table = pq.ParquetFile(file)
        refuse_growth(file, 8 * table.metadata.num_rows)  # the least that a list of so many values takes
        for batch in table.iter_batches(ROWS, columns=[name]):
            yield batch.column(name)
        return
    with pa.memory_map(str(file)) as source:
        for message in pa.ipc.MessageReader.open_stream(source):
            refuse_growth(file, decompressed_bytes(message))
        source.seek(0)
        for batch in pa.ipc.open_stream(source):
            batch.validate(full=True)
            yield batch.column(name)


def _holds_images(kind: Any) -> bool:
    from pyarrow import types

    if types.is_struct(kind):
        return any(field.name == "bytes" and _holds_images(field.type) for field in kind)
    return bool(types.is_binary(kind) or types.is_large_binary(kind))


def _declared(schema: Any, file: Path) -> dict[str, tuple[str, ...]]:
    """Return the class names that Hugging Face notes for columns of labels."""
    texts = [(schema.metadata or {}).get(b"huggingface", b"{}")]
    if (file.parent / "dataset_info.json").is_file():
        texts.append((file.parent / "dataset_info.json").read_bytes())
    found: dict[str, tuple[str, ...]] = {}
    for text in texts:
        try:
            notes = json.loads(text)
            features = notes.get("info", notes).get("features") or {}
            for name, kind in features.items():
                if isinstance(kind, dict) and kind.get("_type") == "ClassLabel" and kind.get("names"):
                    found.setdefault(name, tuple(str(entry) for entry in kind["names"]))
        except (ValueError, AttributeError, TypeError, RecursionError):
            continue
    return found


def _choose(file: Path, role: str, named: str | None, found: Sequence[str], columns: Sequence[str]) -> str:
    if named is not None and named in columns:
        return named
    if named is None and len(found) == 1:
        return found[0]
    every = ", ".join(columns)
    raise InputError(
        f"the column of {role}s is not clear in {file.name}" if named is None else f"{file.name} has no column {named}",
        expected=f"one column of {role}s" if named is None else f"one of {every}",
        got=(", ".join(found) or f"none among {every}") if named is None else named,
        do=f"name it after the path: PATH?{role}={next(iter(found), 'COLUMN')}",
    )
