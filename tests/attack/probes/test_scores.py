import numpy as np
import pytest
import torch
from torch import Tensor

from builders.algorithm import log_softmax
from builders.algorithm import sureness as exact_sureness
from sfra.attack.probes import scores
from sfra.attack.probes.scores import judge, sureness

NAMES = ("softmax", "entropy", "energy")


def logits_at(scale: float, classes: int = 7, rows: int = 400) -> Tensor:
    generator = torch.Generator().manual_seed(classes)
    return scale * torch.randn(rows, classes, generator=generator)


def uncertainty(logits: Tensor, score: str) -> Tensor:
    """The definitions, in float64: 1 - max p, the entropy, minus the log of the sum of exponentials."""
    values = logits.double()
    log_p = torch.from_numpy(log_softmax(values.numpy()))
    if score == "softmax":
        return 1 - log_p.exp().max(1).values
    return -(log_p.exp() * log_p).sum(1) if score == "entropy" else -values.exp().sum(1).log()


@pytest.mark.parametrize("score", NAMES)
@pytest.mark.parametrize("scale", [0.1, 1.0, 5.0])
def test_sureness_falls_strictly_as_the_uncertainty_by_definition_rises(score: str, scale: float) -> None:
    logits = logits_at(scale)
    U = uncertainty(logits, score)
    sure = sureness(logits, scores.get(score)).double()
    order = U.argsort()
    steps = U[order].diff()
    visible = steps > 2e-6 * U[order][1:].abs()  # float32 tells such neighbours apart
    assert visible.double().mean() > 0.1
    assert bool((sure[order].diff()[visible] < 0).all())


@pytest.mark.parametrize("score", NAMES)
@pytest.mark.parametrize("scale", [1e-5, 1e-2, 1.0, 30.0, 1e3, 1e10, 1e30])
def test_sureness_is_the_float64_one_at_every_scale(score: str, scale: float) -> None:
    logits = logits_at(scale)
    got = sureness(logits, scores.get(score))
    assert bool(torch.isfinite(got).all())
    with np.errstate(divide="ignore"):
        exact = exact_sureness(logits.double().numpy(), score)
    known = np.isfinite(exact)
    np.testing.assert_allclose(got.numpy()[known], exact[known], rtol=4e-6, atol=4e-6)


def test_probabilities_tie_in_float32_where_log_odds_do_not() -> None:
    logits = torch.zeros(300, 10)
    logits[:, 0] = torch.linspace(20, 80, 300)
    assert len(set(logits.softmax(1).max(1).values.tolist())) == 1
    for score in NAMES:
        assert len(set(sureness(logits, scores.get(score)).tolist())) == 300


@pytest.mark.parametrize("score", NAMES)
@pytest.mark.parametrize("classes", [3, 4, 50])
def test_moderate_logits_are_judged_as_exactly_and_won_by_the_first_of_the_largest(score: str, classes: int) -> None:
    logits = logits_at(12.0, classes).clamp(-scores.MODERATE, scores.MODERATE)
    logits[:20] = logits[:20].sign() * scores.MODERATE  # both ends, and ties
    labels, got = judge(logits.clone(), scores.get(score), moderate=True)
    assert labels.tolist() == logits.numpy().argmax(1).tolist()
    exact = exact_sureness(logits.double().numpy(), score)
    np.testing.assert_allclose(got.numpy(), exact, rtol=4e-6, atol=2e-5)


def test_sureness_leaves_the_logits_as_they_are() -> None:
    logits = logits_at(1.0)
    for score in NAMES:
        sureness(logits, scores.get(score))
        assert torch.equal(logits, logits_at(1.0))
