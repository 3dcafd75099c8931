"""Images are resized as Pillow does it, by Pillow or by matrices."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from sfra.release import resample
from sfra.release.resample import FILTERS, by_matrices, by_pillow, resize


def pixels(*shape: int, seed: int = 0) -> Tensor:
    return torch.randint(0, 256, shape, dtype=torch.uint8, generator=torch.Generator().manual_seed(seed))


def pillow(image: Tensor, size: tuple[int, int], number: int) -> Tensor:
    """Resize ``[3, h, w]``, rows first whatever the version of Pillow, with the filter of this number."""
    rows = Image.fromarray(image.permute(1, 2, 0).numpy()).resize((size[1], image.shape[1]), number)
    return torch.from_numpy(np.array(rows.resize(size[::-1], number))).permute(2, 0, 1)


@pytest.mark.parametrize("how", FILTERS)
def test_matrices_give_the_bytes_of_pillow_for_every_filter_and_size(how: str) -> None:
    sizes = np.random.default_rng(FILTERS.index(how)).integers(1, 70, (60, 4)).tolist()
    for height, width, new_height, new_width in [*sizes, [200, 31, 7, 224], [1, 1, 5, 9]]:
        image = pixels(3, height, width, seed=height * width)
        expected = pillow(image, (new_height, new_width), FILTERS.index(how))
        got = by_matrices(image[None].double(), (new_height, new_width), how, is_bytes=True)[0]
        assert torch.equal(got, expected.double()), (height, width, new_height, new_width)


@pytest.mark.parametrize("how", FILTERS)
def test_every_channel_goes_through_pillow_as_in_a_colour_image(how: str) -> None:
    images, size = pixels(2, 3, 45, 30), (16, 24)
    whole = [Image.fromarray(image.permute(1, 2, 0).numpy()).resize(size[::-1], FILTERS.index(how)) for image in images]
    expected = torch.stack([torch.from_numpy(np.array(image)).permute(2, 0, 1) for image in whole])
    assert torch.equal(by_pillow(images, size, how), expected)
    assert torch.equal((255 * resize(images / 255, size, how)).round().to(torch.uint8), expected)


def test_without_pillow_the_bytes_are_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    images = pixels(3, 1, 20, 20) / 255
    by_it = resize(images, (31, 14), "bicubic")
    monkeypatch.setattr(resample, "find_spec", lambda name: None)
    assert torch.equal(resize(images, (31, 14), "bicubic"), by_it)


def test_images_that_are_no_bytes_keep_their_precision() -> None:
    images = torch.rand(2, 1, 20, 20, generator=torch.Generator().manual_seed(0))
    got = resize(images, (10, 10), "box")
    torch.testing.assert_close(got, images.reshape(2, 1, 10, 2, 10, 2).mean((3, 5)))


def test_images_are_resized_in_parts_that_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    images = pixels(5, 3, 8, 8) / 255
    whole = resize(images, (5, 5), "bilinear")
    monkeypatch.setattr(resample, "AT_ONCE", 2 * 3 * 8 * 8)
    assert torch.equal(resize(images, (5, 5), "bilinear"), whole)
