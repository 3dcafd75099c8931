"""Named data sets: every layout of the same images is the same set, and a part of a copy is none."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from sklearn.datasets import load_digits

from builders.data import toy, write_batches, write_folders, write_parquet, write_tar
from sfra.core.errors import InputError
from sfra.data import SPLITS, ImageSet, Split, datasets, load_data, named
from sfra.data.named import CIFAR10, CIFAR100, TINY_IMAGENET, load_official, validates

SMALL10 = replace(CIFAR10, per_class={"train": 21, "test": 2})
SMALL100 = replace(CIFAR100, per_class={"train": 2, "test": 1})
TRAIN, TEST = toy(10, 21), toy(10, 2, seed=1)


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Look for data in one folder only, and keep nothing."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SFRA_DATA", str(tmp_path / "here"))
    monkeypatch.setenv("SFRA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "here"


def as_batches(here: Path) -> None:
    write_batches(here / "cifar-10-batches-py", TRAIN, TEST)


def as_archive(here: Path) -> None:
    as_batches(here.parent)
    here.mkdir()
    write_tar(here / "cifar-10-python.tar.gz", here.parent / "cifar-10-batches-py")


def as_folders(here: Path) -> None:
    write_folders(here / "CIFAR-10", CIFAR10.class_names, train=TRAIN, test=TEST)


def as_parquet_in_another_order(here: Path) -> None:
    (train, labels), (test, others) = TRAIN, TEST
    names = CIFAR10.class_names[::-1]
    write_parquet(here / "cifar10", names, train=(train, 9 - labels), test=(test, 9 - others))


def load(split: Split) -> ImageSet:
    return load_official(SMALL10, split)


def everything(data: ImageSet) -> tuple[object, ...]:
    (pixels,) = data.pixels.pieces(0, len(data))
    return data.fingerprint, data.labels.tolist(), data.class_names, data.source, pixels.numpy().tobytes()


@pytest.mark.parametrize(
    "write",
    [
        lambda here: as_batches(here / "downloads"),
        as_archive,
        as_folders,
        lambda here: write_parquet(here / "cifar10" / "plain_text", CIFAR10.class_names, train=TRAIN, test=TEST),
        as_parquet_in_another_order,
    ],
    ids=["batches below", "archive", "folders", "tables", "tables in another order"],
)
def test_the_same_images_are_the_same_sets_whatever_the_layout(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch, write: Callable[[Path], None]
) -> None:
    as_batches(elsewhere.parent / "reference")
    write(elsewhere)
    found = [everything(load(split)) for split in SPLITS]
    monkeypatch.setenv("SFRA_DATA", str(elsewhere.parent / "reference"))
    assert found == [everything(load(split)) for split in SPLITS]


def test_the_splits_are_the_published_images_each_once(elsewhere: Path) -> None:
    as_batches(elsewhere)
    parts = {split: load(split) for split in SPLITS}
    pixels = {split: next(data.pixels.pieces(0, len(data))).numpy() for split, data in parts.items()}
    assert {split: data.labels.bincount().tolist() for split, data in parts.items()} == {
        "train": [19] * 10,
        "validation": [2] * 10,
        "test": [2] * 10,
    }
    training = {(image.tobytes(), label) for image, label in zip(*TRAIN, strict=True)}
    found = [
        (image.tobytes(), label)
        for split in ("train", "validation")
        for image, label in zip(pixels[split], parts[split].labels.numpy(), strict=True)
    ]
    assert len(found) == len(training) == 210
    assert set(found) == training
    assert {image.tobytes() for image in pixels["test"]} == {image.tobytes() for image in TEST[0]}


def test_five_percent_of_each_class_validate() -> None:
    labels = np.repeat([0, 1, 2], [5000, 500, 3])
    marked = validates(labels)
    assert [int(marked[labels == label].sum()) for label in range(3)] == [250, 25, 1]


@pytest.mark.parametrize("label", ["fine_label", "label"])
def test_cifar100_takes_the_fine_labels_of_a_table(elsewhere: Path, label: str) -> None:
    train, test = toy(100, 2), toy(100, 1, seed=1)
    misspelt = [name.replace("crab", "cra") for name in CIFAR100.class_names]
    write_parquet(elsewhere / "cifar100" / "cifar100", misspelt, label=label, train=train, test=test)
    data = load_official(SMALL100, "test")
    assert data.class_names == CIFAR100.class_names
    rows = torch.tensor([np.flatnonzero(test[1] == 26)[0]])
    found = next(data.select(torch.where(data.labels == 26)[0]).pixels.pieces(0, 1))
    np.testing.assert_array_equal(found.numpy(), test[0][rows.numpy()])


def test_cifar10_and_cifar100_are_not_mistaken_for_each_other(elsewhere: Path) -> None:
    write_batches(elsewhere / "cifar-100-python", toy(100, 2), toy(100, 1), key="fine_labels")
    with pytest.raises(InputError, match="there is no copy of cifar10 on this machine"):
        load("test")
    as_batches(elsewhere)
    assert len(load("test")) == 20
    assert len(load_official(SMALL100, "test")) == 100


@pytest.mark.parametrize(
    ("write", "missing"),
    [(as_batches, "cifar-10-batches-py/data_batch_3"), (as_folders, "CIFAR-10/train/cat/{}.png")],
)
def test_a_partial_copy_is_refused_with_both_counts(
    elsewhere: Path, write: Callable[[Path], None], missing: str
) -> None:
    write(elsewhere)
    cat = int(np.flatnonzero(TRAIN[1] == 3)[0])
    (elsewhere / missing.format(cat)).unlink()
    expected = r"is not complete\n  expected: 210 images to train, 21 of each of 10 classes\n  got:      (168|209): "
    with pytest.raises(InputError, match=expected):
        load("train")
    assert len(load("test")) == 20


def test_the_named_sets_are_the_published_ones() -> None:
    counts = [(data.classes, data.per_class) for data in (CIFAR10, CIFAR100, TINY_IMAGENET)]
    assert counts == [
        (10, {"train": 5000, "test": 1000}),
        (100, {"train": 500, "test": 100}),
        (200, {"train": 500, "test": 50}),
    ]
    for data in (CIFAR10, CIFAR100):
        assert sorted(set(data.class_names)) == list(data.class_names)
        assert len(data.class_names) == data.classes
    assert (CIFAR100.class_names[0], CIFAR100.class_names[26], CIFAR100.class_names[99]) == ("apple", "crab", "worm")
    assert datasets()["tiny-imagenet"].startswith("110,000 photographs, 3x64x64, 200 classes; a copy in $SFRA_DATA")


def test_a_new_published_set_is_one_entry(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(named, "_DATASETS", dict(named._DATASETS))
    named.published(replace(SMALL10, name="pets", pattern="pets"))
    write_folders(elsewhere / "my pets" / "Pets-1", CIFAR10.class_names, train=TRAIN, test=TEST)
    assert "pets" in datasets()
    assert len(load_data("pets")) == 20


def test_folders_of_other_classes_are_refused(elsewhere: Path) -> None:
    names = [name.replace("cat", "lynx") for name in CIFAR10.class_names]
    write_folders(elsewhere / "cifar10", names, train=TRAIN, test=TEST)
    with pytest.raises(InputError, match=r"is not CIFAR-10\n  expected: its 10 classes\n  got: .*lynx"):
        load("test")


def test_images_of_another_size_are_refused(elsewhere: Path) -> None:
    write_folders(elsewhere / "cifar10", CIFAR10.class_names, train=toy(10, 21, size=16), test=toy(10, 2, size=16))
    with pytest.raises(
        InputError, match="has another size than the rest\n  expected: 32 x 32 pixels\n  got:      16 x 16"
    ):
        load("test")


@pytest.mark.parametrize(
    ("name", "archive"),
    [("cifar10", "cifar-10-python.tar.gz from www"), ("tiny-imagenet", "tiny-imagenet-200.zip from cs231n")],
)
def test_a_missing_set_says_what_to_fetch_and_where_it_was_looked_for(elsewhere: Path, name: str, archive: str) -> None:
    with pytest.raises(InputError, match=f"no copy of {name} on .*\n  expected: {archive}") as caught:
        load_data(name)
    text = str(caught.value)
    for folder in (elsewhere, elsewhere.parent / "data", elsewhere.parent / "cache" / "data"):
        assert str(folder) in text
    assert "set SFRA_DATA" in text


def test_a_copy_in_an_unknown_layout_is_named(elsewhere: Path) -> None:
    (elsewhere / "cifar-10-batches-bin").mkdir(parents=True)
    with pytest.raises(InputError, match=r"these have another layout: .*cifar-10-batches-bin"):
        load("test")


def test_the_folders_are_searched_in_order(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = elsewhere.parent
    as_batches(root / "cache" / "data")
    cached = load("test").fingerprint
    write_batches(root / "data" / "cifar-10-batches-py", TRAIN, toy(10, 2, seed=2))
    local = load("test").fingerprint
    write_batches(root / "two" / "cifar-10-batches-py", TRAIN, toy(10, 2, seed=3))
    monkeypatch.setenv("SFRA_DATA", f"{root / 'one'}:{root / 'two'}")
    named = load("test").fingerprint
    assert len({cached, local, named}) == 3
    monkeypatch.setenv("SFRA_DATA", str(root / "two" / "cifar-10-batches-py"))
    assert load("test").fingerprint == named


def test_the_digits_are_split_once_and_for_all_each_image_with_its_label() -> None:
    data = load_digits()
    truth = {image.tobytes(): label for image, label in zip((data.images / 16).astype("f4"), data.target, strict=True)}
    parts = [load_data("digits", split=split) for split in SPLITS]
    found: dict[bytes, int] = {}
    for part in parts:
        assert isinstance(part, ImageSet)
        assert (part.pixels.shape, part.class_names) == ((1, 8, 8), tuple("0123456789"))
        images = next(part.batches(2000)).numpy()
        found |= {image.tobytes(): label for image, label in zip(images, part.labels.tolist(), strict=True)}
    assert found == truth
    assert sum(map(len, parts)) == len(data.target)
    shares = torch.stack([part.labels.bincount(minlength=10) for part in parts]) / data.target.size * 10
    torch.testing.assert_close(shares, torch.tensor([[0.60], [0.15], [0.25]]).expand(3, 10), atol=0.03, rtol=0)
    assert [part.fingerprint[:16] for part in parts] == ["03110b2941c49c55", "707eb5be18a1dcf0", "319bb84a34f801fb"]
