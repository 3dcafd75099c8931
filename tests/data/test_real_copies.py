"""Real copies of the named data sets, where SFRA_DATA points to them, against what is known of the published ones."""

import hashlib
import os
from collections.abc import Iterator

import numpy as np
import pytest
from numpy.typing import NDArray

from sfra.core.errors import InputError
from sfra.data import ImageSet, Split, load_data
from sfra.data.named import CIFAR10, CIFAR100

pytestmark = pytest.mark.skipif(not os.environ.get("SFRA_DATA"), reason="SFRA_DATA names no folder with copies")

SIZES = {
    "cifar10": {"train": 47_500, "validation": 2_500, "test": 10_000},
    "cifar100": {"train": 47_500, "validation": 2_500, "test": 10_000},
    "tiny-imagenet": {"train": 95_000, "validation": 5_000, "test": 10_000},
}

CHECKSUMS = {
    ("cifar10", "train"): "edf6f356acca0d98ce47428ff00f690992f0a5c71bb35855b000e84f31ea95fa",
    ("cifar10", "validation"): "116a57a67746f42632a0af9fd8d7aca3a08fa34239121eb22f5d62e267908260",
    ("cifar10", "test"): "fbc5a1e0f6f4293fa5caa77e924de0cc1eb4e520f4a416dac0363e7bba145c52",
    ("cifar100", "train"): "d8fd8ecaadac76678f65dd1b7180f626793252fdf29d9e3c169dc30737c75a54",
    ("cifar100", "validation"): "1efe3b951f9c486e5a00bdac8beda347eab8790fa08100b5cb0b5612e95b6d12",
    ("cifar100", "test"): "a995c5c01feedaec47988825019795a1e9c8cc7990538a89fd918f92afd78eb5",
}
"""SHA-256 of all pixels ``[n, c, h, w]``, then of all labels as little-endian int64, in canonical order."""

CHANNEL_MEANS = {"cifar10": (0.4914, 0.4822, 0.4465), "cifar100": (0.5071, 0.4865, 0.4409)}
"""Of the published training sets, as they are commonly used to normalise."""

TINY_TRAIN_MEANS = """
    101.5 98.8 97.1 105.1 104.4 102.3 118.1 118.0 124.8 107.6 121.9 119.8 107.3 92.2 109.2 109.1 110.1 97.5
    111.0 96.7 114.4 119.1 122.8 109.9 114.2 115.8 117.9 113.5 117.1 116.4 110.4 119.0 110.2 110.1 107.2 108.3
    111.5 114.1 108.6 106.9 107.8 129.3 109.5 108.3 103.3 100.3 114.5 111.7 109.0 112.9 117.1 117.1 118.4 123.3
    103.2 101.7 115.7 114.3 100.7 108.5 103.6 95.7 124.8 114.0 110.1 107.6 116.0 111.7 101.6 130.6 109.9 124.8
    126.2 102.4 132.3 115.7 113.9 106.5 119.8 129.9 120.1 105.1 100.5 96.6 117.1 113.0 106.8 104.5 112.2 108.3
    114.7 113.6 99.6 104.8 108.8 125.6 121.4 110.5 116.6 99.8 119.5 133.3 102.2 99.6 107.5 112.5 113.1 114.2
    110.1 106.2 113.9 108.8 110.7 99.7 108.5 127.6 103.4 146.5 112.5 106.4 112.2 122.3 130.5 111.6 127.2 111.1
    91.3 111.7 104.2 114.0 123.6 110.5 123.9 106.5 114.8 109.5 120.3 125.5 103.9 126.3 122.3 115.5 120.6 103.1
    131.8 109.9 102.1 107.7 121.3 114.8 104.0 124.1 89.5 102.1 119.2 124.7 110.7 108.2 130.6 118.5 112.1 116.8
    115.3 102.5 112.0 118.6 122.8 109.8 114.1 109.2 115.4 113.2 121.4 131.3 99.3 111.0 113.9 123.5 111.6 119.5
    113.3 114.1 117.5 120.1 106.0 93.6 109.6 111.8 113.6 102.8 110.6 109.1 118.7 109.9 128.3 121.2 103.1 123.8
    134.3 102.8
"""
TINY_TEST_MEANS = """
    98.6 100.2 106.8 107.8 110.3 96.5 114.0 123.4 132.2 112.4 124.9 122.2 108.3 101.7 111.3 103.5 105.6 99.1
    113.3 96.9 112.9 112.8 128.6 109.7 112.2 112.7 117.5 118.7 109.2 119.1 113.5 121.8 119.2 112.0 102.8 106.0
    104.8 116.9 106.1 113.3 101.2 134.5 115.9 97.4 101.0 101.4 114.9 111.4 113.3 116.4 117.3 116.0 123.3 123.9
    105.9 100.9 122.6 114.8 93.4 111.0 105.1 91.6 127.8 113.9 114.0 108.2 111.6 109.1 97.0 135.1 111.4 132.5
    134.1 106.8 134.3 114.4 105.9 102.9 120.7 134.0 129.0 101.8 101.0 84.1 115.8 113.1 110.9 103.7 113.0 110.8
    120.8 106.2 95.9 102.9 109.9 131.6 131.0 121.0 114.8 93.4 119.8 135.3 93.9 95.6 103.6 110.5 95.4 114.1 112.0
    107.9 113.5 109.1 110.3 108.7 105.5 129.2 102.0 144.6 114.2 108.3 124.5 120.3 139.1 113.1 124.8 104.9 90.6
    114.1 108.4 117.2 120.2 107.2 123.5 110.8 112.8 110.6 118.3 125.5 114.4 122.1 115.0 118.5 118.9 100.1 131.4
    107.7 103.7 104.7 125.8 115.5 101.9 133.6 97.3 99.7 120.1 126.0 109.9 104.7 124.1 109.2 117.5 111.0 116.1
    102.8 115.0 118.9 123.3 121.5 123.7 111.0 109.5 119.0 123.3 137.7 97.9 110.7 105.6 122.7 117.5 118.4 122.3
    112.4 116.2 111.9 106.8 97.8 103.9 112.0 106.5 101.9 112.5 106.4 116.2 101.7 131.1 125.7 100.7 120.3 136.4
    103.0
"""
"""Mean pixel of each class of TinyImageNet: decoders of JPEG differ, but not by a tenth on average."""


def load(name: str, split: Split) -> ImageSet:
    try:
        data = load_data(name, split=split)
    except InputError as problem:
        if "there is no copy" in str(problem):
            pytest.skip(problem.what)
        raise
    assert isinstance(data, ImageSet)
    return data


def chunks(data: ImageSet) -> Iterator[tuple[NDArray[np.uint8], NDArray[np.int64]]]:
    for start in range(0, len(data), 1000):
        yield next(data.pixels.pieces(start, start + 1000)).numpy(), data.labels[start : start + 1000].numpy()


@pytest.mark.parametrize("split", ["train", "validation", "test"])
@pytest.mark.parametrize("name", SIZES)
def test_every_class_has_its_share_of_images_of_the_right_size(name: str, split: Split) -> None:
    data = load(name, split)
    assert data.class_names is not None
    classes, side = len(data.class_names), 64 if name == "tiny-imagenet" else 32
    assert data.labels.bincount().tolist() == [SIZES[name][split] // classes] * classes
    assert next(data.pixels.pieces(0, 1)).shape == (1, 3, side, side)


def test_the_classes_are_in_the_published_order() -> None:
    assert load("cifar10", "test").class_names == CIFAR10.class_names
    assert load("cifar100", "test").class_names == CIFAR100.class_names


@pytest.mark.parametrize(("name", "split"), CHECKSUMS)
def test_the_pixels_and_labels_are_bit_for_bit_the_known_ones(name: str, split: Split) -> None:
    data = load(name, split)
    digest = hashlib.sha256()
    for images, _ in chunks(data):
        digest.update(images.tobytes())
    digest.update(data.labels.numpy().astype("<i8").tobytes())
    assert digest.hexdigest() == CHECKSUMS[name, split]


@pytest.mark.parametrize("name", CHANNEL_MEANS)
def test_the_published_training_set_is_train_and_validation_together(name: str) -> None:
    total = np.zeros(3)
    for split in ("train", "validation"):
        for images, _ in chunks(load(name, split)):
            total += images.mean(axis=(2, 3)).sum(axis=0)
    np.testing.assert_allclose(total / 50_000 / 255, CHANNEL_MEANS[name], atol=6e-5)


@pytest.mark.parametrize(
    ("splits", "means"), [(("train", "validation"), TINY_TRAIN_MEANS), (("test",), TINY_TEST_MEANS)]
)
def test_the_mean_pixel_of_each_class_of_tiny_imagenet_is_the_known_one(splits: tuple[Split, ...], means: str) -> None:
    total, count = np.zeros(200), np.zeros(200)
    for split in splits:
        for images, labels in chunks(load("tiny-imagenet", split)):
            total += np.bincount(labels, images.mean(axis=(1, 2, 3)), minlength=200)
            count += np.bincount(labels, minlength=200)
    np.testing.assert_allclose(total / count, [float(mean) for mean in means.split()], atol=0.15)
