"""Set-ups that are broken, none of which may end in a verdict, and as many sound ones, which must not be refused."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import interpolate

from builders.audits import QUICK
from builders.coloured import FORGET, coloured, learn, network, normalise, trained, unchanged
from sfra.auditing.audit import audit
from sfra.auditing.result import AuditReport
from sfra.core.head import Head
from sfra.data import FeatureSet
from sfra.models.training.train import TensorData
from sfra.release import load
from sfra.unlearn import mask_head

Setup = dict[str, Any]


def setup(
    change: Callable[[Tensor], Tensor] = normalise, relabel: Callable[[Tensor], Tensor] = unchanged, **other: Any
) -> Setup:
    """The original with its output for the class switched off, beside a reference; images and labels as changed."""
    test = coloured("test")
    made = {"model": masked(), "data": (change(test.images), relabel(test.labels)), "reference": trained((FORGET,))}
    return made | other


def masked(forget: tuple[int, ...] = (FORGET,), **how: Any) -> nn.Module:
    model = mask_head(trained(**how), forget)
    assert isinstance(model, nn.Module)
    return model


def run(model: object, forget: object = FORGET, **given: Any) -> AuditReport:
    return audit(model, forget, cache=False, self_controls=1, **given, **QUICK)  # type: ignore[arg-type]


def shuffled(labels: Tensor) -> Tensor:
    return torch.tensor([3, 8, 0, 6, 9, 1, 7, 5, 2, 4])[labels]


def half_permuted(labels: Tensor) -> Tensor:
    generator, changed = torch.Generator().manual_seed(0), labels.clone()
    rows = torch.randperm(len(labels), generator=generator)[: len(labels) // 2]
    changed[rows] = labels[rows[torch.randperm(len(rows), generator=generator)]]
    return changed


def other_classes() -> Setup:
    """A network for the digits 0 to 4, and a split with the digits 5 to 9, which are numbered from 0 as well."""
    train, test = coloured("train"), coloured("test")
    low, high = train.labels < 5, test.labels >= 5
    model = learn(network(5), normalise(train.images[low]), train.labels[low])
    return {
        "model": mask_head(model, [2]),
        "forget": 2,
        "data": (normalise(test.images[high]), test.labels[high] - 5),
    }


def of_another_data_set() -> nn.Module:
    """A reference for other pictures: blots instead of digits."""
    generator = torch.Generator().manual_seed(4)
    blots = interpolate(torch.rand(10, 3, 3, 3, generator=generator), size=(8, 8), mode="bilinear")
    labels = torch.arange(600) % 10
    images = blots[labels] + 0.1 * torch.randn(600, 3, 8, 8, generator=generator)
    kept = labels != FORGET
    return learn(network(seed=5), normalise(images[kept]), labels[kept])


def another_layer(end: int) -> Setup:
    """As many features as the head takes, but those of the first layers only."""
    test, body = coloured("test"), trained()
    assert isinstance(body, nn.Sequential)
    with torch.no_grad():
        maps = body[:end](normalise(test.images))
    features = maps.mean((2, 3)) if maps.shape[1] == 64 else maps.mean(3)[:, :, :2].flatten(1)
    return {"model": load(masked()).head, "data": FeatureSet(features=features, labels=test.labels)}


def twice(images: Tensor) -> Tensor:
    return normalise(normalise(images))


BROKEN: dict[str, tuple[Callable[[], Setup], set[str], str]] = {
    "floats from -127 to 128": (lambda: setup(lambda x: 255 * x - 127), {"inputs-differ"}, "normalised to mean 0"),
    "blue, green, red": (lambda: setup(lambda x: normalise(x.flip(1))), {"inputs-differ"}, "red and blue exchanged"),
    "not normalised": (lambda: setup(unchanged), {"inputs-differ"}, "normalised to mean 0"),
    "normalised twice": (lambda: setup(twice), {"inputs-differ"}, "normalised twice"),
    "another size": (
        lambda: setup(lambda x: interpolate(normalise(x), size=(16, 16), mode="bilinear")),
        {"inputs-differ"},
        "resized to 8 x 8",
    ),
    "classes in another order": (lambda: setup(relabel=shuffled), {"class-order"}, "not in the order"),
    "labels off by one": (lambda: setup(relabel=lambda y: (y + 1) % 10), {"class-order"}, "shifted by one"),
    "a split with other classes": (other_classes, {"retain-low", "confidence-gap", "class-order"}, "labels"),
    "the original as reference": (lambda: setup(reference=trained()), {"reference-saw-class"}, "trained without"),
    "a reference of another data set": (
        lambda: setup(reference=of_another_data_set()),
        {"reference-unusable"},
        "The reference",
    ),
    "features of another layer": (lambda: another_layer(7), {"retain-low"}, "not prepared as in training"),
    "features of the next layer, the accuracy known": (
        lambda: another_layer(8) | {"expect_accuracy": 0.97},
        {"below-expected"},
        "97.0 % were expected",
    ),
    "half of the labels permuted": (lambda: setup(relabel=half_permuted), {"confidence-gap"}, "labels are not its own"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_setup_carries_no_verdict_and_names_its_cause(name: str) -> None:
    make, causes, words = BROKEN[name]
    report = run(**make())
    assert (report.verdict, report.statement[:16]) == ("unusable", "This measurement")
    grave = [finding for finding in report.findings if finding.severity == "critical"]
    assert grave[0].code in causes
    assert words in report.statement
    assert all(finding.remedy for finding in grave)


def features_only() -> Setup:
    release, test = load(masked()), coloured("test")
    assert release.encoder is not None
    return {
        "model": release.head,
        "data": FeatureSet(features=release.encoder(normalise(test.images)), labels=test.labels),
    }


def without_row() -> Setup:
    made = features_only()
    head, kept = made["model"], [k for k in range(10) if k != FORGET]
    return made | {"model": Head(head.weight[kept], head.bias[kept]), "missing_row": True}


def some(rows: Tensor) -> Setup:
    test = coloured("test")
    return setup(data=(normalise(test.images[rows]), test.labels[rows]))


def imbalanced() -> Setup:
    """Ten times as many samples of class 3 as of the others."""
    labels, kept = coloured("test").labels, torch.zeros(len(coloured("test").labels), dtype=torch.bool)
    for label in range(10):
        kept[torch.nonzero(labels == label).flatten()[: None if label == 3 else 8]] = True
    return some(kept)


def two_retain_classes() -> Setup:
    train, test = coloured("train"), coloured("test")
    kept, measured = train.labels < 3, test.labels < 3
    model = learn(network(3), normalise(train.images[kept]), train.labels[kept])
    return {
        "model": mask_head(model, [0]),
        "forget": 0,
        "data": (normalise(test.images[measured]), test.labels[measured]),
    }


def damaged(size: float) -> nn.Module:
    """The masked model after noise on all weights of its encoder: unlearning that went too far."""
    model, generator = copy.deepcopy(masked()), torch.Generator().manual_seed(0)
    for part in list(model.modules())[1:-1]:
        for weight in part.parameters(recurse=False):
            weight.data += size * weight.data.std() * torch.randn(weight.shape, generator=generator)
    return model


def drifted() -> nn.Module:
    """The masked model after its batch norm has seen nothing but the forget class for a while."""
    model, data = copy.deepcopy(masked()).train(), coloured("train")
    with torch.no_grad():
        for _ in range(20):
            model(normalise(data.images[data.labels == FORGET]))
    return model.eval()


def noisy(share: float) -> nn.Module:
    """A network that was trained on labels a part of which were wrong, and never saw the class."""
    data, generator = coloured("train"), torch.Generator().manual_seed(0)
    kept = data.labels != FORGET
    data = TensorData(data.images[kept], data.labels[kept])
    others = torch.tensor([k for k in range(10) if k != FORGET])
    wrong = torch.rand(len(data.labels), generator=generator) < share
    random = others[torch.randint(0, 9, (len(data.labels),), generator=generator)]
    return learn(network(), normalise(data.images), torch.where(wrong, random, data.labels), epochs=12)


SOUND: dict[str, Callable[[], Setup]] = {
    "hidden at the head": setup,
    "retrained": lambda: setup(model=trained((FORGET,), seed=3)),
    "no batch norm": lambda: setup(
        unchanged,
        model=masked(norm=False, prepare=unchanged, epochs=15),
        reference=trained((FORGET,), norm=False, prepare=unchanged, epochs=15),
    ),
    "images in 0 to 1": lambda: setup(
        unchanged, model=masked(prepare=unchanged), reference=trained((FORGET,), prepare=unchanged)
    ),
    "unsure of itself": lambda: setup(model=masked(epochs=2)),
    "trained on few samples": lambda: setup(model=masked(samples=120, epochs=30)),
    "wrong labels in training": lambda: setup(model=noisy(0.4)),
    "damaged by unlearning": lambda: setup(model=damaged(0.35)),
    "batch norm that drifted": lambda: setup(model=drifted()),
    "a small test set": lambda: some(torch.arange(0, 64)),
    "imbalanced test data": imbalanced,
    "three classes, sorted": lambda: some(torch.isin(coloured("test").labels, torch.tensor([0, 1, FORGET]))),
    "no output for the class": without_row,
    "features only": features_only,
    "several classes": lambda: setup(model=masked((2, FORGET)), forget=(2, FORGET), reference=trained((2, FORGET))),
    "two retain classes": two_retain_classes,
}


@pytest.mark.parametrize("name", SOUND)
def test_a_sound_setup_is_not_called_unusable(name: str) -> None:
    report = run(**SOUND[name]())
    assert report.verdict != "unusable", report.statement


@pytest.mark.parametrize("broken", [False, True])
def test_what_makes_an_audit_unusable_is_told_before_it_begins(broken: bool, caplog: pytest.LogCaptureFixture) -> None:
    class BeganError(Exception):
        """The work has begun."""

    def stop(stage: str, done: int, total: int) -> None:
        if stage.startswith("auditing"):
            raise BeganError

    with pytest.raises(BeganError):
        run(**setup(relabel=shuffled if broken else unchanged), progress=stop)
    told = [record.getMessage() for record in caplog.records]
    assert len(told) == broken
    assert all("will be unusable" in text and "not in the order" in text and "What to do:" in text for text in told)
