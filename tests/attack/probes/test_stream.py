"""The torch stream selects what sorting all of its draws in float64 selects."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from builders.algorithm import normal
from builders.algorithm import sureness as exact_sureness
from sfra.attack.probes import proposals, scores
from sfra.attack.probes.pools import Pools
from sfra.attack.probes.proposals import Proposal
from sfra.attack.probes.scores import MODERATE
from sfra.attack.probes.stream import STANDARD_DEVIATIONS, TorchStream

CPU, GAUSSIAN = torch.device("cpu"), proposals.get("gaussian")
LENGTHS = (1 << 10, 1 << 13, 1 << 15)
SIZES = {2: 3000, 3: 3000, 10: 1500, 100: 100}
"""Number of classes, and candidates per pool."""


@dataclass(frozen=True, kw_only=True)
class Case:
    """A head in its own coordinates, and the pools that are to be filled."""

    weight: Tensor
    bias: Tensor
    n: int
    m: int
    forget: int = 0
    score: str = "softmax"
    proposal: Proposal = GAUSSIAN
    seed: int = 5

    def stream(self, longest: int = 0) -> TorchStream:
        stream = TorchStream(
            self.weight,
            self.bias,
            proposal=self.proposal,
            score=scores.get(self.score),
            seed=self.seed,
            device=CPU,
        )
        stream._longest = longest or stream._longest
        return stream

    def draws(self, count: int) -> Tensor:
        """The first draws of the stream, made at once."""
        return self.proposal.fill(torch.empty(count, self.weight.shape[1]), torch.Generator().manual_seed(self.seed))

    def logits(self, rows: Tensor) -> NDArray[np.float64]:
        found: NDArray[np.float64] = (rows.double() @ self.weight.double().T + self.bias.double()).numpy()
        return found


def fill(case: Case, longest: int = 0) -> tuple[Pools, int]:
    """Return full pools, and how many candidates it took."""
    pools = Pools(len(case.bias), [case.forget], n=case.n, top=case.m, bottom=case.m, device=CPU)
    chunks, candidates = case.stream(longest).chunks(pools.limits), 0
    while pools.open:
        chunk = next(chunks)
        pools.absorb(chunk)
        candidates += chunk.labels.numel()
    chunks.close()  # type: ignore[attr-defined]
    return pools, candidates


def sort_everything(case: Case, draws: Tensor, *, highest: bool) -> dict[int, tuple[list[int], list[float]]]:
    """Per retain class, positions and float64 scores of the extremes of its first ``n`` draws, by a plain sort."""
    logits = case.logits(draws)
    values, labels = exact_sureness(logits, case.score), logits.argmax(1)
    kept = {}
    for k in range(len(case.bias)):
        mine = [(values[i], int(i)) for i in np.flatnonzero(labels == k)[: case.n]]
        mine.sort(reverse=highest)
        if k != case.forget:
            kept[k] = [i for _, i in mine[: case.m]], [float(v) for v, _ in mine[: case.m]]
    return kept


def positions(items: Tensor, draws: Tensor) -> list[int]:
    """Where in the stream the items were drawn; no two draws are equal."""
    where = {row.tobytes(): i for i, row in enumerate(draws.numpy())}
    assert len(where) == len(draws)
    return [where[row.tobytes()] for row in items.numpy()]


def check(case: Case, pools: Pools, *, exact: bool = False) -> None:
    """Compare both selections with a sort of the whole stream; near ties of float32 may change places."""
    draws = case.draws(pools.draws)
    logits = case.logits(draws)
    slack = 4e-6 * max(1.0, float(np.abs(logits[np.isfinite(logits)]).max()))
    labels = logits.argmax(1)
    assert pools.landed.tolist() == np.bincount(labels, minlength=len(case.bias)).tolist()
    for selected, highest in ((pools.surest, True), (pools.least_sure, False)):
        expected = sort_everything(case, draws, highest=highest)
        found = positions(selected.items, draws)
        assert selected.labels.tolist() == [k for k in expected for _ in range(case.m)]
        assert labels[found].tolist() == selected.labels.tolist()
        assert len(set(found)) == len(found)
        wanted = np.concatenate([value for _, value in expected.values()])
        np.testing.assert_allclose(selected.scores.numpy(), wanted, rtol=1e-5, atol=slack)
        np.testing.assert_allclose(
            selected.scores.numpy(), exact_sureness(logits[found], case.score), rtol=1e-5, atol=slack
        )
        for k, (first_n, _) in expected.items():
            mine = [i for i, label in zip(found, selected.labels.tolist(), strict=True) if label == k]
            pool = np.flatnonzero(labels == k)[: case.n]
            assert set(mine) <= set(pool.tolist())
            assert not exact or mine == first_n


def ordinary(classes: int, **how: object) -> Case:
    weight, bias = normal(classes, classes + 2, seed=classes), normal(classes, seed=1) / 4
    n = SIZES[classes]
    weight = 2 * torch.nn.functional.normalize(weight, dim=1)
    return replace(Case(weight=weight, bias=bias, n=n, m=max(2, n // 50)), **how)  # type: ignore[arg-type]


@pytest.mark.parametrize("score", scores.names())
@pytest.mark.parametrize("classes", SIZES)
def test_the_stream_selects_what_a_sort_of_the_first_n_of_each_class_selects(classes: int, score: str) -> None:
    case = ordinary(classes, score=score)
    check(case, fill(case, longest=1 << 12)[0])


@pytest.mark.parametrize("name", ["uniform", "laplace", "relu-gaussian", "abs-gaussian"])
def test_so_it_does_for_other_proposals_drawn_in_one_chunk(name: str) -> None:
    case = Case(weight=normal(3, 24) / 3, bias=normal(3, seed=1) / 4, n=3000, m=60, proposal=proposals.get(name))
    pools, _ = fill(case)
    assert pools.draws == 1 << 15
    check(case, pools)


@pytest.mark.parametrize("score", scores.names())
@pytest.mark.parametrize("classes", [2, 3, 10])
def test_scores_stay_exact_where_the_losers_vanish_in_float32(classes: int, score: str) -> None:
    case = ordinary(classes, score=score)
    case = replace(case, weight=50 * case.weight, bias=50 * case.bias)
    pools, _ = fill(case, longest=1 << 12)
    assert float(pools.surest.scores.min()) > 104  # exp of its negative is 0
    check(case, pools)


@pytest.mark.parametrize("score", scores.names())
@pytest.mark.parametrize("factor", [0.999, 1.001])
def test_nothing_changes_where_exponentials_are_no_longer_summed_as_they_are(factor: float, score: str) -> None:
    case = ordinary(10, score=score)
    largest = STANDARD_DEVIATIONS * case.weight.norm(dim=1) + case.bias.abs()
    scale = factor * MODERATE / float(largest.max())
    case = replace(case, weight=scale * case.weight, bias=scale * case.bias)
    assert case.stream()._moderate == (factor < 1)
    check(case, fill(case, longest=1 << 12)[0])


def test_logits_of_a_proposal_that_is_not_gaussian_are_never_taken_to_be_moderate() -> None:
    moderate = {name: ordinary(3, proposal=proposals.get(name)).stream()._moderate for name in proposals.names()}
    assert [name for name, promised in moderate.items() if promised] == ["gaussian"]


@pytest.mark.parametrize("score", scores.names())
def test_a_class_with_a_bias_of_minus_infinity_is_never_met(score: str) -> None:
    case = ordinary(10, score=score, forget=4)
    case.bias[4] = -torch.inf
    pools, _ = fill(case, longest=1 << 12)
    draws, rest = case.draws(pools.draws), [k for k in range(10) if k != 4]
    assert int(pools.landed[4]) == 0
    without = replace(case, weight=case.weight[rest], bias=case.bias[rest])
    for selected, highest in ((pools.surest, True), (pools.least_sure, False)):
        expected = sort_everything(replace(without, forget=-1), draws, highest=highest)
        wanted = np.concatenate([value for _, value in expected.values()])
        np.testing.assert_allclose(selected.scores.numpy(), wanted, rtol=1e-5, atol=1e-4)


def test_a_pool_takes_its_first_n_even_when_every_score_is_infinite() -> None:
    case = Case(weight=torch.eye(2), bias=torch.tensor([0.0, -torch.inf]), n=1500, m=20, forget=1)
    pools, _ = fill(case, longest=1 << 10)
    draws = case.draws(pools.draws)
    assert positions(pools.least_sure.items, draws) == list(range(20))
    assert positions(pools.surest.items, draws) == list(range(1499, 1479, -1))
    assert bool(pools.surest.scores.isposinf().all())


@pytest.mark.parametrize("score", scores.names())
@pytest.mark.parametrize("classes", [3, 10, 100])
def test_where_all_scores_tie_the_earliest_are_least_sure_and_the_latest_of_the_pool_surest(
    classes: int, score: str
) -> None:
    n, m = SIZES[classes], max(2, SIZES[classes] // 50)
    case = Case(weight=2.0**-34 * torch.eye(classes), bias=torch.zeros(classes), n=n, m=m, score=score)
    pools, _ = fill(case, longest=1 << 11)
    draws = case.draws(pools.draws)
    labels = case.logits(draws).argmax(1)
    for k in range(1, classes):
        pool = np.flatnonzero(labels == k)[:n].tolist()
        for selected, wanted in ((pools.least_sure, pool[:m]), (pools.surest, pool[-m:][::-1])):
            assert positions(selected.items[selected.labels == k], draws) == wanted
            assert len(set(selected.scores.tolist())) == 1


def on_a_lattice(out: Tensor, generator: torch.Generator) -> Tensor:
    """Two coordinates on few levels, and a third that tells the draws apart."""
    out.normal_(generator=generator)
    out[:, :2].mul_(2).round_().div_(2)
    return out


@pytest.mark.parametrize("longest", LENGTHS)
def test_tied_scores_and_tied_logits_are_ordered_as_they_were_drawn(longest: int) -> None:
    lattice = replace(GAUSSIAN, fill=on_a_lattice)
    weight = torch.tensor([[8.0, 0.0, 0.0], [0.0, 8.0, 0.0]])  # so long that log and exp do not round the one loser
    for forget in (0, 1):
        case = Case(weight=weight, bias=torch.zeros(2), n=20_000, m=300, forget=forget, proposal=lattice)
        pools, _ = fill(case, longest)
        assert len(set(pools.surest.scores.tolist())) < 20
        check(case, pools, exact=True)


def test_few_draws_are_candidates_once_there_are_limits() -> None:
    case = ordinary(10, n=20_000, m=20)
    pools, candidates = fill(case, longest=1 << 12)
    assert candidates < pools.draws / 10
