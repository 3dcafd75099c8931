"""The linear probe against a plain torch loop, on data that it can and cannot read, and its refusals."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sfra.controls import linear_probe
from sfra.controls.linear import SoftmaxRegression, _split, train_until_flat
from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.data import FeatureSet

CLASSES, WIDTH = 5, 12


def clouds(seed: int, samples: int = 500, *, blind: tuple[int, ...] = (), spread: float = 0.5) -> FeatureSet:
    """Classes around centres of their own; the blind ones all around the same point."""
    generator = torch.Generator().manual_seed(seed)
    labels = torch.arange(samples) % CLASSES
    centres = torch.randn(CLASSES, WIDTH, generator=torch.Generator().manual_seed(7))
    centres[list(blind)] = 0.0
    noise = torch.randn(samples, WIDTH, generator=generator)
    return FeatureSet(features=centres[labels] + spread * noise, labels=labels)


def test_every_epoch_is_that_of_torch_sgd_on_the_same_batches() -> None:
    train, seed = clouds(0, samples=303), 11
    given = train.features.clone()
    got = linear_probe(train, clouds(1), [1], classes=CLASSES, epochs=4, batch_size=32, seed=seed)

    generator = torch.Generator().manual_seed(seed)
    fit, held_out = _split(train.labels, 0.1, generator)
    start = Head(torch.zeros(CLASSES, WIDTH)).reset_rows(range(CLASSES), seed=seed)
    layer = nn.Linear(WIDTH, CLASSES)
    with torch.no_grad():
        layer.weight.copy_(start.weight)
        layer.bias.copy_(start.bias)
    optimizer = torch.optim.SGD(layer.parameters(), lr=0.01, momentum=0.9)
    for epoch in got.history:
        losses = []
        for rows in torch.split(fit[torch.randperm(len(fit), generator=generator)], 32):
            loss = nn.functional.cross_entropy(layer(train.features[rows]), train.labels[rows])
            optimizer.zero_grad()
            loss.backward()  # type: ignore[no-untyped-call]
            optimizer.step()
            losses.append(loss.item())
        assert epoch.loss == pytest.approx(sum(losses) / len(losses), rel=1e-5)
        held = nn.functional.cross_entropy(layer(train.features[held_out]), train.labels[held_out])
        assert epoch.validation_loss == pytest.approx(held.item(), rel=1e-5)
    assert torch.equal(train.features, given)
    assert (len(got.history), got.epoch) == (4, 4)  # still falling: the last epoch is the best
    torch.testing.assert_close(got.head.weight, layer.weight.detach(), rtol=1e-4, atol=1e-6)
    torch.testing.assert_close(got.head.bias, layer.bias.detach(), rtol=1e-4, atol=1e-6)


def test_separable_classes_are_read_and_a_class_without_information_is_not() -> None:
    seen = linear_probe(clouds(0), clouds(1), [2, 3], classes=CLASSES)
    assert seen.forget_accuracy > 0.97
    assert min(seen.per_class.values()) > 0.95
    assert seen.retain_accuracy > 0.97
    blind = linear_probe(clouds(0, blind=(2, 3)), clouds(1, blind=(2, 3)), [2, 3], classes=CLASSES)
    assert 0.3 < blind.forget_accuracy < 0.7  # two classes at one place: a coin
    assert blind.retain_accuracy > 0.9  # where there is information it did learn


def test_accuracies_are_those_of_the_returned_head_per_class_and_together() -> None:
    train, test = clouds(0, spread=2.0), clouds(1, samples=437, spread=2.0)
    got = linear_probe(train, test, [3, 1], classes=CLASSES)
    hits = got.head(test.features).argmax(1) == test.labels
    expected = {c: float(hits[test.labels == c].double().mean()) for c in (1, 3)}
    assert got.per_class == pytest.approx(expected, abs=1e-12)
    forgotten = (test.labels == 1) | (test.labels == 3)
    assert got.forget_accuracy == pytest.approx(float(hits[forgotten].double().mean()), abs=1e-12)
    assert got.retain_accuracy == pytest.approx(float(hits[~forgotten].double().mean()), abs=1e-12)


def test_early_stopping_restores_the_epoch_of_the_lowest_validation_loss() -> None:
    # Labels of a third of the samples are wrong, so the validation loss turns soon.
    clean = clouds(0, samples=200, spread=1.0)
    wrong = torch.where(torch.arange(200) % 3 == 0, (clean.labels + 2) % CLASSES, clean.labels)
    noisy = FeatureSet(features=3 * clean.features, labels=wrong)
    got = linear_probe(noisy, clouds(1), [1], classes=CLASSES, patience=3, learning_rate=0.05, batch_size=16)
    losses = [entry.validation_loss for entry in got.history]
    assert got.epoch == 1 + losses.index(min(losses))
    assert len(losses) == got.epoch + 3 < 100
    _, held_out = _split(noisy.labels, 0.1, torch.Generator().manual_seed(0))
    logits = got.head(noisy.features[held_out])
    restored = nn.functional.cross_entropy(logits, noisy.labels[held_out]).item()
    assert restored == pytest.approx(min(losses), rel=1e-5)
    assert restored < losses[-1]


def test_the_held_out_part_is_a_tenth_of_each_class_and_disjoint() -> None:
    labels = torch.cat([torch.full((size,), c) for c, size in enumerate((100, 40, 4, 1))])
    labels = labels[torch.randperm(len(labels), generator=torch.Generator().manual_seed(1))]
    fit, held_out = _split(labels, 0.1, torch.Generator().manual_seed(0))
    assert torch.bincount(labels[held_out], minlength=4).tolist() == [10, 4, 1, 0]
    assert torch.equal(torch.cat([fit, held_out]).sort().values, torch.arange(len(labels)))
    other = _split(labels, 0.1, torch.Generator().manual_seed(2))[1]
    assert not torch.equal(other, held_out)


def test_the_seed_decides_everything_and_the_global_generator_nothing() -> None:
    def run(seed: int) -> str:
        return linear_probe(clouds(0), clouds(1), [1], classes=CLASSES, epochs=3, seed=seed).head.fingerprint

    state = torch.get_rng_state()
    first = run(4)
    assert torch.equal(torch.get_rng_state(), state)
    with torch.random.fork_rng():
        torch.default_generator.manual_seed(123)
        assert run(4) == first
    assert run(5) != first


def test_a_retain_class_without_test_samples_and_unused_outputs_are_no_problem() -> None:
    test = clouds(1)
    kept = test.labels != 4
    got = linear_probe(
        clouds(0),
        FeatureSet(features=test.features[kept], labels=test.labels[kept]),
        [1],
        classes=CLASSES + 3,
    )
    assert got.head.classes == CLASSES + 3
    assert got.retain_accuracy > 0.97


def test_a_run_that_diverges_says_so() -> None:
    features, labels = torch.full((20, 3), torch.finfo(torch.float32).max / 2), torch.arange(20) % 3
    classifier = SoftmaxRegression(Head(torch.eye(3)), features, labels, learning_rate=0.01, momentum=0.9)
    rows: Tensor = torch.arange(20)
    with pytest.raises(InputError, match="the linear probe diverged") as caught:
        train_until_flat(classifier, rows, rows, torch.Generator().manual_seed(0), 8, 5, 5)
    assert "check the scale of the features" in str(caught.value)
    assert "nan" in str(caught.value) or "inf" in str(caught.value)


def refusal(train: FeatureSet, test: FeatureSet, forget: list[int], **settings: Any) -> str:
    with pytest.raises(InputError) as caught:
        linear_probe(train, test, forget, **({"classes": CLASSES} | settings))
    return str(caught.value)


@pytest.mark.parametrize(
    ("setting", "value"), [("learning_rate", 0.0), ("momentum", 1.0), ("epochs", 0), ("classes", 2)]
)
def test_a_setting_out_of_range_is_refused_by_name(setting: str, value: float) -> None:
    text = refusal(clouds(0), clouds(1), [1], **{setting: value})
    assert text.startswith(f"{setting} of the linear probe is out of range\n  expected: ")


def test_data_that_cannot_be_probed_are_refused() -> None:
    train, test = clouds(0), clouds(1)
    assert "got:      4" in refusal(train, test, [1], classes=4)  # a label beyond the outputs
    narrow = FeatureSet(features=test.features[:, :4].contiguous(), labels=test.labels)
    assert f"features {WIDTH} wide" in refusal(train, narrow, [1])
    kept = train.labels != 1
    without = FeatureSet(features=train.features[kept], labels=train.labels[kept])
    assert "has no training sample of forget class 1" in refusal(without, test, [1])
    assert "no sample of the forget class to measure on" in refusal(train, without, [1])
    single = FeatureSet(features=train.features[:CLASSES], labels=torch.arange(CLASSES))
    assert "nothing can be held out" in refusal(single, test, [1])
    assert math.isfinite(linear_probe(train, test, [1], classes=CLASSES, epochs=1).retain_accuracy)
