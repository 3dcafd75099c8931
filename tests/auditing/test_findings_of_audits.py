"""Findings of an audit: raised by what should raise them, and by nothing else."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.utils.parametrizations import spectral_norm, weight_norm

from builders.audits import BIAS, FORGET, MEANS, ROWS, C, D, Toy, codes, compare, hidden, knowing, never_seen
from sfra.auditing.audit import audit
from sfra.auditing.findings import FINDINGS
from sfra.auditing.findings.facts import normalises
from sfra.core.head import Head
from sfra.data import FeatureSet
from sfra.models.backbones import build
from sfra.release import load

QUICK: dict[str, Any] = {"n": 1000, "m": 200, "epochs": 5}


def quick(model: Toy, reference: Toy | None = None, **settings: Any) -> set[str]:
    return codes(compare(model, reference, **{**QUICK, **settings}))


@pytest.fixture(scope="module")
def ordinary() -> set[str]:
    """Findings of a release whose row is like the others, with enough samples and a proper reference."""
    return quick(never_seen(seed=9, samples=110), never_seen(samples=110), n=100_000)


def test_an_ordinary_release_raises_nothing_but_that_nothing_came_back(ordinary: set[str]) -> None:
    assert ordinary == {"degenerate"}


CONTROLS = {
    "reference-missing": lambda: quick(never_seen(samples=110)),
    "few-eval-samples": lambda: quick(never_seen(seed=9, samples=99), never_seen(samples=99)),
    "small-m": lambda: quick(never_seen(seed=9, samples=110), never_seen(samples=110), m=199),
    "small-n": lambda: quick(never_seen(seed=9, samples=110), never_seen(samples=110), n=99_999),
    "cosine-head": lambda: quick(cosine(hidden(samples=110))),
    "forget-row-missing": lambda: quick(never_seen(samples=110).without_row(), never_seen(), missing_row=True),
    "forget-row-outlier": lambda: quick(never_seen(samples=110).with_row(ROWS[FORGET], -5.0), never_seen()),
    "forget-not-low": lambda: quick(knowing(samples=110), never_seen()),
    "reference-saw-class": lambda: quick(never_seen(samples=110), knowing()),
    "reference-differs": lambda: quick(never_seen(samples=110), broken(never_seen())),
    "nothing-measured": lambda: codes(audit(never_seen().head, FORGET, threads=1, **QUICK)),
    "negative-delta": lambda: quick(never_seen(samples=110), hidden(bias=0.0), scale=4.0, epochs=25),
    "seed-spread": lambda: quick(
        hidden(bias=-1.0, samples=110), never_seen(), scale=4.0, n=60, m=8, seeds=3, epochs=120
    ),
    "late-recovery": lambda: quick(hidden(bias=-1.0, samples=110), never_seen(), scale=4.0, epochs=18),
    "retain-drop": lambda: quick(hidden(bias=-1.0, samples=110), never_seen(), scale=12.0, epochs=30),
    "scale-disagreement": lambda: quick(hidden(bias=0.0, samples=110).scaled(5.0), never_seen(), epochs=20),
    "no-scale": lambda: quick(never_seen(samples=110), never_seen(), scale="calibrated", epochs=1),
    "rare-class": lambda: quick(never_seen(samples=110).with_row(ROWS[0], -4.0, label=0), never_seen(), max_draws=1000),
    "retain-low": lambda: quick(relabelled(never_seen(seed=9, samples=110)), never_seen(samples=110)),
    "class-order": lambda: quick(relabelled(never_seen(seed=9, samples=110)), never_seen(samples=110)),
    "images-unprepared": lambda: seen(network(), silent=True),
    "below-expected": lambda: quick(broken(never_seen(samples=110)), never_seen(), expect_accuracy=0.95),
    "reference-unusable": lambda: quick(never_seen(samples=110), relabelled(never_seen())),
    "inputs-differ": lambda: seen(network(remembering(variance=0.04))),
    "confidence-gap": lambda: quick(relabelled(never_seen(seed=9, samples=110)), never_seen(samples=110)),
    "passing-recovery": lambda: quick(hidden(bias=-1.0, samples=110), never_seen(), scale=12.0, epochs=60),
    "no-normalisation": lambda: seen(network()),
    "generic-relearnability": lambda: quick(hidden(bias=-1.0, samples=110), hidden(bias=-1.0), scale=4.0, epochs=25),
}
"""How each finding comes about; the ordinary release is its control."""


def relabelled(toy: Toy) -> Toy:
    """The same samples, their classes in another order but for the forget class."""
    retain = [label for label in range(C) if label != FORGET]
    order = torch.arange(C)
    order[retain] = torch.tensor(retain[1:] + retain[:1])
    return Toy(toy.head, FeatureSet(features=toy.data.features, labels=order[toy.data.labels]))


def cosine(toy: Toy) -> Toy:
    """The same directions, features and rows of length one but for the row that is switched off."""
    rows = nn.functional.normalize(toy.head.weight)
    data = FeatureSet(features=nn.functional.normalize(toy.data.features), labels=toy.data.labels)
    return Toy(Head(16 * rows, toy.head.bias), data)


def network(*layers: nn.Module) -> nn.Sequential:
    """The classifier that never saw the class, taking its features as images, with more layers before its head."""
    head, linear = never_seen().head, nn.Linear(D, C)
    linear.load_state_dict({"weight": head.weight, "bias": head.bias})
    return nn.Sequential(nn.Flatten(), *layers, linear)


def seen(model: nn.Module, *, silent: bool = False) -> set[str]:
    """Findings of a network that torch runs, and that does not say how it wants its images, as others do."""
    data = never_seen(samples=110).data
    images = data.features.reshape(-1, 1, 3, 4)
    release = replace(load(model, example=images[:2]), silent=silent)
    return codes(audit(release, FORGET, data=(images, data.labels), cache=False, **QUICK))


def remembering(variance: float) -> nn.BatchNorm1d:
    """A batch norm that was trained on features of another size, and says so; its scale makes up for that."""
    layer = nn.BatchNorm1d(D)
    layer.load_state_dict(
        {"running_var": torch.full((D,), variance), "weight": torch.full((D,), variance**0.5)}, strict=False
    )
    return layer.eval()


def unchanged() -> nn.Linear:
    """A linear layer that gives its input back."""
    layer = nn.Linear(D, D, bias=False)
    nn.init.eye_(layer.weight)
    return layer


class Own(nn.Module):
    """A layer that normalises by a function, known only by what its tensor is called, or not at all."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self.register_buffer(name, torch.ones(D))

    def forward(self, features: Tensor) -> Tensor:
        return features


class LayerScaleNorm(nn.Identity):
    """A layer of one's own making that says what it is."""


def broken(toy: Toy) -> Toy:
    return toy.with_row(-ROWS[0], float(BIAS[0]), label=0)


@pytest.mark.parametrize("code", CONTROLS)
def test_a_finding_is_raised_by_its_cause_and_not_without_it(code: str, ordinary: set[str]) -> None:
    assert code in CONTROLS[code]()
    assert code not in ordinary


@pytest.mark.parametrize(
    "layer",
    [nn.BatchNorm1d(D), nn.LayerNorm(D), nn.GroupNorm(1, D), nn.RMSNorm(D), LayerScaleNorm(), Own("running_mean")],
    ids=lambda layer: type(layer).__name__,
)
def test_a_network_with_a_layer_that_normalises_is_not_called_plain(layer: nn.Module) -> None:
    assert "no-normalisation" not in seen(network(layer))


@pytest.mark.parametrize(
    "layer",
    [nn.Dropout(), Own("scores"), weight_norm(unchanged()), spectral_norm(unchanged())],
    ids=["dropout", "a tensor", "weight norm", "spectral norm"],
)
def test_a_layer_that_leaves_the_features_as_large_as_they_come_does_not_count(layer: nn.Module) -> None:
    assert "no-normalisation" in seen(network(layer))


def test_nothing_is_said_about_layers_that_cannot_be_seen(ordinary: set[str]) -> None:
    assert normalises(load(never_seen().head)) is None
    assert "no-normalisation" not in ordinary


@pytest.mark.parametrize(
    ("backbone", "expected"), [("small-mlp", False), ("small-cnn", True), ("resnet18-small", True)]
)
def test_the_plain_one_of_our_own_networks_is_known(backbone: str, expected: bool) -> None:
    assert normalises(load(build(backbone, classes=3, seed=0))) is expected


def test_every_code_has_its_cause_here() -> None:
    assert {*CONTROLS, "degenerate"} == set(FINDINGS)


def test_findings_come_gravest_first() -> None:
    report = compare(hidden(), knowing(), epochs=40)
    order = [("critical", "warning", "info").index(finding.severity) for finding in report.findings]
    assert order == sorted(order)
    assert {"critical", "warning"} <= {finding.severity for finding in report.findings}


def test_a_common_row_does_not_hide_an_odd_row() -> None:
    odd = never_seen(samples=110).with_row(6 * ROWS[FORGET], 0.0)
    shifted = odd.shifted(40 * MEANS.sum(0), 100.0)
    norms = shifted.head.weight.norm(dim=1)
    assert float(norms[FORGET] / norms.median()) < 1.2  # as released, it looks like the others
    found = [
        [finding for finding in compare(toy, never_seen(), **QUICK).findings if finding.code == "forget-row-outlier"]
        for toy in (odd, shifted)
    ]
    assert [len(f) for f in found] == [1, 1]
    assert found[0][0].measured == pytest.approx(found[1][0].measured, rel=1e-3)


def test_a_zeroed_row_is_odd_although_the_mean_of_the_others_is_not_zero() -> None:
    assert "forget-row-outlier" in quick(never_seen(samples=110).with_row(0.0, 0.0), never_seen())


def test_each_odd_row_is_named_and_those_of_other_forget_classes_do_not_count_as_retain_rows() -> None:
    forget = (1, FORGET, 4)
    toy = never_seen(samples=110)
    for k in forget:
        toy = toy.with_row(0.0, -15.0, label=k)
    report = compare(toy, None, forget, **QUICK)
    messages = [finding.message for finding in report.findings if finding.code == "forget-row-outlier"]
    assert [f"forget class {k} " in message for k, message in zip(forget, messages, strict=True)] == [True] * 3


def test_a_reference_that_saw_the_class_is_found_out_although_its_row_starts_anew() -> None:
    model = never_seen(samples=110).without_row()
    report = compare(model, knowing(), missing_row=True, seed=1, **QUICK)
    assert report.results[0].reference_forget_before == pytest.approx(0, abs=0.02)  # the fresh row gives nothing away
    assert "reference-saw-class" in codes(report)
    assert "reference-saw-class" not in quick(model, never_seen(), missing_row=True, seed=1)


def test_what_a_fresh_row_of_the_reference_answers_is_not_held_against_it() -> None:
    report = compare(hidden(samples=110), knowing().without_row(), seed=4, **QUICK)
    assert (report.results[0].reference_forget_before or 0.0) > 0.1  # by chance
    assert "reference-saw-class" not in codes(report)
