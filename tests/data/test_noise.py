"""Noise images: the spectrum that they promise, and nothing else."""

import numpy as np
import torch

from sfra.data.noise import noise_images


def grey(n: int, size: int, seed: int = 0) -> np.ndarray:
    (batch,) = noise_images(n, (1, size, size), seed=seed).batches(n)
    return batch[:, 0].numpy()


def test_amplitudes_fall_like_one_over_the_frequency() -> None:
    power = np.mean(np.abs(np.fft.fft2(grey(300, 32))) ** 2, axis=0)
    f = np.hypot(*np.meshgrid(np.fft.fftfreq(32), np.fft.fftfreq(32)))
    inside = (f > 0) & (f <= 0.5)
    slope = np.polyfit(np.log(f[inside]), np.log(power[inside]) / 2, 1)[0]
    assert abs(slope + 1) < 0.1  # black and white cut some of it off


def test_images_differ_in_brightness_and_are_the_same_for_the_same_seed() -> None:
    images = grey(500, 8)
    assert 0.1 < images.mean(axis=(1, 2)).std() < 0.2  # uniform on 0.25 to 0.75 has 0.144
    assert images.min() == 0.0
    assert images.max() == 1.0
    assert np.array_equal(images, grey(500, 8))
    assert not np.array_equal(images, grey(500, 8, seed=1))


def test_a_single_pixel_is_an_image_too() -> None:
    (batch,) = noise_images(4, (3, 1, 1)).batches(4)
    assert torch.isfinite(batch).all()
