"""The fast path and the plain procedure give the same relearning score, not only the same probes."""

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from scipy import stats

from builders.algorithm import reference_probes
from sfra.attack.probes import sample_probes
from sfra.attack.relearn import relearn
from sfra.attack.scale import Canonical, place
from sfra.auditing.evaluate import evaluate
from sfra.core.cpu import one_thread
from sfra.core.head import Head
from sfra.data import FeatureSet, ImageSet, extract_features, load_data
from sfra.demo.models import digits_tensors
from sfra.models import backbones
from sfra.models.training.train import train
from sfra.release import load
from sfra.unlearn import mask_head

FORGET, SEEDS, N, M, EPOCHS = 7, 8, 4000, 100, 60


@pytest.fixture(scope="module")
def digits() -> tuple[Head, FeatureSet]:
    """A digits network whose seven is hidden at the head, at a scale at which part of it comes back."""
    with one_thread():
        model = train(
            backbones.build("small-cnn", classes=10, seed=0),
            digits_tensors("train"),
            epochs=8,
            learning_rate=0.1,
            batch_size=64,
            seed=0,
        )
        release = load(model, example=torch.zeros(1, 1, 8, 8))
        assert release.encoder is not None
        images = load_data("digits")
        assert isinstance(images, ImageSet)
        test = extract_features(release.encoder, images, model_fingerprint="", cache=False)
    placed = place(mask_head(release.head, [FORGET]), [FORGET], scale=Canonical(2.0), variant="reset-row")
    scaled = FeatureSet(features=placed.features(test.features), labels=test.labels)
    return placed.head, scaled


def scores(digits: tuple[Head, FeatureSet], probes: Callable[[Head, int], Any]) -> list[float]:
    head, test = digits
    paths = (relearn(head, probes(head, seed), epochs=EPOCHS, seed=seed) for seed in range(SEEDS))
    return [float(evaluate(path, test.features, test.labels, [FORGET]).rs[-1]) for path in paths]


def fast(head: Head, seed: int) -> Any:
    return sample_probes(head, FORGET, n=N, m=M, seed=seed)


def plain(head: Head, seed: int) -> Any:
    made = reference_probes(head, [FORGET], n=N, m=M, seed=1000 + seed)
    return SimpleNamespace(samples=torch.from_numpy(made.samples).float(), labels=torch.from_numpy(made.labels).long())


def too_short(head: Head, seed: int) -> Any:
    probes = fast(head, seed)
    return SimpleNamespace(samples=0.5 * probes.samples, labels=probes.labels)


def test_the_fast_path_gives_the_score_of_the_plain_procedure_within_the_spread_of_seeds(
    digits: tuple[Head, FeatureSet],
) -> None:
    ours, theirs = scores(digits, fast), scores(digits, plain)
    assert 0.05 < np.mean(theirs) < 0.98  # neither end of the scale, where all samplers agree
    spread = float(max(np.std(ours, ddof=1), np.std(theirs, ddof=1)))
    assert abs(float(np.mean(ours) - np.mean(theirs))) < spread
    assert stats.ttest_ind(ours, theirs, equal_var=False).pvalue > 0.01


def test_probes_of_another_law_would_give_another_score(digits: tuple[Head, FeatureSet]) -> None:
    ours, other = scores(digits, fast), scores(digits, too_short)
    assert stats.ttest_ind(ours, other, equal_var=False).pvalue < 1e-3
