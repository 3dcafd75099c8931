"""Tables on disk with a column of images: Parquet files, and the Arrow files that ``save_to_disk`` writes.

Only columns of values are read; nothing that such a folder may hold besides is opened or run.
"""

from __future__ import annotations

import json
import os
import re
import struct
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from sfra.core.errors import InputError, MissingPackageError
from sfra.core.files import refuse_growth
from sfra.data.ipc import decompressed_bytes
from sfra.data.registry import Split

WORDS: dict[str, Split] = {
    "train": "train",
    "training": "train",
    "validation": "validation",
    "valid": "validation",
    "val": "validation",
    "dev": "validation",
    "test": "test",
    "testing": "test",
}
"""First words of file names, or names of folders, that tell a split."""

LABELS = ("label", "labels", "class", "target")
"""Names of a column of labels that is not declared as such."""

ROWS = 256
"""Rows of a Parquet file that are read at once."""

DEEPEST = 2
"""Levels of sub-folders in which Parquet files are looked for."""

Files = dict[Split | None, list[Path]]
"""The files of each split; under None where the files tell none."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """Which columns of a table count."""

    image: str
    """Encoded images."""
    label: str
    """Class indices, or class names."""
    names: tuple[str, ...] | None
    """Name of each class index, where the table declares them."""


def table_files(path: Path) -> Files:
    """List the tables of a file or folder by split; nothing if it holds none.

    A folder is one that ``save_to_disk`` wrote, or holds Parquet files, up to two levels down, whose names begin with
    the split (``train-00000-of-00002.parquet``) or whose folder is called so.
    """
    if path.is_file():
        return {None: [path]} if path.suffix == ".parquet" else {}
    if (path / "state.json").is_file():
        return {None: _saved_files(path)}
    if (path / "dataset_dict.json").is_file():
        parts = sorted(part for part in path.iterdir() if part.name in WORDS and (part / "state.json").is_file())
        return {WORDS[part.name]: _saved_files(part) for part in parts}
    found: Files = defaultdict(list)
    for file in _parquet_files(path):
        found[_split(file, path)].append(file)
    if None in found and len(found) > 1:
        del found[None]
    for split, files in found.items():
        _refuse_several_sets(path, split, files)
    return dict(found)


def find_columns(
    file: Path, *, image: str | None = None, label: str | None = None, prefer: Sequence[str] = ()
) -> Columns:
    """Find the column of images and the column of labels, or ask which it is.

    Args:
        file: One table; the others have the same columns.
        image: The column of images, if the user says.
        label: The column of labels, if the user says.
        prefer: Names of the column of labels, best first, where the data set is known.
    """
    schema = _schema(file)
    declared = _declared(schema, file)
    images = [field.name for field in schema if _holds_images(field.type)]
    classes = [name for name in schema.names if name in declared]
    classes = classes or [field.name for field in schema if field.name in LABELS and _holds_labels(field.type)]
    classes = [name for name in prefer if name in schema.names][:1] or classes
    chosen = _choose(file, "label", label, classes, schema.names)
    return Columns(image=_choose(file, "image", image, images, schema.names), label=chosen, names=declared.get(chosen))


def read_column(file: Path, name: str) -> list[Any]:
    """Read one column of a table as Python values; of images, the bytes."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values: list[Any] = []
    size = 0
    try:
        for column in _read(file, name):
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


def _read(file: Path, name: str) -> Iterator[Any]:
    """Yield a column part by part: a value that many rows share takes little room in a file, and much in memory."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    if file.suffix == ".parquet":
        for batch in pq.ParquetFile(file).iter_batches(ROWS, columns=[name]):
            yield batch.column(name)
        return
    with pa.memory_map(str(file)) as source:
        for message in pa.ipc.MessageReader.open_stream(source):
            refuse_growth(file, decompressed_bytes(message))
        source.seek(0)
        for batch in pa.ipc.open_stream(source):
            batch.validate(full=True)
            yield batch.column(name)


def _schema(file: Path) -> Any:
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError as problem:
        raise MissingPackageError(
            "tables of images need PyArrow", got=problem, do="pip install 'sfra[parquet]'"
        ) from None
    try:
        if file.suffix == ".parquet":
            schema = pq.ParquetFile(file).schema_arrow
        else:
            with pa.memory_map(str(file)) as source:
                schema = pa.ipc.open_stream(source).schema
        _decode_names(schema)
    except (pa.ArrowException, OSError, UnicodeDecodeError) as problem:
        raise InputError(f"{file} cannot be read", expected="a table", got=str(problem).partition("\n")[0]) from None
    return schema


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


def _decode_names(fields: Iterable[Any]) -> None:
    """Decode the names of columns and of their parts, which PyArrow does only when asked for them."""
    import pyarrow as pa

    for field in fields:
        str(field.name)
        _decode_names(field.type if pa.types.is_struct(field.type) else ())


def _holds_images(kind: Any) -> bool:
    import pyarrow as pa

    if pa.types.is_struct(kind):
        return any(field.name == "bytes" and _holds_images(field.type) for field in kind)
    return bool(pa.types.is_binary(kind) or pa.types.is_large_binary(kind))


def _holds_labels(kind: Any) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_string(kind) or pa.types.is_large_string(kind))


def _choose(file: Path, role: str, named: str | None, found: Sequence[str], all_names: Iterable[str]) -> str:
    if named is not None and named in all_names:
        return named
    if named is None and len(found) == 1:
        return found[0]
    columns = ", ".join(all_names)
    raise InputError(
        f"the column of {role}s is not clear in {file.name}" if named is None else f"{file.name} has no column {named}",
        expected=f"one column of {role}s" if named is None else f"one of {columns}",
        got=(", ".join(found) or f"none among {columns}") if named is None else named,
        do=f"name it after the path: PATH?{role}={next(iter(found), 'COLUMN')}",
    )


def _saved_files(folder: Path) -> list[Path]:
    """Return the files that a folder of ``save_to_disk`` lists, which must lie in it."""
    try:
        names = [entry["filename"] for entry in json.loads((folder / "state.json").read_bytes())["_data_files"]]
        files = [folder / name for name in names if Path(name).name == name and (folder / name).is_file()]
    except (ValueError, TypeError, KeyError, RecursionError):
        names, files = [], []
    if not files or len(files) != len(names):
        raise InputError(
            f"{folder} is not a complete saved data set",
            expected="the .arrow files that its state.json lists",
            got=f"{len(files)} of {len(names)}",
        )
    return files


def _parquet_files(path: Path) -> list[Path]:
    found = []
    for place, folders, names in os.walk(path):
        level = len(Path(place).relative_to(path).parts)
        folders[:] = [name for name in folders if not name.startswith(".") and level < DEEPEST]
        found += [Path(place, name) for name in names if name.endswith(".parquet") and not name.startswith(".")]
    return sorted(found)


def _split(file: Path, root: Path) -> Split | None:
    word = re.match(r"[a-z]+", file.name.lower())
    split = WORDS.get(word[0]) if word else None
    return split or next((WORDS[part] for part in reversed(file.relative_to(root).parts[:-1]) if part in WORDS), None)


def _refuse_several_sets(path: Path, split: Split | None, files: Sequence[Path]) -> None:
    folders = sorted({file.parent for file in files})
    if len(folders) > 1:
        raise InputError(
            f"{path} holds more than one data set",
            expected=f"the {split or 'table'} files in one folder",
            got=", ".join(str(folder.relative_to(path)) for folder in folders[:8]),
            do=f"name one of them after the path: PATH?folder={folders[0].relative_to(path)}",
        )
