"""Correlation, slope and sign, against scipy and numpy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from sfra.core.errors import InputError
from sfra.diagnostics import agreement

SMALL = st.integers(-3, 3).map(float)


@settings(max_examples=80, deadline=None)
@given(st.lists(st.tuples(SMALL, SMALL), min_size=3, max_size=30))
def test_correlations_are_those_of_scipy_with_and_without_ties(pairs: list[tuple[float, float]]) -> None:
    y, x = (np.array(column) for column in zip(*pairs, strict=True))
    found = agreement(y, x)
    if np.ptp(x) == 0 or np.ptp(y) == 0:
        assert (found.pearson, found.spearman) == (None, None)
    else:
        assert found.pearson == pytest.approx(stats.pearsonr(x, y).statistic, abs=1e-10)
        assert found.spearman == pytest.approx(stats.spearmanr(x, y).statistic, abs=1e-10)
    assert found.sign_agreement == sum((a > 0) - (a < 0) == (b > 0) - (b < 0) for a, b in pairs) / len(pairs)


def test_both_slopes_are_least_squares() -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=50) + 2.0
    y = 3.0 * x + 1.0 + rng.normal(size=50)
    found = agreement(y, x)
    line = stats.linregress(x, y)
    assert (found.slope, found.intercept) == pytest.approx((line.slope, line.intercept), abs=1e-10)
    through_origin = np.linalg.lstsq(x[:, None], y, rcond=None)[0][0]
    assert found.slope_through_origin == pytest.approx(through_origin, abs=1e-10)


def test_what_does_not_vary_has_no_slope_and_no_correlation() -> None:
    found = agreement([1.0, 2.0], [0.0, 0.0])
    assert (found.pearson, found.spearman, found.slope, found.intercept) == (None, None, None, None)
    assert found.slope_through_origin is None
    assert found.sign_agreement == 0.0


@pytest.mark.parametrize(("exact", "approximate"), [([], []), ([1.0], [1.0, 2.0])])
def test_pairs_that_do_not_match_are_refused(exact: list[float], approximate: list[float]) -> None:
    with pytest.raises(InputError, match="the pairs do not match"):
        agreement(exact, approximate)
