"""The weighted stream against its plain oracle, draw by draw, and against long runs of plain rejection."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file
from scipy import stats
from torch import Tensor

from builders.algorithm import HEAD, compiled_draws, logits_of, normal
from builders.weighted import HEADS, SEED, check_candidates
from sfra.attack.probes import choose as choosing
from sfra.attack.probes import sample_probes
from sfra.attack.probes.choose import FEW, plan_weights
from sfra.attack.probes.lines import Lines
from sfra.attack.probes.mixing import SIZE, matrix
from sfra.attack.probes.rowspace import row_space
from sfra.attack.probes.weighing import INTERVAL, RAY, line_sum, log_sum
from sfra.attack.probes.weighted import Pilot, WeightedPools, WeightedStream
from sfra.core.errors import InputError
from sfra.core.head import Head

ROOT = Path(__file__).parents[3]


def open_weights(head: Head, spread: float = 8.0, **how: int) -> tuple[Lines, np.ndarray, WeightedStream]:
    """Return the lines, bounds and stream of a head with class 0 to be forgotten."""
    lines = Lines.of(row_space(head).weight, head.bias, torch.arange(head.classes) > 0)
    pilot = Pilot.of(lines, SEED)
    bounds = np.where(pilot.probability > 0, spread * pilot.probability, np.inf)
    return lines, bounds, WeightedStream(lines, bounds, seed=SEED, **how)


def group_draws(lines: Lines, position: int, count: int) -> Tensor:
    """The draws that the class at a position sees: the plain ones, mixed by its group."""
    group = int(np.searchsorted(lines.edges, position, side="right")) - 1
    plain = compiled_draws(np.arange(count), lines.rows.shape[1], seed=SEED).reshape(-1, SIZE, lines.rows.shape[1])
    return torch.from_numpy(matrix(lines.signs[group]).astype(np.float64) @ plain).flatten(0, 1)


@pytest.mark.parametrize("name", HEADS)
def test_every_class_takes_the_draws_that_the_oracle_gives_it(name: str) -> None:
    head = HEADS[name]
    lines, bounds, stream = open_weights(head)
    chunk = stream._chunk(0, 4, torch.full((head.classes,), -torch.inf), torch.full((head.classes,), torch.inf))
    check_candidates(head, stream, chunk, lines.order.tolist(), bounds, lambda k: group_draws(lines, k, chunk.draws))


def test_an_exploded_row_makes_intervals_with_two_ends() -> None:
    lines, bounds, _ = open_weights(HEADS["exploded row"])
    assert {RAY, INTERVAL} <= set(lines.kinds[np.isfinite(bounds[lines.order])].tolist())


def test_a_class_whose_row_is_another_ones_is_left_to_conditional_sampling() -> None:
    head = Head((normal(6, 16, seed=7) / 2)[[0, 1, 2, 3, 2, 5]], torch.tensor([0, 0, 0.1, 0, 0, 0]))
    _, bounds, _ = open_weights(head)
    assert np.isinf(bounds[[0, 2, 4]]).all()
    assert np.isfinite(bounds[[1, 3, 5]]).all()
    probes = sample_probes(head, (0, 4), n=300, m=20, path="weighted")
    assert probes.conditional == {2: "tilting"}


def test_log_odds_lie_between_the_bounds_that_spare_exponentials() -> None:
    rng = np.random.default_rng(0)
    values, powers = np.empty(96, np.float32), np.empty(96, np.float32)
    for size in (0.1, 3.0, 30.0):
        z, row = (size * rng.standard_normal((2, 96))).astype(np.float32)
        exact = np.logaddexp.reduce((z + np.float32(0.3) * row).astype(np.float64))
        own = np.float32((z + np.float32(0.3) * row).max() + 1)
        total, largest = line_sum(z, row, np.float32(0.3), own, np.float32(-0.2))
        found = np.log(total)
        assert largest == pytest.approx((z - np.float32(0.2) * row).max(), rel=1e-6)
        assert 0 <= found - (exact - own) + 1e-4 <= np.log(1.0615) + 2e-4
        assert log_sum(z, row, np.float32(0.3), values, values.view(np.int32), powers) == pytest.approx(exact, abs=2e-5)


def same(one: object, other: object) -> bool:
    names = ("samples", "labels", "sources", "sureness", "acceptance")
    return all(torch.equal(getattr(one, name), getattr(other, name)) for name in names)


@pytest.mark.parametrize("name", ["with bias", "exploded row"])
def test_the_number_of_threads_changes_no_bit(name: str) -> None:
    one, two, four = (sample_probes(HEADS[name], 0, n=500, m=20, path="weighted", threads=t) for t in (1, 2, 4))
    assert one.engine == "weighted"
    assert one.draws == two.draws == four.draws
    assert same(one, two)
    assert same(one, four)


def test_the_length_of_a_chunk_changes_no_candidate() -> None:
    head, found = HEADS["with bias"], []
    for tiles in (1, 8):
        _, bounds, stream = open_weights(head, tiles=tiles)
        pools = WeightedPools(bounds, [0], n=700, top=20, bottom=20)
        for chunk in stream.chunks(pools.limits):
            if not pools.absorb(chunk).open:
                break
        found.append((pools.surest, pools.least_sure))
    for one, other in zip(*found, strict=True):
        assert torch.equal(one.items, other.items)
        assert torch.equal(one.scores, other.scores)


def test_few_classes_keep_the_plain_stream_bit_for_bit(monkeypatch: pytest.MonkeyPatch) -> None:
    assert same(sample_probes(HEAD, 3, n=400, m=20), sample_probes(HEAD, 3, n=400, m=20, path="plain"))
    monkeypatch.setattr(choosing, "CLEARLY", 0.0)  # however cheap the weighted one is
    assert sample_probes(Head(torch.eye(FEW)), 3, n=20, m=2).engine == "compiled"
    assert sample_probes(Head(torch.eye(FEW + 1)), 3, n=20, m=2).engine == "weighted"


def many() -> Head:
    lengths = 2.2 * (0.12 * normal(FEW + 22, 1, seed=3)).exp()
    return Head(torch.nn.functional.normalize(normal(FEW + 22, 160, seed=2), dim=1) * lengths)


def test_many_classes_take_the_weighted_stream_where_it_is_clearly_cheaper(monkeypatch: pytest.MonkeyPatch) -> None:
    probes = sample_probes(many(), 3, n=4000, m=5)
    assert probes.engine == "weighted"
    assert 0 < probes.repeats < 5e-3
    assert 0 < len(probes.conditional) < 5  # the weights of the shortest rows vary too much
    logits = logits_of(many(), probes.samples.numpy())
    assert (logits.argmax(1) == probes.sources.numpy()).all()
    assert 0.96 < float(probes.acceptance.sum()) < 1.01
    monkeypatch.setattr(choosing, "CLEARLY", 1e9)
    assert sample_probes(many(), 3, n=20, m=5).engine == "compiled"


@pytest.mark.parametrize("how", [{"score": "entropy"}, {"proposal": "uniform"}])
def test_other_scores_and_proposals_fall_back_or_say_so(how: dict[str, Any]) -> None:
    assert sample_probes(many(), 3, n=20, m=5, **how).engine == "compiled"
    with pytest.raises(InputError, match=r"the path cannot be taken\n  expected: auto, plain, or weighted"):
        sample_probes(many(), 3, n=20, m=5, path="weighted", **how)


def test_a_budget_too_small_for_the_weights_leaves_the_rest_to_conditional_sampling() -> None:
    probes = sample_probes(HEADS["with bias"], 0, n=400, m=20, path="weighted", max_draws=1)
    assert probes.draws == 256
    assert len(probes.conditional) == 39
    assert len(probes.samples) == 39 * 40


def real_heads() -> dict[str, Head]:
    found = {}
    for name, row in (("cifar10-resnet18", 0), ("cifar100-resnet18", 30)):
        tensors = load_file(ROOT / "reproduction" / name / "heads.safetensors")
        key = f"retrained-{row}"
        found[name] = Head(tensors[f"{key}.weight"], tensors[f"{key}.bias"])
    return found


@pytest.mark.parametrize("name", ["cifar10-resnet18", "cifar100-resnet18", "exploded row"])
def test_pools_look_like_those_of_a_long_run_of_rejection(name: str) -> None:
    head = (HEADS | real_heads())[name]
    space = row_space(head)
    A, b = space.weight, head.bias
    _, bounds, stream = open_weights(head)
    served = [k for k in range(1, head.classes) if np.isfinite(bounds[k])]
    pools = WeightedPools(bounds, [k for k in range(head.classes) if k not in served], n=3000, top=1500, bottom=1500)
    for chunk in stream.chunks(pools.limits):
        if not pools.absorb(chunk).open:
            break
    items = torch.cat([pools.surest.items, pools.least_sure.items])
    labels = torch.cat([pools.surest.labels, pools.least_sure.labels])
    candidates = stream.rows(items)
    plain = torch.randn(2**19, A.shape[1], generator=torch.Generator().manual_seed(1))
    winner = torch.cat([(part @ A.T + b).argmax(1) for part in plain.view(16, 2**15, -1)])
    p, z = [], []
    for k in served[:: max(1, len(served) // 8)]:
        one, other = candidates[labels == k], plain[winner == k]
        share = len(other) / len(plain)
        z.append((float(pools.acceptance[k]) - share) / (share * (1 / len(other) + 1 / 3000) ** 0.5))
        seen = [measures(x, A, b, k) for x in (one, other)]
        p += [float(stats.ks_2samp(mine, theirs).pvalue) for mine, theirs in zip(*seen, strict=True)]
    assert min(p) > 1e-3 / len(p)
    assert float(np.abs(z).max()) < 4.0


def measures(x: Tensor, A: Tensor, b: Tensor, k: int) -> list[np.ndarray]:
    """Norms, projections on a random direction and on the class's own, log-odds."""
    ordered = (x @ A.T + b).sort(dim=1, descending=True).values
    odds = ordered[:, 0] - ordered[:, 1:].logsumexp(1)
    direction = torch.nn.functional.normalize(normal(A.shape[1], seed=2), dim=0)
    return [value.numpy() for value in (x.norm(dim=1), x @ direction, x @ (A[k] - A.mean(0)), odds)]


def test_the_bounds_are_so_high_that_candidates_seldom_repeat_a_draw() -> None:
    for head in real_heads().values():
        probes = sample_probes(head, 0, n=5000, m=50, path="weighted")
        assert 0 < probes.repeats < 2e-3


def test_a_draw_is_the_least_sure_candidate_of_few_classes() -> None:
    """Without mixing, a draw whose logits are all alike is a least sure candidate of a good part of the classes."""
    head = many()
    distinct = {}
    for name in ("mixed", "shared"):
        lines, bounds, _ = open_weights(head)
        if name == "shared":
            lines = replace(lines, signs=np.broadcast_to(lines.signs[:1], lines.signs.shape).copy())
        stream = WeightedStream(lines, bounds, seed=SEED)
        pools = WeightedPools(bounds, [0], n=2000, top=10, bottom=10)
        for chunk in stream.chunks(pools.limits):
            if not pools.absorb(chunk).open:
                break
        draw, position = np.divmod(pools.least_sure.items[:, 0].numpy(), head.classes)
        group = np.searchsorted(lines.edges, position, side="right") if name == "mixed" else 0
        distinct[name] = len(np.unique(draw * 64 + group)) / len(draw)
    assert distinct["mixed"] > 0.8 > 1.6 * distinct["shared"]


def test_the_draws_are_foreseen_from_the_pilot() -> None:
    head = many()
    retain, weight = torch.arange(head.classes) != 3, row_space(head).weight
    plan = plan_weights(weight, head.bias, retain, n=10_000, seed=0, max_draws=10**9)
    weighted = sample_probes(head, 3, n=10_000, m=5, path="weighted")
    assert weighted.draws == pytest.approx(plan.draws, rel=0.1)
    assert plan.seconds < plan.plain_seconds
