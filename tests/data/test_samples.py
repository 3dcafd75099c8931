"""Images to train on: what a batch holds, and what cannot be one tensor."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image

from sfra.core.errors import InputError
from sfra.data import Augment, ImageSet, ImageTensors, MemoryPixels, load_data, open_samples
from sfra.models.training.train import Samples
from sfra.release import Preprocess

RNG = torch.Generator().manual_seed(0)
BYTES = torch.randint(256, (30, 3, 8, 8), generator=RNG, dtype=torch.uint8)
LABELS = torch.arange(30) % 3
PREPARE = Preprocess(size=(4, 4), mean=(0.5,), std=(0.25,))


def images(pixels: torch.Tensor = BYTES) -> ImageSet:
    return ImageSet(pixels=MemoryPixels(pixels), labels=LABELS)


def test_a_batch_is_the_named_images_in_unit_range_on_the_cpu() -> None:
    data = open_samples(images())
    assert isinstance(data, Samples)
    assert data.images.dtype == torch.uint8
    batch = data.take(torch.tensor([7, 0, 7]))
    assert batch.dtype == torch.float32
    assert torch.equal(batch, BYTES[[7, 0, 7]].float() / 255)
    assert torch.equal(data.labels, LABELS)


def test_pixels_are_augmented_then_scaled_then_prepared() -> None:
    data = open_samples(images(), prepare=PREPARE, augment=Augment(crop=2), seed=5)
    index = torch.tensor([3, 1, 4])
    augmented = Augment(crop=2)(BYTES[index], torch.Generator().manual_seed(5))
    assert torch.equal(data.take(index), PREPARE(augmented.float() / 255))


def test_the_seed_and_the_state_of_the_generator_determine_what_is_read() -> None:
    index = torch.arange(30)
    first, same, other = (open_samples(images(), augment=Augment(), seed=seed) for seed in (1, 1, 2))
    batch = first.take(index)
    state = first.generator.get_state()
    following = first.take(index)
    assert torch.equal(batch, same.take(index))
    assert not torch.equal(batch, other.take(index))
    other.generator.set_state(state)
    assert torch.equal(other.take(index), following)


@pytest.mark.parametrize("dtype", [torch.float16, torch.float32])
def test_floats_are_not_scaled_and_come_as_float32(dtype: torch.dtype) -> None:
    floats = (BYTES / 255).to(dtype)
    data = open_samples(images(floats), prepare=PREPARE)
    assert data.images.dtype == dtype
    assert torch.equal(data.take(torch.tensor([2])), PREPARE(floats[[2]].float()))


def test_normalised_floats_are_not_normalised_again() -> None:
    with pytest.raises(InputError, match="would be normalised twice"):
        open_samples(images(BYTES / 255 * 2 - 1), prepare=PREPARE)
    assert len(open_samples(images(BYTES / 255 * 2 - 1)).images) == 30


def of_two_sizes(folder: Path) -> ImageSet:
    (folder / "a").mkdir()
    for i, side in enumerate((8, 8, 6, 8)):
        Image.fromarray(np.full((side, side, 3), 50 * i, dtype=np.uint8)).save(folder / "a" / f"{i}.png")
    data = load_data(folder)
    assert isinstance(data, ImageSet)
    return data


def test_images_of_several_sizes_are_prepared_as_they_are_read(tmp_path: Path) -> None:
    data = open_samples(of_two_sizes(tmp_path), prepare=PREPARE)
    assert data.prepare is None
    expected = (torch.tensor([0.0, 150.0]) / 255 - 0.5) / 0.25
    batch = data.take(torch.tensor([0, 3]))
    torch.testing.assert_close(batch, expected[:, None, None, None].expand(2, 3, 4, 4))


def test_images_of_several_sizes_cannot_be_augmented_or_left_as_they_are(tmp_path: Path) -> None:
    mixed = of_two_sizes(tmp_path)
    with pytest.raises(InputError, match=r"differ in size and cannot be augmented(\n.*)*resize the files to one size"):
        open_samples(mixed, prepare=PREPARE, augment=Augment())
    with pytest.raises(InputError, match=r"differ in size(\n.*)*pass a preprocess that does"):
        open_samples(mixed)


def test_images_that_do_not_fit_into_memory_are_refused_with_their_size() -> None:
    class Wide(MemoryPixels):
        def blocks(self, start: int, stop: int) -> list[torch.Tensor]:
            return [self.images[start:stop]]

    wide = Wide(torch.zeros(1, 1, 1, 1, dtype=torch.uint8).expand(30, 3, 2**22, 2**22))
    with pytest.raises(InputError, match=r"do not fit into the memory of cpu(\n.*)*: 1474560\.0 GiB"):
        open_samples(ImageSet(pixels=wide, labels=LABELS))


def test_labels_must_belong_to_the_images() -> None:
    with pytest.raises(InputError, match="images and labels disagree\n  expected: 30 labels\n  got:      29"):
        ImageTensors(images=BYTES, labels=LABELS[1:], generator=RNG)
