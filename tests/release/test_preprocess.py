"""Images become what the model was trained on: size, crop, rescaling, normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from sfra.core.errors import InputError
from sfra.release import Preprocess
from sfra.release.preprocess import preprocess_from

VIT = {
    "do_normalize": True,
    "do_rescale": True,
    "do_resize": True,
    "image_mean": [0.5, 0.4, 0.3],
    "image_std": [0.5, 0.25, 0.2],
    "resample": 2,
    "rescale_factor": 1 / 255,
    "size": {"height": 6, "width": 4},
}


def pixels(*shape: int) -> Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_bytes_and_floats_give_the_same_images() -> None:
    prepare = Preprocess(size=(5, 7), mean=(0.5, 0.4, 0.3), std=(0.5, 0.25, 0.2))
    images = pixels(2, 3, 9, 9)
    torch.testing.assert_close(prepare(images), prepare(images / 255))
    assert prepare(images).shape == (2, 3, 5, 7)


def test_images_of_the_right_size_are_only_normalised() -> None:
    images = pixels(2, 3, 6, 4)
    mean, std = (torch.tensor(VIT[key]).reshape(3, 1, 1) for key in ("image_mean", "image_std"))
    prepare = preprocess_from(VIT)
    assert prepare is not None
    torch.testing.assert_close(prepare(images), (images / 255 - mean) / std)


def test_resizing_agrees_with_pillow() -> None:
    image = pixels(1, 3, 40, 40)
    pillow = Image.fromarray(image[0].permute(1, 2, 0).numpy()).resize((16, 12), Image.Resampling.BILINEAR)
    expected = torch.from_numpy(np.array(pillow)).permute(2, 0, 1) / 255
    got = Preprocess(size=(12, 16))(image)[0]
    assert float((got - expected).abs().max()) < 1.5 / 255  # pillow rounds to bytes, twice


@pytest.mark.parametrize(
    "config",
    [
        {"size": {"shortest_edge": 32}, "crop_size": {"height": 24, "width": 24}, "do_center_crop": True},
        {"size": {"shortest_edge": 24}, "crop_pct": 0.75},
        {"size": {"height": 32, "width": 32}, "crop_size": 24, "do_center_crop": True},
    ],
)
def test_the_centre_is_cropped_after_the_shorter_side_is_resized(config: dict[str, Any]) -> None:
    prepare = preprocess_from(config)
    assert prepare == Preprocess(size=(24, 24), edge=32)
    images = pixels(1, 3, 32, 48)
    assert torch.equal(prepare(images), images[:, :, 4:28, 12:36] / 255)
    assert prepare(pixels(1, 3, 96, 64)).shape == (1, 3, 24, 24)


def test_a_rescale_factor_is_part_of_the_normalisation() -> None:
    images = pixels(1, 3, 6, 4)
    odd = preprocess_from({**VIT, "rescale_factor": 1 / 127.5, "rescale_offset": True})
    raw = preprocess_from({**VIT, "do_rescale": False, "do_normalize": False})
    assert odd is not None
    assert raw is not None
    mean, std = (torch.tensor(VIT[key]).reshape(3, 1, 1) for key in ("image_mean", "image_std"))
    torch.testing.assert_close(odd(images), (images / 127.5 - 1 - mean) / std, rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(raw(images), images.float())


def test_one_channel_serves_a_model_with_three() -> None:
    prepare = Preprocess(size=(4, 4), mean=(0.1, 0.2, 0.3), std=(1.0, 1.0, 1.0))
    grey = pixels(2, 1, 4, 4)
    assert torch.equal(prepare(grey), prepare(grey.expand(2, 3, 4, 4)))


def test_a_size_may_be_one_number_and_may_be_missing() -> None:
    assert preprocess_from({"size": 8}) == Preprocess(size=(8, 8))
    assert preprocess_from({"image_mean": [0.5]}) is None


@pytest.mark.parametrize(
    "change",
    [
        {"size": {"height": "tall", "width": 3}},
        {"size": [1, 2]},
        {"size": {"depth": 3}},
        {"image_mean": 3},
        {"rescale_factor": 0},
    ],
)
def test_odd_settings_are_refused_by_file(change: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"preprocessor_config\.json cannot be used"):
        preprocess_from({**VIT, **change})


def test_settings_that_make_no_sense_are_refused() -> None:
    settings: list[dict[str, Any]] = [{"size": (10**6, 10**6)}, {"edge": 3}, {"std": (0.0,)}, {"mean": (float("nan"),)}]
    for wrong in settings:
        with pytest.raises(InputError, match="makes no sense"):
            Preprocess(**{"size": (4, 4), **wrong})


def test_what_is_not_a_batch_of_images_is_refused() -> None:
    prepare = Preprocess(size=(4, 4), mean=(0.1, 0.2, 0.3), std=(1.0, 1.0, 1.0))
    with pytest.raises(InputError, match=r"(?s)not images.*torch\.uint8 of shape \[3, 4, 4\]"):
        prepare(pixels(3, 4, 4))
    with pytest.raises(InputError, match=r"(?s)not images.*torch\.int64"):
        prepare(torch.zeros(1, 3, 4, 4, dtype=torch.int64))
    with pytest.raises(InputError, match=r"(?s)wrong channels.*3 channels.*got: +4"):
        prepare(pixels(1, 4, 4, 4))
