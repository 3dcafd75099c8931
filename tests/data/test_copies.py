"""TinyImageNet as published, as class folders and as tables."""

import zipfile
from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest
from PIL import Image

from builders.data import table_of, toy, write_tiny, write_zip
from sfra.core import files
from sfra.core.errors import InputError, UnsafeFileError
from sfra.data import SPLITS, ImageSet, Split, copies
from sfra.data.named import TINY_IMAGENET, load_official

IDENTIFIERS = ("n01443537", "n01629819", "n01641577", "n01644900")
SMALL = replace(TINY_IMAGENET, classes=4, size=8, per_class={"train": 3, "test": 2})


@pytest.fixture(autouse=True)
def published(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Write the published layout and look for data in one folder only."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SFRA_DATA", str(tmp_path / "here"))
    monkeypatch.setenv("SFRA_CACHE", str(tmp_path / "cache"))
    folder = tmp_path / "here" / "tiny-imagenet-200"
    write_tiny(folder, IDENTIFIERS, toy(4, 3, size=8), toy(4, 2, size=8, seed=1))
    return folder


def load(split: Split) -> ImageSet:
    return load_official(SMALL, split)


def pixels(data: ImageSet) -> list[bytes]:
    return [image.numpy().tobytes() for image in next(data.pixels.pieces(0, len(data)))]


def test_train_is_divided_and_val_is_the_test_split(published: Path) -> None:
    parts = {split: load(split) for split in SPLITS}
    assert {split: data.labels.tolist() for split, data in parts.items()} == {
        "train": [0, 0, 1, 1, 2, 2, 3, 3],
        "validation": [0, 1, 2, 3],
        "test": [0, 0, 1, 1, 2, 2, 3, 3],
    }
    notes = [line.split("\t")[:2] for line in (published / "val" / "val_annotations.txt").read_text().splitlines()]
    for name, identifier in notes:
        with Image.open(published / "val" / "images" / name) as image:
            content = np.array(image.convert("RGB")).transpose(2, 0, 1).tobytes()
        assert int(parts["test"].labels[pixels(parts["test"]).index(content)]) == IDENTIFIERS.index(identifier)


def test_the_archive_is_the_same_as_the_folder(published: Path) -> None:
    expected = [(load(split).fingerprint, load(split).class_names) for split in SPLITS]
    assert load("test").class_names == ("thing 0", "thing 1", "thing 2", "thing 3")
    write_zip(published.parent / "tiny-imagenet-200.zip", published)
    published.rename(published.parent.parent / "away")
    assert [(load(split).fingerprint, load(split).class_names) for split in SPLITS] == expected


def test_class_folders_are_the_same_as_the_published_ones(published: Path) -> None:
    expected = [load(split).fingerprint for split in SPLITS]
    for line in (published / "val" / "val_annotations.txt").read_text().splitlines():
        name, identifier = line.split("\t")[:2]
        (published / "val" / identifier).mkdir(exist_ok=True)
        (published / "val" / "images" / name).rename(published / "val" / identifier / name)
    (published / "val" / "val_annotations.txt").unlink()
    (published / "words.txt").unlink()
    assert [load(split).fingerprint for split in SPLITS] == expected
    assert load("test").class_names == IDENTIFIERS


def test_tables_are_the_same_as_the_published_folder(published: Path) -> None:
    expected = [load(split).fingerprint for split in SPLITS]
    place = published.parent / "Tiny ImageNet" / "data"
    place.mkdir(parents=True)
    for part, folder in (("train", "train"), ("valid", "val")):
        files = sorted((published / folder).rglob("*.JPEG"))
        notes = dict(
            line.split("\t")[:2] for line in (published / "val" / "val_annotations.txt").read_text().splitlines()
        )
        labels = [IDENTIFIERS.index(notes.get(file.name) or file.name.split("_")[0]) for file in files]
        table = table_of({"image": [f.read_bytes() for f in files]}, {"label": labels}, {"label": IDENTIFIERS})
        pq.write_table(table, place / f"{part}-00000-of-00001-1359597a978bc4fa.parquet")
    published.rename(published.parent.parent / "away")
    assert [load(split).fingerprint for split in SPLITS] == expected
    assert load("test").class_names == IDENTIFIERS


def test_a_list_of_labels_cannot_name_files_elsewhere(published: Path) -> None:
    notes = published / "val" / "val_annotations.txt"
    notes.write_text(notes.read_text().replace("val_0.JPEG", "../../test/images/test_0.JPEG"))
    with pytest.raises(InputError, match="got:      7: 1 of class"):
        load("test")


def test_a_damaged_archive_is_named(published: Path) -> None:
    archive = published.parent / "tiny-imagenet-200.zip"
    published.rename(published.parent.parent / "away")
    archive.write_bytes(b"not a zip")
    with pytest.raises(InputError, match=r"tiny-imagenet-200\.zip cannot be read\n  expected: a complete archive"):
        load("test")
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("tiny-imagenet-200/train/n01/1.JPEG", b"")
    with pytest.raises(InputError, match="is not TinyImageNet\n  expected: its 4 classes\n  got:      1 classes"):
        load("test")


def test_an_archive_that_would_fill_the_memory_is_not_read(published: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (published / "train" / IDENTIFIERS[0] / "images" / "zeros.JPEG").write_bytes(bytes(2**20))
    write_zip(published.parent / "tiny-imagenet-200.zip", published)
    published.rename(published.parent.parent / "away")
    monkeypatch.setattr(copies, "LARGEST", 2**19)
    with pytest.raises(InputError, match=r"zeros\.JPEG in .* is too large\n  expected: at most 524,288 bytes"):
        load("train")
    monkeypatch.setattr(files, "SUSPICIOUS_BYTES", 2**10)
    monkeypatch.setattr(files, "SUSPICIOUS_RATIO", 2)
    with pytest.raises(UnsafeFileError, match=r"tiny-imagenet-200\.zip would grow to"):
        load("train")


@pytest.mark.parametrize("name", ["words.txt", "val/val_annotations.txt"])
@pytest.mark.parametrize("zipped", [False, True])
def test_lists_that_are_no_text_are_refused(published: Path, name: str, zipped: bool) -> None:
    (published / name).write_bytes(b"n01443537\t\xff\xfe\n")
    if zipped:
        write_zip(published.parent / "tiny-imagenet-200.zip", published)
        published.rename(published.parent.parent / "away")
    with pytest.raises(InputError, match=r"a list of words or labels in .* cannot be read\n  expected: text in UTF-8"):
        load("test")
