"""Maps of real samples and probes."""

from __future__ import annotations

import json
import sys
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from builders.audits import FORGET, knowing
from builders.diagnostics import Labelled, scene
from sfra.core.errors import InputError, MissingPackageError
from sfra.diagnostics import Geometry, geometry
from sfra.diagnostics.geometry import stratify


def small_map(seed: int = 0) -> Geometry:
    toy = scene(samples=45, probes=20)
    return geometry(toy.head, toy.probes, toy.features, toy.labels, seed=seed, most=40)


def test_the_same_seed_gives_the_same_map_and_the_global_generators_are_left_alone() -> None:
    torch_state, numpy_state = torch.get_rng_state(), str(np.random.get_state())  # noqa: NPY002
    one, same, other = small_map(), small_map(), small_map(1)
    assert one == same
    assert one.points != other.points
    assert torch.equal(torch.get_rng_state(), torch_state)
    assert str(np.random.get_state()) == numpy_state  # noqa: NPY002


def test_points_carry_kind_label_and_prediction_and_are_the_same_in_both_spaces() -> None:
    toy = scene(samples=45, probes=20)
    found = geometry(toy.head, toy.probes, toy.features, toy.labels, gain=2.0)
    halves = {space: [p for p in found.points if p.space == space] for space in ("features", "logits")}
    facts = [[(p.kind, p.label, p.predicted) for p in half] for half in halves.values()]
    assert facts[0] == facts[1]
    given = torch.cat([toy.features / 2.0, toy.probes.samples])
    answers = (given @ toy.head.weight.T + toy.head.bias).argmax(1).tolist()
    labels = toy.labels.tolist() + toy.probes.labels.tolist()
    kinds = ["real"] * 45 + ["probe"] * 20
    assert facts[0] == list(zip(kinds, labels, answers, strict=True))
    assert found.perplexity == pytest.approx(64 / 3)
    assert json.loads(json.dumps(found.to_dict())) == found.to_dict()


def test_classes_that_lie_apart_lie_apart_on_the_map() -> None:
    toy = knowing(samples=20)
    features = toy.data.features * 3.0
    few = Labelled(features[:6] + 0.1, toy.data.labels[:6])
    found = geometry(toy.head, few, features, toy.data.labels, spaces=["features"], perplexity=10.0)
    real = [p for p in found.points if p.kind == "real"]
    near = 0
    for p in real:
        others = [q for q in real if q is not p]
        near += min(others, key=lambda q: (q.x - p.x) ** 2 + (q.y - p.y) ** 2).label == p.label
    assert near / len(real) > 0.9
    shuffled = np.random.default_rng(0).permutation([p.label for p in real])
    assert np.mean([p.label == s for p, s in zip(real, shuffled, strict=True)]) < 0.4
    assert {p.space for p in found.points} == {"features"}
    assert FORGET in {p.label for p in real}


@settings(max_examples=60, deadline=None)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=80), st.integers(6, 90), st.integers(0, 9))
def test_a_subsample_is_within_bounds_and_in_proportion(labels: list[int], most: int, seed: int) -> None:
    kept = stratify(torch.tensor(labels), most, torch.Generator().manual_seed(seed)).tolist()
    assert kept == sorted(set(kept))
    assert len(kept) == min(most, len(labels))
    whole, part = Counter(labels), Counter(labels[i] for i in kept)
    assert set(part) == set(whole)
    for label, count in whole.items():
        ideal = min(most, len(labels)) * count / len(labels)
        assert part[label] <= count
        assert abs(part[label] - ideal) <= 1 + len(whole) / 2


def test_what_cannot_be_drawn_is_refused() -> None:
    toy = scene()
    with pytest.raises(InputError, match="unknown space"):
        geometry(toy.head, toy.probes, toy.features, toy.labels, spaces=["pixels"])
    with pytest.raises(InputError, match="no room for every class"):
        geometry(toy.head, toy.probes, toy.features, toy.labels, most=6)
    lone = Labelled(toy.probes.samples[:1], toy.probes.labels[:1])
    with pytest.raises(InputError, match="too few points for a map"):
        geometry(toy.head, lone, toy.features[:1], toy.labels[:1])


def test_without_scikit_learn_the_message_names_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sklearn.manifold", None)
    with pytest.raises(MissingPackageError, match=r"pip install 'sfra\[diagnostics\]'"):
        small_map()
