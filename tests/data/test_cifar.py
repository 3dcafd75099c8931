"""Pickled batches of strangers: arrays come out, nothing runs."""

import io
import pickle
import tarfile
from collections import OrderedDict
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from builders.data import old_pickle, toy, write_batches, write_tar
from builders.releases import Bomb
from sfra.core.errors import InputError, UnsafeFileError
from sfra.data.cifar import read_batch, recognise_batches
from sfra.data.named import CIFAR10

ROWS = np.arange(2 * 3072, dtype=np.int64).astype(np.uint8).reshape(2, 3072)


def batches(folder: Path, content: bytes) -> Path:
    folder.mkdir()
    (folder / "test_batch").write_bytes(content)
    return folder


def read(folder: Path) -> Any:
    copy = recognise_batches(CIFAR10, folder)
    assert copy is not None
    return copy.read("test")


@pytest.mark.parametrize("protocol", [0, 2, 4])
@pytest.mark.parametrize("order", ["C", "F"])
def test_batches_of_today_and_of_python_2_hold_the_same_pixels(tmp_path: Path, protocol: int, order: Any) -> None:
    rows = np.asarray(ROWS, order=order)
    ours = batches(tmp_path / "new", pickle.dumps({"data": rows, "labels": [3, 9]}, protocol=protocol))
    theirs = batches(tmp_path / "old", old_pickle({"data": rows, "labels": [3, 9]}))
    for folder in (ours, theirs):
        images, labels = read(folder)
        np.testing.assert_array_equal(images.reshape(2, -1), ROWS)
        assert labels.tolist() == [3, 9]


def test_a_file_that_would_run_code_is_refused_and_nothing_runs(tmp_path: Path) -> None:
    target = tmp_path / "it ran"
    content = pickle.dumps({"data": ROWS, "labels": [0, 1], "more": Bomb(target)}, protocol=2)
    folder = batches(tmp_path / "x", content)
    with pytest.raises(UnsafeFileError, match=r"asks for code to be run, .*\n.*\n  got:      posix\.mkdir"):
        read(folder)
    assert not target.exists()
    pickle.loads(content)
    assert target.exists()


@pytest.mark.parametrize("value", [OrderedDict(), np.float64(1), np.random.default_rng(0), io.BytesIO(b"")])
def test_every_other_class_is_refused_however_harmless(value: object) -> None:
    with pytest.raises(UnsafeFileError, match="expected: nothing but arrays of bytes"):
        read_batch(pickle.dumps({b"data": value}, protocol=2), "x")


@pytest.mark.parametrize(
    "content",
    [b"", b"no pickle", pickle.dumps({"data": ROWS})[:-900], b"\x80\x02cnumpy\nndarray\n}b.", b"\x80\x02\x82\x05."],
)
def test_damaged_bytes_are_an_input_error(content: bytes) -> None:
    with pytest.raises(InputError, match=r"some name (cannot be read|is not a batch)"):
        read_batch(content, "some name")


@pytest.mark.parametrize(
    "batch",
    [
        {"data": ROWS, "labels": [1]},
        {"data": ROWS[:, :-1], "labels": [1, 2]},
        {"data": ROWS.astype(np.int16), "labels": [1, 2]},
        {"data": ROWS, "targets": [1, 2]},
        {"data": [[1, 2]], "labels": [1]},
        *({"data": ROWS, "labels": [1, label]} for label in (-1, 10, 10**30, "1", [1], None, 1.0, True)),
    ],
)
def test_other_arrays_and_labels_than_those_of_the_data_set_are_refused(tmp_path: Path, batch: dict[str, Any]) -> None:
    folder = batches(tmp_path / "x", pickle.dumps(batch, protocol=2))
    with pytest.raises(InputError, match=r"does not hold the batches of CIFAR-10\n  expected: 'data', rows of 3072"):
        read(folder)


def test_the_archive_is_read_without_writing_anything(tmp_path: Path) -> None:
    train, test = toy(10, 2), toy(10, 1, seed=1)
    write_batches(tmp_path / "cifar-10-batches-py", train, test)
    write_tar(tmp_path / "cifar-10-python.tar.gz", tmp_path / "cifar-10-batches-py")
    before = sorted(tmp_path.rglob("*"))
    copy = recognise_batches(CIFAR10, tmp_path / "cifar-10-python.tar.gz")
    assert copy is not None
    images, labels = copy.read("train")
    np.testing.assert_array_equal(images, train[0])
    np.testing.assert_array_equal(labels, train[1])
    assert sorted(tmp_path.rglob("*")) == before


def test_a_truncated_archive_and_a_link_in_one_are_not_followed(tmp_path: Path) -> None:
    write_batches(tmp_path / "cifar-10-batches-py", toy(10, 9), toy(10, 1))
    whole = tmp_path / "cifar-10-python.tar.gz"
    write_tar(whole, tmp_path / "cifar-10-batches-py")
    whole.write_bytes(whole.read_bytes()[:5000])
    copy = recognise_batches(CIFAR10, whole)
    assert copy is not None
    with pytest.raises(InputError, match=r"cannot be read\n  expected: a complete archive"):
        copy.read("train")
    with tarfile.open(tmp_path / "links.tar.gz", "w:gz") as archive:
        link = tarfile.TarInfo("cifar-10-batches-py/test_batch")
        link.type, link.linkname = tarfile.SYMTYPE, str(tmp_path / "cifar-10-batches-py" / "test_batch")
        archive.addfile(link)
    copy = recognise_batches(CIFAR10, tmp_path / "links.tar.gz")
    assert copy is not None
    assert len(copy.read("test")[1]) == 0
