"""Images to train on: augmented like single images, and what a batch holds."""

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import Tensor

from sfra.core.errors import InputError
from sfra.data import ArrayPixels, Augment, ImageSet, ImageTensors, load_data, open_samples
from sfra.models.training.train import Samples
from sfra.release import Preprocess

RNG = torch.Generator().manual_seed(0)
BYTES = torch.randint(256, (30, 3, 8, 8), generator=RNG, dtype=torch.uint8)
LABELS = torch.arange(30) % 3
PREPARE = Preprocess(size=(4, 4), mean=(0.5,), std=(0.25,))


def seeded(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def one_by_one(images: Tensor, crop: int, flip: bool, generator: torch.Generator) -> Tensor:
    """Cut every image out of a larger black one, pixel by pixel of the definition."""
    n, c, h, w = images.shape
    top = torch.randint(2 * crop + 1, (n,), generator=generator) if crop else torch.zeros(n, dtype=torch.int64)
    left = torch.randint(2 * crop + 1, (n,), generator=generator) if crop else torch.zeros(n, dtype=torch.int64)
    mirror = torch.randint(2, (n,), generator=generator) if flip else torch.zeros(n, dtype=torch.int64)
    results = []
    for i in range(n):
        canvas = torch.zeros(c, h + 2 * crop, w + 2 * crop, dtype=images.dtype)
        canvas[:, crop : crop + h, crop : crop + w] = images[i]
        cut = canvas[:, top[i] : top[i] + h, left[i] : left[i] + w]
        results.append(torch.stack([cut[:, :, w - 1 - x] for x in range(w)], dim=2) if mirror[i] else cut)
    return torch.stack(results)


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float32])
@pytest.mark.parametrize(("crop", "flip"), [(4, True), (3, False), (0, False), (9, True)])
def test_a_batch_is_augmented_as_its_images_one_by_one(crop: int, flip: bool, dtype: torch.dtype) -> None:
    images = torch.randint(1, 256, (50, 3, 6, 8), generator=seeded(1)).to(dtype)
    kept, state = images.clone(), torch.get_rng_state()
    augmented = Augment(crop=crop, flip=flip)(images, seeded())
    assert augmented.dtype == dtype
    assert torch.equal(images, kept)
    assert torch.equal(torch.get_rng_state(), state)
    assert torch.equal(augmented, one_by_one(images, crop, flip, seeded()))


def images(pixels: torch.Tensor = BYTES) -> ImageSet:
    return ImageSet(pixels=ArrayPixels(pixels.numpy()), labels=LABELS)


@pytest.mark.parametrize(("crop", "expected"), [(-1, "0 pixels or more"), (99999999999, "at most 512 pixels")])
def test_a_shift_must_be_possible(crop: int, expected: str) -> None:
    with pytest.raises(InputError, match=expected):
        Augment(crop=crop)


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
    with pytest.raises(InputError, match=r"(?s)would be normalised twice.*call the array 'inputs'"):
        open_samples(images(BYTES / 255 * 2 - 1), prepare=PREPARE)
    assert len(open_samples(images(BYTES / 255 * 2 - 1)).images) == 30


def test_bytes_written_as_floats_are_not_called_normalised() -> None:
    with pytest.raises(InputError, match=r"(?s)not in 0 to 1.*uint8, or divide"):
        open_samples(images(BYTES.float()), prepare=PREPARE)


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
    with pytest.raises(InputError, match=r"differ in size(\n.*)*pass --size, or a preprocess that resizes them"):
        open_samples(mixed)


def test_images_that_do_not_fit_into_memory_are_refused_with_their_size(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise RuntimeError("no memory")

    monkeypatch.setattr(torch, "empty", full)
    with pytest.raises(InputError, match=r"do not fit into the memory of cpu(\n.*)*30 images of \[3, 8, 8\]"):
        open_samples(images())


def test_labels_must_belong_to_the_images() -> None:
    with pytest.raises(InputError, match="images and labels disagree\n  expected: 30 labels\n  got:      29"):
        ImageTensors(images=BYTES, labels=LABELS[1:], generator=RNG)
