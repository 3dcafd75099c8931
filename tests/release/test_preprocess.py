"""Images become what the model was trained on: channels, size, crop, normalisation."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from sfra.core.errors import InputError
from sfra.release import Preprocess


def pixels(*shape: int) -> Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(0))


def test_bytes_and_floats_give_the_same_images() -> None:
    prepare = Preprocess(size=(5, 7), mean=(0.5, 0.4, 0.3), std=(0.5, 0.25, 0.2))
    images = pixels(2, 3, 9, 9)
    torch.testing.assert_close(prepare(images), prepare(images / 255))
    assert prepare(images).shape == (2, 3, 5, 7)


def test_images_of_the_right_size_are_only_normalised() -> None:
    images = pixels(2, 3, 6, 4)
    numbers: dict[str, Any] = {"mean": (0.5, 0.4, 0.3), "std": (0.5, 0.25, 0.2)}
    mean, std = (torch.tensor(value).reshape(3, 1, 1) for value in numbers.values())
    for prepare in (Preprocess(**numbers), Preprocess(size=(6, 4), **numbers), Preprocess(resize=4, **numbers)):
        torch.testing.assert_close(prepare(images), (images / 255 - mean) / std)


def test_the_shorter_side_is_resized_and_the_centre_cut_out() -> None:
    prepare = Preprocess(resize=32, crop=(24, 24))
    images = pixels(1, 3, 32, 48)
    assert torch.equal(prepare(images), images[:, :, 4:28, 12:36] / 255)
    assert prepare(pixels(1, 3, 96, 64)).shape == (1, 3, 24, 24)
    assert Preprocess(resize=32)(pixels(1, 3, 96, 64)).shape == (1, 3, 48, 32)
    assert Preprocess(resize=10)(pixels(1, 3, 30, 40)).shape == (1, 3, 10, 13)  # rounded down


def test_the_longer_side_may_have_a_limit() -> None:
    assert Preprocess(resize=20, longest=30)(pixels(1, 1, 40, 80)).shape == (1, 1, 15, 30)
    assert Preprocess(resize=20, longest=30)(pixels(1, 1, 48, 40)).shape == (1, 1, 24, 20)


def test_a_crop_larger_than_the_image_is_black_around_it() -> None:
    images = pixels(1, 1, 3, 8)
    got = Preprocess(crop=(6, 4), mean=(0.5,), std=(0.5,))(images)
    assert torch.equal(got[:, :, 2:5], images[:, :, :, 2:6] / 255 * 2 - 1)
    assert bool((got[:, :, [0, 1, 5]] == -1).all())


def test_channels_are_exchanged_repeated_or_mixed_to_grey_as_pillow_does() -> None:
    colour, grey = pixels(2, 3, 5, 5), pixels(2, 1, 5, 5)
    assert torch.equal(Preprocess(channels="bgr")(colour), colour.flip(1) / 255)
    assert torch.equal(Preprocess(channels="rgb")(grey), grey.expand(-1, 3, -1, -1) / 255)
    assert torch.equal(Preprocess(channels="bgr")(grey), Preprocess(channels="rgb")(grey))
    pillow = [np.array(Image.fromarray(image.permute(1, 2, 0).numpy()).convert("L")) for image in colour]
    expected = torch.from_numpy(np.stack(pillow))[:, None] / 255
    assert torch.equal(Preprocess(channels="grey")(colour), expected)
    assert torch.equal(Preprocess(channels="grey")(grey), grey / 255)
    with pytest.raises(InputError, match=r"(?s)cannot be converted to grey.*got: +4 channels"):
        Preprocess(channels="grey")(pixels(1, 4, 5, 5))


def test_means_are_those_of_the_channels_as_the_network_takes_them() -> None:
    colour, mean = pixels(1, 3, 4, 4), (0.1, 0.2, 0.3)
    expected = colour.flip(1) / 255 - torch.tensor(mean).reshape(3, 1, 1)
    torch.testing.assert_close(Preprocess(channels="bgr", mean=mean)(colour), expected)


def test_what_is_done_is_said_in_words() -> None:
    assert str(Preprocess()) == "as they are, bytes divided by 255"
    whole = Preprocess(resize=256, crop=(224, 224), resample="bicubic", mean=(0.5,) * 3, std=(0.2, 0.3, 0.4))
    assert str(whole) == (
        "shorter side resized to 256 (bicubic), centre of 224 x 224 cut out, mean 0.5, std 0.2, 0.3, 0.4"
    )
    assert "red and blue" in str(Preprocess(channels="bgr"))


def test_one_channel_serves_a_model_with_three() -> None:
    prepare = Preprocess(size=(4, 4), mean=(0.1, 0.2, 0.3), std=(1.0, 1.0, 1.0))
    grey = pixels(2, 1, 4, 4)
    assert torch.equal(prepare(grey), prepare(grey.expand(2, 3, 4, 4)))


def test_settings_that_make_no_sense_are_refused() -> None:
    settings: list[dict[str, Any]] = [
        *({"size": (10**6, 10**6)}, {"resize": 3}, {"longest": 3}, {"crop": (0, 4)}),
        *({"std": (0.0,)}, {"mean": (float("nan"),)}, {"mean": (0.1, 0.2), "std": (1.0, 1.0, 1.0)}),
    ]
    for wrong in settings:
        with pytest.raises(InputError, match="makes no sense"):
            Preprocess(**{"size": (4, 4), **wrong})


def test_an_unknown_filter_or_order_of_channels_is_refused() -> None:
    with pytest.raises(InputError, match=r"(?s)no resample 'sharp'.*nearest, lanczos, bilinear"):
        Preprocess(resample="sharp")
    with pytest.raises(InputError, match=r"(?s)no channels 'yuv'.*rgb, bgr, grey"):
        Preprocess(channels="yuv")


def test_what_is_not_a_batch_of_images_is_refused() -> None:
    prepare = Preprocess(size=(4, 4), mean=(0.1, 0.2, 0.3), std=(1.0, 1.0, 1.0))
    with pytest.raises(InputError, match=r"(?s)not images.*torch\.uint8 of shape \[3, 4, 4\]"):
        prepare(pixels(3, 4, 4))
    with pytest.raises(InputError, match=r"(?s)not images.*torch\.int64"):
        prepare(torch.zeros(1, 3, 4, 4, dtype=torch.int64))
    with pytest.raises(InputError, match=r"(?s)wrong channels.*3 channels.*got: +4"):
        prepare(pixels(1, 4, 4, 4))


def test_floats_that_are_no_pictures_are_not_normalised_once_more() -> None:
    images = torch.linspace(-2, 2, 32).reshape(1, 2, 4, 4)
    with pytest.raises(InputError, match=r"(?s)not in 0 to 1.*-2 to 2.*call them 'inputs'"):
        Preprocess(mean=(0.5,), std=(0.25,))(images)
    assert torch.equal(Preprocess()(images), images)
