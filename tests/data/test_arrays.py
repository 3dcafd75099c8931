"""Data in arrays: the layouts, number types and mistakes that files and pairs come with."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from safetensors.numpy import save_file
from torch import Tensor

from sfra.core.errors import InputError
from sfra.data import FeatureSet, ImageSet, load_data

FEATURES = np.random.default_rng(0).normal(size=(6, 4)).astype(np.float32)
LABELS = np.array([0, 1, 2, 0, 1, 2])
COLOUR = np.random.default_rng(1).integers(0, 256, size=(6, 3, 8, 5), dtype=np.uint8)


def write(folder: Path, suffix: str, **arrays: NDArray[Any]) -> Path:
    path = folder / f"data{suffix}"
    if suffix == ".npz":
        np.savez(path, allow_pickle=False, **arrays)
    else:
        save_file(arrays, path)
    return path


def only_batch(data: FeatureSet | ImageSet) -> Tensor:
    assert isinstance(data, ImageSet)
    (batch,) = data.batches(100)
    return batch


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
@pytest.mark.parametrize("dtype", [np.float16, np.float64])
def test_a_features_file_is_read_as_float32_with_int64_labels(tmp_path: Path, suffix: str, dtype: type) -> None:
    data = load_data(write(tmp_path, suffix, features=FEATURES.astype(dtype), labels=LABELS))
    assert isinstance(data, FeatureSet)
    np.testing.assert_array_equal(data.features.numpy(), FEATURES.astype(dtype).astype(np.float32))
    assert data.features.dtype == torch.float32
    assert data.labels.dtype == torch.int64
    assert data.labels.tolist() == LABELS.tolist()
    assert data.source == f"data{suffix}"


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_a_features_file_may_hold_features_of_synthetic_images(tmp_path: Path, suffix: str) -> None:
    data = load_data(write(tmp_path, suffix, features=FEATURES, labels=LABELS, anchor=FEATURES[:2].astype(np.float16)))
    assert isinstance(data, FeatureSet)
    assert data.anchor is not None
    np.testing.assert_array_equal(data.anchor.numpy(), FEATURES[:2].astype(np.float16).astype(np.float32))


@pytest.mark.parametrize("anchor", [FEATURES[:, :3], np.full_like(FEATURES, np.nan), FEATURES[0], LABELS[:, None]])
def test_an_anchor_that_is_none_is_refused(tmp_path: Path, anchor: NDArray[Any]) -> None:
    with pytest.raises(InputError, match=r"anchor of data|not a table of numbers"):
        load_data(write(tmp_path, ".npz", features=FEATURES, labels=LABELS, anchor=anchor))


@pytest.mark.parametrize("suffix", [".npz", ".safetensors"])
def test_an_images_file_gives_the_same_images_in_either_layout(tmp_path: Path, suffix: str) -> None:
    first = load_data(write(tmp_path, suffix, images=COLOUR, labels=LABELS))
    channels_last = np.ascontiguousarray(COLOUR.transpose(0, 2, 3, 1))
    last = load_data(write(tmp_path, suffix, images=channels_last, labels=LABELS))
    assert first.fingerprint == last.fingerprint
    for data in (first, last):
        np.testing.assert_array_equal(only_batch(data).numpy(), COLOUR.astype(np.float32) / np.float32(255))


def test_images_without_a_channel_axis_are_grey() -> None:
    assert only_batch(load_data((COLOUR[:, 0], LABELS))).shape == (6, 1, 8, 5)


def test_float_images_of_any_number_of_channels_pass_unscaled() -> None:
    images = torch.rand(6, 5, 4, 4, dtype=torch.float64, generator=torch.Generator().manual_seed(0))
    assert torch.equal(only_batch(load_data((images, LABELS))), images.float())


@pytest.mark.parametrize("dtype", [np.uint8, np.int16, np.uint32, np.float16, np.float64])
def test_labels_may_be_any_number_that_is_whole(dtype: type) -> None:
    assert load_data((FEATURES, LABELS.astype(dtype))).labels.tolist() == LABELS.tolist()


@pytest.mark.parametrize(
    ("samples", "labels", "message"),
    [
        (np.zeros((6, 3, 8, 3), dtype=np.uint8), LABELS, "layout of the given images is not clear"),
        (np.zeros((6, 4, 8, 8), dtype=np.uint8), LABELS, "layout of the given images is not clear"),
        (np.zeros((6, 1, 8, 8), dtype=np.int32), LABELS, "are not images"),
        (np.zeros((6, 3, 0, 8)), LABELS, "are not images"),
        (np.full((6, 3, 8, 8), np.nan), LABELS, r"not finite(\n.*)*6 of 6 samples"),
        (np.zeros((6, 8, 8, 3)), LABELS, r"channels in the last axis(\n.*)*transpose\(0, 3, 1, 2\)"),
        (LABELS, COLOUR, "swapped"),
        (LABELS, FEATURES, "swapped"),
        (np.zeros((6, 4), dtype=np.int64), LABELS, "not a table of numbers"),
        (FEATURES, LABELS + 0.5, "expected: whole numbers"),
        (FEATURES, np.eye(3, dtype=np.int64)[LABELS], r"(\n.*)*labels.argmax\(axis=1\)"),
        (FEATURES, LABELS[:, None], r"(\n.*)*labels.ravel\(\)"),
        (FEATURES, LABELS[None], r"(\n.*)*labels.ravel\(\)"),
        (FEATURES, LABELS == 1, r"expected: whole numbers of shape \[n\]"),
        (FEATURES, LABELS[:5], r"do not belong together(\n.*)*do: .*the same order"),
        (FEATURES, ["cat", " "] * 3, "a label of the given features is empty"),
        (FEATURES, [["cat"]] * 6, "the labels are not numbers"),
    ],
)
def test_a_pair_that_is_no_data_is_refused(samples: Any, labels: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        load_data((samples, labels))


def test_labels_may_be_text_in_bytes() -> None:
    data = load_data((FEATURES, np.array([b"ox", b"cat", b"ox", b"elk", b"elk", b"ox"])))
    assert data.class_names == ("cat", "elk", "ox")
    assert data.labels.tolist() == [2, 0, 2, 1, 1, 2]


def test_images_that_are_vectors_lead_to_the_name_for_them() -> None:
    with pytest.raises(InputError, match=r"(?s)are not images.*call the array 'inputs'"):
        load_data({"images": np.zeros((6, 64), dtype=np.float32), "labels": LABELS})


@pytest.mark.parametrize(("low", "high"), [(0.0, 16.0), (-1.0, 1.0), (0.0, 255.0)])
def test_floats_outside_the_range_of_pictures_are_refused_unless_called_inputs(low: float, high: float) -> None:
    images = np.linspace(low, high, 6 * 64, dtype=np.float32).reshape(6, 1, 8, 8)
    with pytest.raises(InputError, match=rf"(?s)range of pictures.*{low:g} to {high:g}.*call them 'inputs'"):
        load_data({"images": images, "labels": LABELS})
    if low >= 0:
        with pytest.raises(InputError, match="range of pictures"):
            load_data((images, LABELS))
    else:  # a pair that has been normalised
        assert isinstance(load_data((images, LABELS)), ImageSet)
    assert isinstance(load_data({"inputs": images, "labels": LABELS}), ImageSet)
    assert isinstance(load_data({"images": images.clip(-0.2, 1.2), "labels": LABELS}), ImageSet)


def test_a_read_only_array_is_taken_without_a_warning_and_left_alone() -> None:
    frozen = FEATURES.copy()
    frozen.flags.writeable = False
    data = load_data((frozen, LABELS[::-1]))
    assert isinstance(data, FeatureSet)
    assert data.labels.tolist() == LABELS[::-1].tolist()


@pytest.mark.parametrize(
    ("arrays", "got"),
    [
        ({"features": FEATURES}, "features"),
        ({"weight": FEATURES, "bias": LABELS}, "bias, weight\n  do:       it holds a head: pass it as the model"),
        ({"features": FEATURES, "images": COLOUR, "labels": LABELS}, "features, images, labels"),
    ],
)
def test_a_file_without_the_right_arrays_is_refused_with_what_it_holds(
    tmp_path: Path, arrays: dict[str, NDArray[Any]], got: str
) -> None:
    with pytest.raises(InputError, match=f"data.npz is not a data file\n  expected: .*\n  got:      {got}(\n|$)"):
        load_data(write(tmp_path, ".npz", **arrays))
