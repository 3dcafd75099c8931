"""The fast path and the plain procedure give the same relearning score, not only the same probes."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from builders.algorithm import reference_probes
from builders.audits import FORGET, hidden
from sfra.attack.probes import sample_probes
from sfra.attack.relearn import relearn
from sfra.attack.scale import Canonical, place
from sfra.auditing.evaluate import evaluate
from sfra.core.head import Head

SEEDS, N, M, EPOCHS = 40, 2000, 150, 20


def scores(probes: Callable[[Head, int], Any]) -> list[float]:
    """RS of a hidden class over seeds, at a scale at which part of it comes back; clusters in closed form."""
    toy = hidden(bias=-1.0, samples=100)
    placed = place(toy.head, [FORGET], scale=Canonical(2.5))
    features = placed.features(toy.data.features)
    paths = (relearn(placed.head, probes(placed.head, seed), epochs=EPOCHS, seed=seed) for seed in range(SEEDS))
    return [float(evaluate(path, features, toy.data.labels, [FORGET]).rs[-1]) for path in paths]


def fast(head: Head, seed: int) -> Any:
    return sample_probes(head, FORGET, n=N, m=M, seed=seed)


def plain(head: Head, seed: int) -> Any:
    made = reference_probes(head, [FORGET], n=N, m=M, seed=1000 + seed)
    return SimpleNamespace(samples=torch.from_numpy(made.samples).float(), labels=torch.from_numpy(made.labels).long())


def too_short(head: Head, seed: int) -> Any:
    probes = fast(head, seed)
    return SimpleNamespace(samples=0.5 * probes.samples, labels=probes.labels)


@pytest.fixture(scope="module")
def ours() -> list[float]:
    return scores(fast)


def test_the_fast_path_gives_the_score_of_the_plain_procedure_within_the_spread_of_seeds(ours: list[float]) -> None:
    theirs = scores(plain)
    assert 0.05 < np.mean(theirs) < 0.98  # neither end of the scale, where all samplers agree
    spread = float(max(np.std(ours, ddof=1), np.std(theirs, ddof=1)))
    assert abs(float(np.mean(ours) - np.mean(theirs))) < spread / 2
    assert stats.ks_2samp(ours, theirs).pvalue > 0.01


def test_probes_of_another_law_would_give_another_score(ours: list[float]) -> None:
    assert stats.ks_2samp(ours, scores(too_short)).pvalue < 1e-3
