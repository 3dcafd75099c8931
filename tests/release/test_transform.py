"""A preparation of the user's own is called with what it takes."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor, nn

from sfra.core.errors import InputError
from sfra.release import Preprocess, load
from sfra.release.transform import OwnTransform

IMAGES = torch.randint(0, 256, (3, 3, 12, 20), generator=torch.Generator().manual_seed(0)) / 255


def to_tensor(image: Image.Image) -> Tensor:
    """Do what torchvision's ToTensor does with a Pillow image, and refuse all else as it does."""
    if not isinstance(image, Image.Image):
        raise TypeError(f"pic should be PIL Image or ndarray. Got {type(image)}")
    return torch.from_numpy(np.array(image)).permute(2, 0, 1) / 255


class Centred(nn.Module):
    """A transform of tensors."""

    def forward(self, images: Tensor) -> Tensor:
        return images - 0.5


def test_a_function_of_pillow_images_gets_the_bytes_of_each() -> None:
    prepared = OwnTransform(lambda image: to_tensor(image.resize((6, 5), Image.Resampling.BICUBIC)))(IMAGES)
    assert torch.equal(prepared, Preprocess(size=(5, 6), resample="bicubic")(IMAGES))


def test_a_function_of_tensors_gets_the_batch() -> None:
    shapes = []

    def twice(batch: Tensor) -> Tensor:
        shapes.append(batch.shape)
        return 2 * batch

    assert torch.equal(OwnTransform(twice)(IMAGES), 2 * IMAGES)
    assert shapes == [(3, 3, 12, 20)]
    assert torch.equal(OwnTransform(Centred())(IMAGES), IMAGES - 0.5)


def test_grey_images_come_as_grey_pillow_images() -> None:
    modes = []

    def note(image: Image.Image) -> Tensor:
        modes.append(image.mode)
        return torch.from_numpy(np.array(image))[None] / 255

    assert torch.equal(OwnTransform(note)(IMAGES[:, :1]), IMAGES[:, :1])
    assert set(modes) == {"L"}


def test_an_image_processor_of_transformers_serves_as_it_is() -> None:
    transformers = pytest.importorskip("transformers")
    processor = transformers.ViTImageProcessorPil(size={"height": 6, "width": 6})
    expected = Preprocess(size=(6, 6), mean=(0.5,) * 3, std=(0.5,) * 3)(IMAGES)
    for given in (processor, lambda image: processor(image, return_tensors="pt")):
        torch.testing.assert_close(OwnTransform(given)(IMAGES), expected)


def test_transforms_of_torchvision_serve_as_they_are() -> None:
    v2 = pytest.importorskip("torchvision.transforms.v2")
    v1 = pytest.importorskip("torchvision.transforms")
    steps = [v1.Resize(8), v1.CenterCrop(8), v1.ToTensor(), v1.Normalize((0.5,) * 3, (0.5,) * 3)]
    expected = Preprocess(resize=8, crop=(8, 8), mean=(0.5,) * 3, std=(0.5,) * 3)(IMAGES)
    torch.testing.assert_close(OwnTransform(v1.Compose(steps))(IMAGES), expected)
    assert torch.equal(OwnTransform(v2.Normalize((0.5,) * 3, (0.5,) * 3))(IMAGES), (IMAGES - 0.5) / 0.5)


def test_what_serves_for_nothing_is_refused_with_both_reasons() -> None:
    with pytest.raises(InputError, match=r"(?s)cannot prepare these images.*Pillow image: KeyError: 1.*batch: KeyErr"):
        OwnTransform(_raises)(IMAGES)
    with pytest.raises(InputError, match=r"(?s)6 results for 3 images"):
        OwnTransform(lambda batch: torch.cat([batch * 1.0, batch]))(IMAGES)


def test_what_fails_later_on_is_refused_too() -> None:
    prepare = OwnTransform(lambda batch: 1.0 * batch[:2])
    assert torch.equal(prepare(IMAGES[:2]), IMAGES[:2])
    with pytest.raises(InputError, match="2 results for 3 images"):
        prepare(IMAGES)


def _raises(given: object) -> Tensor:
    raise KeyError(1)


def test_the_function_is_named_in_one_line() -> None:
    assert str(OwnTransform(Centred())) == "by Centred()"
    assert str(OwnTransform(to_tensor)) == "by <function to_tensor>"
    assert len(str(OwnTransform(nn.Sequential(*[Centred() for _ in range(99)])))) < 310


def test_what_the_caller_says_wins_over_the_model() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(16, 3))
    assert load(model, example=torch.zeros(1, 1, 4, 4)).preprocess is None
    prepare = Preprocess(mean=(0.5,))
    release = load(model, example=torch.zeros(1, 1, 4, 4), preprocess=prepare)
    assert release.preprocess is prepare
    assert str(load(release, preprocess=Centred()).preprocess) == "by Centred()"
