import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from builders.algorithm import log_softmax
from builders.algorithm import sureness as exact_sureness
from sfra.attack.probes import codes, kernels, scores
from sfra.attack.probes.scores import judge, sureness
from sfra.core.errors import InputError

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


@pytest.mark.parametrize("score", NAMES)
@pytest.mark.parametrize("classes", [3, 4, 50])
def test_the_torch_score_and_the_compiled_score_are_the_same_function(score: str, classes: int) -> None:
    logits = torch.cat([logits_at(scale, classes, 100) for scale in (1e-3, 1.0, 20.0, 300.0)])
    columns = logits.T.contiguous().numpy()
    width = columns.shape[1]
    first, second, total, weighted = (np.empty(width, np.float32) for _ in range(4))
    label, floats = np.empty(width, np.int32), np.empty((4, width), np.float32)
    kernels.top_two(columns, first, second, label)
    kernels.rest_sums(columns, second, label, floats, total, weighted)
    code = {"softmax": codes.SOFTMAX, "entropy": codes.ENTROPY, "energy": codes.ENERGY}[score]
    compiled = [kernels.sureness(code, *part) for part in zip(first, second, total, weighted, strict=True)]
    np.testing.assert_allclose(sureness(logits, scores.get(score)).numpy(), compiled, rtol=4e-6, atol=4e-6)


def test_probabilities_tie_in_float32_where_log_odds_do_not() -> None:
    logits = torch.zeros(300, 10)
    logits[:, 0] = torch.linspace(20, 80, 300)
    assert len(set(logits.softmax(1).max(1).values.tolist())) == 1
    for score in NAMES:
        assert len(set(sureness(logits, scores.get(score)).tolist())) == 300


@settings(deadline=None)
@given(st.lists(st.floats(-100, 100, width=32), min_size=3, max_size=8), st.floats(-50, 50, width=32))
def test_a_common_shift_of_the_logits_changes_only_the_energy(row: list[float], shift: float) -> None:
    logits = torch.tensor([row, [value + shift for value in row]], dtype=torch.float64)
    for score in ("softmax", "entropy"):
        before, after = sureness(logits, scores.get(score)).tolist()
        assert before == pytest.approx(after, abs=1e-6, rel=1e-6)
    before, after = sureness(logits, scores.get("energy")).tolist()
    assert after - before == pytest.approx(shift, abs=1e-6)


@settings(deadline=None)
@given(st.permutations(range(6)))
def test_the_order_of_the_classes_does_not_matter(order: list[int]) -> None:
    logits = logits_at(2.0, 6, 20)
    for score in NAMES:
        torch.testing.assert_close(
            sureness(logits[:, order], scores.get(score)), sureness(logits, scores.get(score)), rtol=2e-6, atol=2e-6
        )


def test_equal_logits_are_the_least_sure_of_all() -> None:
    logits = torch.cat([torch.zeros(1, 10), logits_at(0.5, 10)])
    for score in ("softmax", "entropy"):
        assert int(sureness(logits, scores.get(score)).argmin()) == 0
    assert float(sureness(logits[:1], scores.get("softmax"))) == pytest.approx(-np.log(9), abs=1e-6)
    assert float(sureness(logits[:1], scores.get("entropy"))) == pytest.approx(-np.log(np.log(10)), abs=1e-6)


def test_an_unknown_score_is_refused_with_the_known_names() -> None:
    with pytest.raises(InputError) as problem:
        scores.get("margin")
    assert str(problem.value) == ("unknown score\n  expected: softmax or entropy or energy\n  got:      margin")
    assert scores.names() == NAMES


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
