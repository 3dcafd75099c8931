"""The embedded digits: complete, disjoint, stratified, always the same."""

import numpy as np
import torch
from sklearn.datasets import load_digits

from sfra.data import SPLITS, ImageSet, Split, load_data


def digits(split: Split) -> tuple[torch.Tensor, ImageSet]:
    data = load_data("digits", split=split)
    assert isinstance(data, ImageSet)
    return torch.cat(list(data.batches(500))), data


def test_the_splits_are_disjoint_and_together_all_of_the_digits() -> None:
    rows = {split: {image.numpy().tobytes() for image in digits(split)[0]} for split in SPLITS}
    assert sum(len(images) for images in rows.values()) == len(set.union(*rows.values()))
    everything = (load_digits().images / 16).astype(np.float32)
    assert set.union(*rows.values()) == {image.tobytes() for image in everything}
    assert sum(len(digits(split)[1]) for split in SPLITS) == 1797


def test_every_class_is_split_60_15_25() -> None:
    counts = torch.stack([digits(split)[1].labels.bincount(minlength=10) for split in SPLITS]).double()
    shares = counts / counts.sum(0)
    assert torch.allclose(shares, torch.tensor([[0.60], [0.15], [0.25]], dtype=torch.float64), atol=0.02)


def test_each_image_keeps_its_label() -> None:
    data = load_digits()
    truth = {
        image.astype(np.float32).tobytes(): label for image, label in zip(data.images / 16, data.target, strict=True)
    }
    images, test = digits("test")
    assert [truth[image.numpy().tobytes()] for image in images] == test.labels.tolist()


def test_the_pixels_are_in_the_unit_range_and_the_classes_are_named() -> None:
    images, test = digits("test")
    assert images.shape == (len(test), 1, 8, 8)
    assert images.min() == 0
    assert images.max() == 1
    assert test.class_names == ("0", "1", "2", "3", "4", "5", "6", "7", "8", "9")
    assert test.source == "digits (test)"


def test_loading_again_gives_the_same_data() -> None:
    assert digits("test")[1].fingerprint == digits("test")[1].fingerprint
    assert len({digits(split)[1].fingerprint for split in SPLITS}) == 3
