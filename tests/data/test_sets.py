"""What a set of features or images promises, whatever it came from."""

import pytest
import torch
from torch import Tensor

from sfra.core.errors import InputError
from sfra.data import ArrayPixels, FeatureSet, ImageSet

FEATURES = torch.tensor([[0.0, 1.0], [2.0, 3.0], [4.0, 5.0]])
LABELS = torch.tensor([0, 2, 1])
IMAGES = torch.arange(5 * 3 * 4 * 4, dtype=torch.uint8).reshape(5, 3, 4, 4)


def image_set(images: Tensor = IMAGES, labels: Tensor | None = None) -> ImageSet:
    return ImageSet(
        pixels=ArrayPixels(images.numpy()), labels=torch.arange(len(images)) % 3 if labels is None else labels
    )


def test_batches_are_the_images_in_order_divided_by_255_whatever_the_batch_size() -> None:
    expected = IMAGES.double().div(255).float()
    for size in (1, 2, 5, 100):
        batches = list(image_set().batches(size))
        assert all(len(batch) <= size for batch in batches)
        assert torch.equal(torch.cat(batches), expected)


def test_images_that_grow_are_prepared_fewer_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    given = []

    def enlarge(images: Tensor) -> Tensor:
        given.append(len(images))
        return images.repeat(1, 1, 10, 10)

    monkeypatch.setattr("sfra.data.sets.LARGEST", 2 * 3 * 40 * 40 * 4)
    batches = list(image_set().batches(5, enlarge))
    assert max(given) == 2
    assert [len(batch) for batch in batches] == [2, 2, 1]
    assert torch.equal(torch.cat(batches), IMAGES.float().div(255).repeat(1, 1, 10, 10))


def test_preprocessing_sees_the_unit_range_and_its_result_is_yielded() -> None:
    ranges = []

    def negate(images: Tensor) -> Tensor:
        ranges.append((images.min().item(), images.max().item()))
        return -images

    batches = list(image_set().batches(5, negate))
    assert all(0 <= low <= high <= 1 for low, high in ranges)
    assert torch.equal(batches[0], -IMAGES.float().div(255))


@pytest.mark.parametrize("size", [0, -1])
def test_a_batch_holds_at_least_one_image(size: int) -> None:
    with pytest.raises(InputError, match="a batch cannot be empty"):
        next(image_set().batches(size))


def test_a_selection_has_the_chosen_images_and_labels_in_the_chosen_order() -> None:
    chosen = image_set().select(torch.tensor([4, 0]))
    assert chosen.labels.tolist() == [1, 0]
    assert torch.equal(next(chosen.batches(9)), IMAGES[[4, 0]].float() / 255)


def test_the_fingerprint_follows_the_content_only() -> None:
    brighter = IMAGES.clone()
    brighter[3, 1, 2, 2] += 1
    base = image_set().fingerprint
    assert image_set(IMAGES.clone()).fingerprint == base
    assert image_set().select(torch.arange(5)).fingerprint == base
    different = [
        image_set(brighter),
        image_set(labels=torch.tensor([0, 1, 2, 0, 2])),
        image_set(IMAGES.reshape(5, 3, 2, 8)),
        image_set().select(torch.tensor([1, 0, 2, 3, 4])),
        image_set().select(torch.tensor([0, 1])),
    ]
    assert len({base, *(other.fingerprint for other in different)}) == 6


def test_the_fingerprint_of_features_follows_features_and_labels() -> None:
    base = FeatureSet(features=FEATURES, labels=LABELS)
    assert FeatureSet(features=FEATURES.clone(), labels=LABELS, source="x").fingerprint == base.fingerprint
    assert FeatureSet(features=FEATURES + 1, labels=LABELS).fingerprint != base.fingerprint
    assert FeatureSet(features=FEATURES, labels=LABELS.flip(0)).fingerprint != base.fingerprint


def test_features_that_are_not_finite_are_refused_with_their_number() -> None:
    broken = FEATURES.clone()
    broken[0] = torch.nan
    broken[2, 0] = torch.inf
    with pytest.raises(InputError, match="2 of 3 rows hold NaN or infinity"):
        FeatureSet(features=broken, labels=LABELS)


@pytest.mark.parametrize(
    ("labels", "names", "message"),
    [
        ([0, 1, -1], None, "class indices\n  expected: 0, 1, 2, …\n  got:      -1"),
        ([0, 1, 3], ("a", "b", "c"), "no class name\n  expected: 0 to 2\n  got:      3"),
    ],
)
def test_labels_are_checked_in_both_kinds_of_set(
    labels: list[int], names: tuple[str, ...] | None, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        FeatureSet(features=FEATURES, labels=torch.tensor(labels), class_names=names)
    with pytest.raises(InputError, match=message):
        ImageSet(pixels=ArrayPixels(IMAGES[:3].numpy()), labels=torch.tensor(labels), class_names=names)


def test_an_empty_set_is_refused() -> None:
    with pytest.raises(InputError, match="images in memory is empty"):
        image_set(IMAGES[:0], torch.tensor([], dtype=torch.int64))
    with pytest.raises(InputError, match="is empty"):
        image_set().select(torch.tensor([], dtype=torch.int64))
