"""Alignment of probes and real features, against plain loops."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from builders.diagnostics import Labelled, scene
from sfra.attack.probes import sample_probes
from sfra.attack.scale import Canonical, place
from sfra.core.errors import InputError
from sfra.diagnostics import alignment
from sfra.diagnostics.alignment import over_seeds


def test_the_alignment_is_that_of_means_taken_sample_by_sample() -> None:
    toy = scene()
    rows = alignment(toy.probes, toy.features, toy.labels, toy.forget)
    assert rows == alignment(toy.probes, toy.features, toy.labels, toy.forget[::-1])
    for found in rows:
        c = found.forget_class
        S = [s for s, k in zip(toy.probes.samples.double().numpy(), toy.probes.labels, strict=True) if k == c]
        E = [z for z, k in zip(toy.features.double().numpy(), toy.labels, strict=True) if k == c]
        pairs = [float(np.dot(s, z)) for s in S for z in E]
        assert found.inner == pytest.approx(math.fsum(pairs) / len(pairs), abs=1e-12)
        mu_S, mu_E = np.mean(S, axis=0), np.mean(E, axis=0)
        assert found.cosine == pytest.approx(found.inner / math.sqrt(sum(mu_S**2) * sum(mu_E**2)), abs=1e-12)
        assert (found.probe_norm, found.feature_norm) == pytest.approx((np.linalg.norm(mu_S), np.linalg.norm(mu_E)))
        assert (found.probes, found.samples) == (8, 18)


def test_a_gain_divides_the_features_and_leaves_the_angle() -> None:
    toy = scene()
    native, placed = (alignment(toy.probes, toy.features, toy.labels, [1], gain=g)[0] for g in (1.0, 4.0))
    assert placed.inner == pytest.approx(native.inner / 4.0, abs=1e-12)
    assert placed.feature_norm == pytest.approx(native.feature_norm / 4.0)
    assert placed.cosine == pytest.approx(native.cosine, abs=1e-12)


def test_the_same_classifier_at_another_scale_has_the_same_alignment_at_the_canonical_one() -> None:
    toy = scene(probes=1, samples=200)
    results = []
    for factor in (1.0, 2.0):
        placed = place(type(toy.head)(toy.head.weight / factor, toy.head.bias), [1], scale=Canonical(1.7))
        probes = sample_probes(placed.head, [1], n=200, m=20, seed=3, threads=1)
        results.append(alignment(probes, toy.features * factor, toy.labels, [1], gain=placed.gain)[0])
    assert results[0] == results[1]


def test_the_standard_error_is_the_spread_over_fresh_probes_and_samples() -> None:
    z = []
    for toy in (scene(1000 + i, probes=150, samples=200) for i in range(300)):
        found = alignment(toy.probes, toy.features, toy.labels, [1])[0]
        assert found.error is not None
        z.append((found.inner - 0.3 * 0.5 * float(toy.drift @ toy.drift)) / found.error)
    assert np.mean(z) == pytest.approx(0.0, abs=0.2)
    assert np.std(z) == pytest.approx(1.0, abs=0.12)


def test_probes_around_zero_have_the_norm_of_chance_and_others_have_more() -> None:
    generator = torch.Generator().manual_seed(0)
    samples, labels = torch.randn(2000, 50, generator=generator), torch.ones(2000, dtype=torch.long)
    features, truth = torch.ones(3, 50), torch.ones(3, dtype=torch.long)
    centred = alignment(Labelled(samples, labels), features, truth, [1])[0]
    shifted = alignment(Labelled(samples + 0.5, labels), features, truth, [1])[0]
    assert centred.chance_norm == pytest.approx(math.sqrt(50 / 2000), rel=0.02)
    assert centred.probe_norm == pytest.approx(centred.chance_norm, rel=0.25)
    assert shifted.chance_norm == pytest.approx(centred.chance_norm)
    assert shifted.probe_norm > 10 * (shifted.chance_norm or math.inf)


def test_a_mean_of_zero_has_no_direction() -> None:
    probes = Labelled(torch.tensor([[1.0, 0.0], [-1.0, 0.0]]), torch.tensor([2, 2]))
    found = alignment(probes, torch.ones(1, 2), torch.tensor([2]), [2])[0]
    assert (found.inner, found.cosine, found.error) == (0.0, None, None)


def test_seeds_are_summarised_by_mean_and_sample_deviation() -> None:
    rows = [alignment(scene(i).probes, scene(i).features, scene(i).labels, (1, 3)) for i in range(3)]
    found = over_seeds(rows)[1]
    values = [row[1].inner for row in rows]
    assert (found.forget_class, found.seeds) == (3, 3)
    assert (found.inner, found.inner_std) == pytest.approx((np.mean(values), np.std(values, ddof=1)))
    assert found.cosine == pytest.approx(np.mean([row[1].cosine for row in rows]))
    assert found.per_seed == tuple(row[1] for row in rows)
    assert over_seeds(rows[:1])[0].inner_std is None


@pytest.mark.parametrize(
    ("forget", "gain", "message"),
    [
        ([4], 1.0, "there is no probe of forget class 4"),
        ([1], 0.0, "the gain is not a scale"),
        ([0], 1.0, "there is no sample of forget class 0"),
    ],
)
def test_what_cannot_be_aligned_is_refused(forget: list[int], gain: float, message: str) -> None:
    toy = scene()
    probes = Labelled(toy.probes.samples, toy.probes.labels.where(toy.probes.labels != 4, 1))
    labels = toy.labels.where(toy.labels != 0, 2)
    with pytest.raises(InputError, match=message):
        alignment(probes, toy.features, labels, forget, gain=gain)


def test_features_of_another_model_are_refused() -> None:
    toy = scene()
    with pytest.raises(InputError, match="probes and features differ in width"):
        alignment(toy.probes, toy.features[:, :5], toy.labels, [1])
