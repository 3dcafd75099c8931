"""Made-up data sets in every layout in which copies are found."""

import io
import json
import pickle
import tarfile
import zipfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray
from PIL import Image

Toy = tuple[NDArray[np.uint8], NDArray[np.int64]]


def toy(classes: int, per_class: int, *, size: int = 32, seed: int = 0) -> Toy:
    """Draw random images ``[n, 3, h, w]``, classes mixed."""
    rng = np.random.default_rng(seed)
    labels = rng.permutation(np.repeat(np.arange(classes), per_class))
    return rng.integers(0, 256, size=(len(labels), 3, size, size), dtype=np.uint8), labels


def encode(image: NDArray[np.uint8], kind: str = "png") -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(image[0] if len(image) == 1 else image.transpose(1, 2, 0)).save(buffer, kind)
    return buffer.getvalue()


def old_pickle(value: object) -> bytes:
    """Pickle as Python 2 with the numpy of its day did: byte strings as strings, and the old module name."""
    buffer = io.BytesIO()
    pickler = _PythonPickler(buffer, protocol=2)
    pickler.dispatch = {**pickler.dispatch, bytes: _save_old, str: _save_old}
    pickler.dump(value)
    return buffer.getvalue().replace(b"numpy._core.multiarray", b"numpy.core.multiarray")


_PythonPickler: Any = vars(pickle)["_Pickler"]


def _save_old(pickler: Any, value: bytes | str) -> None:
    content = value.encode() if isinstance(value, str) else value
    pickler.write(b"T" + len(content).to_bytes(4, "little") + content)
    pickler.memoize(value)


def write_batches(folder: Path, train: Toy, test: Toy, *, key: str = "labels") -> None:
    """Write the batches of CIFAR-10, or (``fine_labels``) of CIFAR-100."""
    folder.mkdir(parents=True)
    ten = key == "labels"
    parts = np.array_split(np.arange(len(train[1])), 5 if ten else 1)
    names = [f"data_batch_{i}" for i in range(1, 6)] if ten else ["train"]
    for name, rows in zip(names, parts, strict=True):
        (folder / name).write_bytes(_batch((train[0][rows], train[1][rows]), key))
    (folder / ("test_batch" if ten else "test")).write_bytes(_batch(test, key))
    (folder / ("batches.meta" if ten else "meta")).write_bytes(b"not read")


def _batch(part: Toy, key: str) -> bytes:
    images, labels = part
    notes = {"batch_label": "one of many", "filenames": ["a.png"] * len(labels), "coarse_labels": [0] * len(labels)}
    return old_pickle({**notes, key: labels.tolist(), "data": images.reshape(len(images), -1)})


def write_tar(target: Path, folder: Path) -> None:
    with tarfile.open(target, "w:gz") as archive:
        archive.add(folder, folder.name)


def write_zip(target: Path, folder: Path) -> None:
    with zipfile.ZipFile(target, "w", zipfile.ZIP_DEFLATED) as archive:
        for file in sorted(folder.rglob("*")):
            if file.is_file():
                archive.write(file, Path(folder.name) / file.relative_to(folder))


def write_folders(folder: Path, names: Sequence[str], **parts: Toy) -> None:
    """Write one sub-folder of images per class and part."""
    for part, (images, labels) in parts.items():
        for row, (image, label) in enumerate(zip(images, labels, strict=True)):
            place = folder / part / names[label]
            place.mkdir(parents=True, exist_ok=True)
            (place / f"{row}.png").write_bytes(encode(image, "png"))


def write_parquet(
    folder: Path, names: Sequence[str] | None = None, kind: str = "png", label: str = "label", **parts: Toy
) -> None:
    """Write each part as two Parquet files, as the hub has them."""
    folder.mkdir(parents=True, exist_ok=True)
    for part, (images, labels) in parts.items():
        for shard, rows in enumerate(np.array_split(np.arange(len(labels)), 2)):
            content = [encode(images[row], kind) for row in rows]
            table = table_of({"img": content}, {label: labels[rows].tolist()}, {} if names is None else {label: names})
            pq.write_table(table, folder / f"{part}-0000{shard}-of-00002.parquet")


def table_of(
    images: dict[str, list[bytes]], values: dict[str, list[Any]], classes: dict[str, Sequence[str]]
) -> pa.Table:
    """Make a table with columns of images, other columns, and the declarations of Hugging Face."""
    structs = {
        name: pa.array([{"bytes": content, "path": None} for content in column], _STRUCT)
        for name, column in images.items()
    }
    features: dict[str, object] = {name: {"_type": "Image"} for name in images}
    features |= {name: {"names": list(names), "_type": "ClassLabel"} for name, names in classes.items()}
    notes = {"huggingface": json.dumps({"info": {"features": features}})}
    return pa.table(structs | values).replace_schema_metadata(notes)


_STRUCT = pa.struct([("bytes", pa.binary()), ("path", pa.string())])


def save_to_disk(folder: Path, table: pa.Table) -> None:
    """Write what ``Dataset.save_to_disk`` does."""
    folder.mkdir(parents=True)
    with (
        pa.OSFile(str(folder / "data-00000-of-00001.arrow"), "wb") as sink,
        pa.ipc.new_stream(sink, table.schema) as out,
    ):
        out.write_table(table)
    (folder / "state.json").write_text(json.dumps({"_data_files": [{"filename": "data-00000-of-00001.arrow"}]}))
    (folder / "dataset_info.json").write_text(json.dumps({"features": {}}))


def write_tiny(folder: Path, identifiers: Sequence[str], train: Toy, val: Toy) -> None:
    """Write the published layout of TinyImageNet, its third class in grey."""
    for row, (image, label) in enumerate(zip(*train, strict=True)):
        place = folder / "train" / identifiers[label] / "images"
        place.mkdir(parents=True, exist_ok=True)
        _jpeg(place / f"{identifiers[label]}_{row}.JPEG", image, grey=label == 2)
        (folder / "train" / identifiers[label] / f"{identifiers[label]}_boxes.txt").write_text("not read")
    (folder / "val" / "images").mkdir(parents=True)
    lines = []
    for row, (image, label) in enumerate(zip(*val, strict=True)):
        _jpeg(folder / "val" / "images" / f"val_{row}.JPEG", image, grey=label == 2)
        lines.append(f"val_{row}.JPEG\t{identifiers[label]}\t0\t0\t7\t7")
    (folder / "val" / "val_annotations.txt").write_text("\n".join(lines) + "\n")
    (folder / "test" / "images").mkdir(parents=True)
    _jpeg(folder / "test" / "images" / "test_0.JPEG", val[0][0], grey=False)
    (folder / "wnids.txt").write_text("\n".join(reversed(identifiers)) + "\n")
    (folder / "words.txt").write_text("".join(f"{name}\tthing {i}, synonym\n" for i, name in enumerate(identifiers)))


def _jpeg(path: Path, image: NDArray[np.uint8], *, grey: bool) -> None:
    picture = Image.fromarray(image.transpose(1, 2, 0))
    (picture.convert("L") if grey else picture).save(path, "jpeg")
