"""Assignment confidence, against a loop over the samples."""

from __future__ import annotations

import json
import math
from statistics import fmean

import pytest
import torch

from builders.diagnostics import scene
from sfra.attack.scale import Canonical, place
from sfra.core.head import Head
from sfra.diagnostics import confidence

SEED = 6
"""A scene in which every retain class has correct samples and assigned ones."""


def test_confidences_and_counts_are_those_of_a_loop_over_the_samples() -> None:
    toy = scene(SEED, samples=200)
    W, b = toy.head.weight.double(), toy.head.bias.double()
    correct: dict[int, list[float]] = {k: [] for k in (0, 2, 4)}
    assigned: dict[int, list[float]] = {k: [] for k in (0, 2, 4)}
    for z, label in zip(toy.features.double(), toy.labels.tolist(), strict=True):
        odds = [math.exp(float(W[k] @ z + b[k])) for k in range(5)]
        given = odds.index(max(odds))
        if given in correct and label in toy.forget:
            assigned[given].append(max(odds) / sum(odds))
        elif given in correct and label == given:
            correct[given].append(max(odds) / sum(odds))
    found = confidence(toy.head, toy.features, toy.labels, toy.forget)
    for one in found.classes:
        assert one.correct_confidence == pytest.approx(fmean(correct[one.label]), abs=1e-6)
        assert one.assigned_confidence == pytest.approx(fmean(assigned[one.label]), abs=1e-6)
        assert (one.correct, one.assigned) == (len(correct[one.label]), len(assigned[one.label]))
        assert one.gap == pytest.approx(fmean(correct[one.label]) - fmean(assigned[one.label]), abs=1e-6)
    pooled = [value for values in assigned.values() for value in values]
    matched = sum(len(assigned[k]) * fmean(correct[k]) for k in correct) / len(pooled)
    assert found.assigned == len(pooled) < found.forget_samples == 80
    assert found.assigned_confidence == pytest.approx(fmean(pooled), abs=1e-6)
    own = fmean([value for values in correct.values() for value in values])
    assert (found.correct_confidence, found.matched_confidence) == pytest.approx((own, matched), abs=1e-6)
    assert (found.gap, found.matched_gap) == pytest.approx((own - fmean(pooled), matched - fmean(pooled)), abs=1e-6)


def test_the_scale_of_the_head_does_not_matter() -> None:
    toy = scene(SEED, samples=200)
    native = confidence(toy.head, toy.features, toy.labels, toy.forget)
    placed = place(toy.head, toy.forget, scale=Canonical(1.7))
    found = confidence(placed.head, toy.features, toy.labels, toy.forget, gain=placed.gain)
    assert found.gap == pytest.approx(native.gap, abs=1e-6)
    assert [one.assigned for one in found.classes] == [one.assigned for one in native.classes]


def test_a_head_that_still_answers_the_forget_class_assigns_nothing() -> None:
    found = confidence(Head(torch.eye(4)), torch.eye(4), torch.arange(4), [3])
    assert (found.assigned, found.assigned_confidence, found.gap, found.matched_gap) == (0, None, None, None)
    assert found.forget_samples == 1
    assert json.loads(json.dumps(found.to_dict())) == found.to_dict()


def test_a_class_without_a_correct_sample_is_left_out_of_the_matched_mean() -> None:
    features = torch.tensor([[5.0, 0.0, 0.0, 0.0], [0.0, 5.0, 0.0, 0.0], [0.0, 2.0, 0.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    found = confidence(Head(torch.eye(4)), features, torch.tensor([0, 2, 3, 3]), [3])
    assert found.classes[1].correct_confidence is None
    assert found.classes[1].assigned == 1
    assert found.matched_confidence == found.classes[0].correct_confidence
