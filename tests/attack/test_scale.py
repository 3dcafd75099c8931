"""The scale of an audit: what placing a head changes, what it must not, and the summary over scales."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from torch import Tensor

from builders.audits import FORGET, KEPT, D, knowing
from sfra.attack.anchor import Anchor
from sfra.attack.scale import KAPPA, SWEEP, Anchored, Canonical, Native, Scale, place, scale_curve
from sfra.core.errors import InputError
from sfra.core.head import Head

RNG = np.random.default_rng(3)


def random_head(classes: int = 7, width: int = 5, seed: int = 0) -> Head:
    rng = np.random.default_rng(seed)
    return Head(rng.normal(size=(classes, width)) * rng.uniform(0.5, 3, size=(classes, 1)), rng.normal(size=classes))


def by_numpy(head: Head, forget: Sequence[int], kappa: float) -> tuple[NDArray[np.float64], NDArray[np.float64], float]:
    """Place a head with sorted lists and plain loops."""
    weight, bias = head.weight.numpy().astype(np.float64), head.bias.numpy().astype(np.float64)
    kept = [k for k in range(head.classes) if k not in forget]
    centre = sum(weight[k] for k in kept) / len(kept)
    norms = sorted(float(np.sqrt(sum((weight[k] - centre) ** 2))) for k in kept)
    offsets = sorted(float(bias[k]) for k in kept)
    low, high = (len(kept) - 1) // 2, len(kept) // 2
    gain = kappa / ((norms[low] + norms[high]) / 2)
    return gain * (weight - centre), bias - (offsets[low] + offsets[high]) / 2, gain


@pytest.mark.parametrize("forget", [(0,), (6,), (1, 4), (0, 2, 5)])
@pytest.mark.parametrize("kappa", [0.5, 1.0, 2.0, 7.3])
def test_a_placed_head_is_centred_and_has_the_median_norm_that_plain_numpy_gives_it(
    forget: tuple[int, ...], kappa: float
) -> None:
    head = random_head()
    placed = place(head, forget, scale=Canonical(kappa))
    weight, bias, gain = by_numpy(head, forget, kappa)
    np.testing.assert_allclose(placed.head.weight.numpy(), weight, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(placed.head.bias.numpy(), bias, rtol=1e-6, atol=1e-6)
    assert placed.gain == pytest.approx(gain, rel=1e-12)


def test_native_scale_leaves_the_head_as_it_is() -> None:
    head = random_head()
    placed = place(head, [1], scale=Native())
    assert placed.gain == 1.0
    assert placed.head.fingerprint == head.fingerprint


def spread(width: int = 5) -> Tensor:
    """Features of images that show nothing: correlated, off centre, in double precision."""
    generator = torch.Generator().manual_seed(2)
    mixed = (
        torch.randn(100, width, generator=generator).double() @ torch.randn(width, width, generator=generator).double()
    )
    return mixed + 0.5


ANCHOR = Anchor.of(spread())


@pytest.mark.parametrize("scale", [Canonical(), Anchored(), Anchored(0.4)])
@pytest.mark.parametrize("forget", [(2,), (1, 4)])
def test_placing_keeps_the_softmax_of_every_sample(forget: tuple[int, ...], scale: Scale) -> None:
    head, features = random_head(), torch.randn(200, 5, generator=torch.Generator().manual_seed(1))
    placed = place(head, forget, scale=scale, anchor=ANCHOR)
    torch.testing.assert_close(
        placed.head(placed.features(features)).softmax(1), head(features).softmax(1), rtol=1e-4, atol=1e-6
    )


@pytest.mark.parametrize("scale", [Canonical(0.3), Canonical(2.0), Native(), Anchored()])
def test_a_relearned_head_answers_the_same_in_released_and_in_placed_coordinates(scale: Scale) -> None:
    features = torch.randn(500, 5, generator=torch.Generator().manual_seed(1))
    placed = place(random_head(), [2], scale=scale, anchor=ANCHOR)
    relearned = random_head(seed=8)  # any head of these coordinates
    here, there = relearned(placed.features(features)), placed.released(relearned)(features)
    torch.testing.assert_close(here, there, rtol=1e-5, atol=1e-5)
    assert torch.equal(here.argmax(1), there.argmax(1))


@pytest.mark.parametrize(("classes", "forget"), [(4, (1,)), (5, (0, 3)), (9, (8,))])
def test_the_anchored_origin_is_the_nearest_point_at_which_retain_classes_have_equal_logits(
    classes: int, forget: tuple[int, ...]
) -> None:
    head = random_head(classes)
    kept = [k for k in range(classes) if k not in forget]
    sigma = np.linalg.inv(np.cov(spread().numpy().T, ddof=0))
    mean, W, b = spread().numpy().mean(0), head.weight.double().numpy()[kept], head.bias.double().numpy()[kept]
    equal, offset = W - W.mean(0), b - b.mean()

    def off(z: NDArray[np.float64]) -> float:  # logits first, distance to break the tie
        return float(np.sum((equal @ z + offset) ** 2) + 1e-9 * (z - mean) @ sigma @ (z - mean))

    hessian = 2 * (equal.T @ equal + 1e-9 * sigma)
    best = mean - np.linalg.solve(hessian, 2 * equal.T @ (equal @ mean + offset))  # its minimum, in closed form
    placed = place(head, forget, scale=Anchored(), anchor=ANCHOR)
    assert placed.frame is not None
    origin = torch.linalg.solve(placed.frame.matrix, -placed.frame.shift).numpy()
    np.testing.assert_allclose(origin, best, atol=1e-5)
    assert off(best) <= off(best + 1e-2 * RNG.normal(size=5))
    if len(kept) - 1 < head.width:
        assert float(placed.head.bias[kept].std()) < 1e-6


def test_anchored_rows_have_the_median_norm_in_units_of_the_anchor() -> None:
    head = random_head()
    rows = (head.weight - head.weight[[0, 1, 3, 4, 5, 6]].mean(0)).double().numpy()
    norms = sorted(float(np.sqrt(rows[k] @ np.cov(spread().numpy().T, ddof=0) @ rows[k])) for k in (0, 1, 3, 4, 5, 6))
    placed = place(head, [2], scale=Anchored(2.5), anchor=ANCHOR)
    assert placed.gain == pytest.approx(2.5 / ((norms[2] + norms[3]) / 2), rel=1e-6)


@pytest.mark.parametrize("variant", ["released", "reset-row"])
def test_an_affine_disguise_changes_the_anchored_head_and_features_by_rounding_only(variant: str) -> None:
    head, features, A = (
        random_head(),
        spread()[:30],
        torch.randn(5, 5, dtype=torch.float64, generator=torch.Generator().manual_seed(4)),
    )
    shift = torch.linspace(-9, 9, 5, dtype=torch.float64)
    W = torch.linalg.solve(A, head.weight.double(), left=False)
    other = Head(W, head.bias.double() - W @ shift)
    one, two = (
        place(h, [2], scale=Anchored(), variant=variant, seed=3, anchor=Anchor.of(points))
        for h, points in ((head, spread()), (other, spread() @ A.T + shift))
    )
    torch.testing.assert_close(two.head.weight, one.head.weight, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(two.head.bias, one.head.bias, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(two.features(features @ A.T + shift), one.features(features), rtol=1e-4, atol=1e-4)


def test_the_anchored_scale_says_what_it_lacks() -> None:
    with pytest.raises(InputError, match="needs features of synthetic images"):
        place(random_head(), [2], scale=Anchored())


@pytest.mark.parametrize("factor", [0.5, 2.0, 1024.0, 2.0**-20])
@pytest.mark.parametrize("variant", ["released", "reset-row"])
def test_a_power_of_two_in_the_scale_of_the_release_changes_no_bit_of_the_placed_head(
    factor: float, variant: str
) -> None:
    toy = knowing()
    one, other = (
        place(t.head, [FORGET], scale=Canonical(), variant=variant, seed=4) for t in (toy, toy.scaled(factor))
    )
    assert one.head.fingerprint == other.head.fingerprint
    assert torch.equal(one.features(toy.data.features), other.features(toy.scaled(factor).data.features))


@given(
    st.floats(0.01, 100.0),
    st.lists(st.floats(-20, 20), min_size=D, max_size=D),
    st.floats(-50, 50),
)
@settings(deadline=None, max_examples=40)
def test_scale_common_row_and_common_bias_change_the_placed_head_by_rounding_only(
    factor: float, row: list[float], bias: float
) -> None:
    toy = knowing()
    same = toy.scaled(factor).shifted(torch.tensor(row, dtype=torch.float64) / factor, bias)
    one, other = (place(t.head, [FORGET], scale=Canonical()).head for t in (toy, same))
    noise = 2.0**-23 * max(1.0, max(map(abs, row)), abs(bias))  # what float32 loses in the release itself
    torch.testing.assert_close(other.weight, one.weight, rtol=1e-6, atol=4 * noise)
    torch.testing.assert_close(other.bias, one.bias, rtol=1e-6, atol=4 * noise)


@pytest.mark.parametrize("forget", [(FORGET,), (0, 5), (3, 4)])
def test_a_head_without_its_forget_rows_is_placed_like_one_whose_rows_are_reset(forget: tuple[int, ...]) -> None:
    toy = knowing()
    reset = place(toy.head, forget, scale=Canonical(), variant="reset-row", seed=9)
    restored = place(toy.without_row(*forget).head, forget, scale=Canonical(), variant="restored-row", seed=9)
    assert restored.head.fingerprint == reset.head.fingerprint
    assert restored.gain == reset.gain
    other = place(toy.head, forget, scale=Canonical(), variant="reset-row", seed=8)
    assert other.head.fingerprint != reset.head.fingerprint


def test_a_constant_on_every_bias_does_not_start_a_fresh_row_far_from_the_others() -> None:
    toy = knowing().shifted(bias=15.0)
    gaps = {
        kappa: float(head.bias[KEPT].mean() - head.bias[FORGET])
        for kappa, scale in ((KAPPA, Canonical()), (None, Native()))
        for head in [place(toy.head, [FORGET], scale=scale, variant="reset-row").head]
    }
    assert abs(gaps[KAPPA]) < 1.0
    assert gaps[None] > 14.0  # control: at native scale it does


def equal_rows() -> Tensor:
    weight = torch.from_numpy(RNG.normal(size=(10, 5))).float()
    weight[1:] = weight[1]
    return weight


def two_of_five() -> Tensor:
    weight = torch.zeros(6, 5)
    weight[0], weight[1], weight[2] = torch.ones(5), torch.ones(5), -torch.ones(5)
    return weight


@pytest.mark.parametrize(
    ("weight", "got"), [(equal_rows(), "1 different rows among 9"), (two_of_five(), "3 different rows among 5")]
)
def test_a_head_whose_retain_rows_do_not_differ_is_refused(weight: Tensor, got: str) -> None:
    with pytest.raises(InputError, match=rf"the head has no scale.*\n.*\n  got:      {got}"):
        place(Head(weight), [0], scale=Canonical())
    assert place(Head(weight), [0], scale=Native()).gain == 1.0  # it still has its native scale


def test_an_unknown_variant_is_refused() -> None:
    with pytest.raises(InputError, match=r"unknown variant\n.*released or reset-row or restored-row"):
        place(random_head(), [0], scale=Canonical(), variant="fresh")


def test_the_sweep_is_a_geometric_grid_from_half_to_twice_the_canonical_scale() -> None:
    kappas = [scale.kappa for scale in SWEEP]
    assert kappas[0] == KAPPA / 2
    assert kappas[-1] == KAPPA * 2
    assert Canonical() in SWEEP
    ratios = [b / a for a, b in itertools.pairwise(kappas)]
    assert ratios == pytest.approx([ratios[0]] * len(ratios))


def brute(rs: Sequence[float], reference: Sequence[float], level: float) -> tuple[float, float]:
    """Area and RS at a level of the reference, from dense interpolation."""
    start = [(0.0, 0.0), *zip(reference, rs, strict=True)]
    line = np.linspace(0, 1, 20001)
    x, y = (np.array([p[i] for p in sorted(start)] + [1.0]) for i in (0, 1))
    middle = (line[:-1] + line[1:]) / 2
    area = float(np.mean(np.interp(middle, x, y) - middle))
    best = 0.0
    for (x0, y0), (x1, y1) in itertools.pairwise(start):
        part = np.linspace(0, 1, 20001)
        inside = x0 + part * (x1 - x0) <= level
        best = max([best, *(y0 + part * (y1 - y0))[inside]])
    return area, best


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("level", [0.05, 0.3, 0.0])
def test_area_and_rs_at_a_level_agree_with_dense_interpolation(seed: int, level: float) -> None:
    rng = np.random.default_rng(seed)
    reference, rs = (rng.uniform(size=9).tolist() for _ in range(2))  # neither is monotone
    found = scale_curve(rs, reference, level=level)
    area, best = brute(rs, reference, level)
    assert found.area == pytest.approx(area, abs=2e-4)
    assert found.rs_at_reference == pytest.approx(best, abs=2e-3)
    assert found.level == level


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12))
def test_a_model_that_relearns_like_its_reference_has_no_area(curve: list[float]) -> None:
    assert scale_curve(curve, curve).area == pytest.approx(0.0, abs=1e-12)


def test_the_level_itself_counts_and_a_reference_that_never_reaches_it_leaves_the_maximum() -> None:
    assert scale_curve([0.4, 0.8], [0.05, 0.5]).rs_at_reference == pytest.approx(0.4)
    assert scale_curve([0.4], [0.05]).rs_at_reference == 0.4
    assert scale_curve([0.9, 0.3], [0.01, 0.02]).rs_at_reference == 0.9
    assert scale_curve([0.8], [0.5]).rs_at_reference == pytest.approx(0.08)  # on the way from (0, 0)


@pytest.mark.parametrize(("rs", "reference"), [([], []), ([0.1], [0.1, 0.2])])
def test_scales_that_do_not_match_are_refused(rs: list[float], reference: list[float]) -> None:
    with pytest.raises(InputError, match="the scales do not match"):
        scale_curve(rs, reference)
