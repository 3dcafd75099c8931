import numpy as np
import pytest

from sfra.attack.probes.linear import multiply, principal_axes, reflect


@pytest.mark.parametrize("shape", [(1, 1, 1), (33, 5, 7), (64, 4, 1), (3, 70, 40), (0, 3, 2), (5, 0, 2)])
def test_the_product_is_the_product_whatever_the_padding(shape: tuple[int, int, int]) -> None:
    m, r, n = shape
    generator = np.random.default_rng(0)
    left, right = generator.standard_normal((m, r)), generator.standard_normal((r, n))
    np.testing.assert_allclose(multiply(left, right), left @ right, atol=1e-12)


@pytest.mark.parametrize("head", [-2.0, 0.0, 1e-9, 3.0])
def test_reflections_make_the_rows_triangular_and_keep_their_inner_products(head: float) -> None:
    rows = np.random.default_rng(1).standard_normal((6, 4))
    rows[0, 0] = head
    before = rows @ rows.T
    for k in range(4):
        reflect(rows, k)
    np.testing.assert_allclose(rows @ rows.T, before, atol=1e-12)
    assert (np.triu(rows[:4], 1) == 0).all()
    assert (np.diagonal(rows) > 0).all()


def test_principal_axes_are_those_of_the_eigenvalue_problem() -> None:
    samples = np.random.default_rng(2).standard_normal((50, 12)) * np.geomspace(0.01, 10, 12)
    covariance = np.cov(samples, rowvar=False)
    variances, axes = principal_axes(covariance)
    np.testing.assert_allclose(variances, np.linalg.eigvalsh(covariance), rtol=1e-7)
    np.testing.assert_allclose(axes.T @ axes, np.eye(12), atol=1e-12)
    np.testing.assert_allclose(axes.T @ covariance @ axes, np.diag(variances), atol=1e-9)
