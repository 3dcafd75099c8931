"""Random crops and mirror images, against a loop over single images."""

import pytest
import torch
from torch import Tensor

from sfra.core.errors import InputError
from sfra.data import Augment


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


@pytest.mark.parametrize("dtype", [torch.uint8, torch.float16, torch.float32])
@pytest.mark.parametrize(("crop", "flip"), [(4, True), (1, True), (0, True), (3, False), (0, False), (9, True)])
def test_a_batch_is_augmented_as_its_images_one_by_one(crop: int, flip: bool, dtype: torch.dtype) -> None:
    images = torch.randint(1, 256, (50, 3, 6, 8), generator=seeded(1)).to(dtype)
    augmented = Augment(crop=crop, flip=flip)(images, seeded())
    assert augmented.dtype == dtype
    assert torch.equal(augmented, one_by_one(images, crop, flip, seeded()))


def test_the_same_state_gives_the_same_images_and_the_next_draw_gives_others() -> None:
    images = torch.randint(256, (20, 3, 8, 8), generator=seeded(1), dtype=torch.uint8)
    generator = seeded()
    first = Augment()(images, generator)
    state = generator.get_state()
    second = Augment()(images, generator)
    assert torch.equal(first, Augment()(images, seeded()))
    assert not torch.equal(first, second)
    assert torch.equal(second, Augment()(images, generator.set_state(state)))


def test_the_global_random_state_and_the_images_are_left_alone() -> None:
    images = torch.randint(256, (5, 1, 8, 8), generator=seeded(1), dtype=torch.uint8)
    before, kept = torch.get_rng_state(), images.clone()
    Augment()(images, seeded())
    assert torch.equal(torch.get_rng_state(), before)
    assert torch.equal(images, kept)


def test_every_place_and_both_directions_are_equally_likely() -> None:
    draws, crop = 27_000, 1
    marked = torch.zeros(draws, 1, 5, 5)
    marked[:, 0, 2, 1:3] = torch.tensor([1.0, 2.0])
    augmented = Augment(crop=crop)(marked, seeded(3))
    peak = (augmented == 2).flatten(1).int().argmax(dim=1)
    mirrored = (augmented == 1).flatten(1).int().argmax(dim=1) > peak
    shift = torch.where(mirrored, 4 - peak % 5, peak % 5) - 1
    cells = ((peak // 5 - 1) * 3 + shift) * 2 + mirrored
    counts = torch.bincount(cells, minlength=18).double()
    assert counts.shape == (18,)
    chi_squared = float(((counts - draws / 18) ** 2 / (draws / 18)).sum())
    assert chi_squared < 40.8  # 0.999 quantile for 17 degrees of freedom


def test_a_negative_shift_is_refused() -> None:
    with pytest.raises(InputError, match="cannot be shifted by that\n  expected: 0 pixels or more\n  got:      -1"):
        Augment(crop=-1)


def test_a_shift_that_would_fill_the_memory_is_refused() -> None:
    with pytest.raises(
        InputError, match="cannot be shifted by that\n  expected: at most 512 pixels\n  got:      99999999999"
    ):
        Augment(crop=99999999999)
