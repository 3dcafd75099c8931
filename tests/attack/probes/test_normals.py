import numpy as np
import pytest
from scipy import special, stats

from sfra.attack.probes.normals import FAR, draw_upper, log_upper, mills, quantile, seed_stream, uniform, upper


@pytest.mark.parametrize("p", [1e-300, 1e-100, 1e-20, 1e-9, 0.01, 0.074, 0.076, 0.4, 0.6, 0.93, 1 - 1e-9])
def test_the_quantile_is_that_of_scipy(p: float) -> None:
    assert quantile(p) == pytest.approx(special.ndtri(p), rel=1e-13)


@pytest.mark.parametrize("t", [-9.0, -1.0, 0.0, 3.0, 20.0, FAR - 0.01, FAR + 0.01, 60.0, 1000.0])
def test_the_upper_tail_and_its_mean_are_those_of_scipy_however_far_out(t: float) -> None:
    assert log_upper(t) == pytest.approx(special.log_ndtr(-t), rel=1e-13, abs=1e-18)
    assert mills(t) == pytest.approx(np.sqrt(2 / np.pi) / special.erfcx(t / np.sqrt(2)), rel=1e-8)


@pytest.mark.parametrize("t", [-3.0, 0.0, 2.0, 8.0, FAR + 1, 80.0])
def test_draws_above_a_threshold_follow_the_truncated_normal(t: float) -> None:
    state = seed_stream(np.uint64(1), np.uint64(int(t) + 3))
    draws = np.array([draw_upper(t, upper(t), state) for _ in range(5000)])
    assert draws.min() >= t
    below = -np.expm1(special.log_ndtr(-draws) - special.log_ndtr(-t))
    assert stats.kstest(below, "uniform").pvalue > 1e-3
    if abs(t) <= 8:
        assert stats.kstest(draws, stats.truncnorm(t, np.inf).cdf).pvalue > 1e-3


def test_a_stream_repeats_and_its_neighbours_are_unrelated() -> None:
    def numbers(seed: int, index: int) -> list[float]:
        state = seed_stream(np.uint64(seed), np.uint64(index))
        return [uniform(state) for _ in range(4000)]

    first = numbers(5, 0)
    assert first == numbers(5, 0)
    assert stats.kstest(first, "uniform").pvalue > 1e-3
    for other in (numbers(5, 1), numbers(6, 0), first[1:] + first[:1]):
        assert abs(np.corrcoef(first, other)[0, 1]) < 4 / np.sqrt(4000)
