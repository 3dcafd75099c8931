"""The fast sampler and the plain reference give the same distribution, and the test would notice if they did not.

Candidates selected from one pool are order statistics and depend on each other, so a two-sample test over them is not
calibrated. Here one *run* is one observation: a few summary numbers per run, over many independent seeds, are
compared by Kolmogorov-Smirnov with a Bonferroni bound. Whole pools (``n = 2m``: everything is selected) are i.i.d.
and are compared candidate by candidate.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import stats
from torch import Tensor

import sfra.attack.probes.sample
from builders.algorithm import PROPOSALS, SMALL, log_softmax, logits_of, normal, reference_probes, sureness
from sfra.attack.probes import sample_probes
from sfra.attack.probes.lines import Lines
from sfra.attack.probes.pools import Chunk, Pools
from sfra.attack.probes.rowspace import RowSpace
from sfra.attack.probes.select import Extremes
from sfra.attack.probes.stream import Stream, TorchStream
from sfra.attack.probes.weighted import WeightedStream
from sfra.core.cpu import one_thread
from sfra.core.head import Head

RUNS = 120
FEWER = 40  # of the weighted stream, whose pilot takes its time, and of wrong samplers: they show every mistake below
ALPHA = 1e-3
Floats = NDArray[np.float64]
Table = dict[str, Floats]


@dataclass(frozen=True)
class Case:
    """A head and how it is sampled; frozen, so that the reference of a case is computed once."""

    head: str
    forget: tuple[int, ...] = (1,)
    proposal: str = "gaussian"
    score: str = "softmax"
    n: int = 60
    m: int = 6
    rare: int = 0
    """Pool that is also looked at by itself."""

    @property
    def settings(self) -> dict[str, Any]:
        return {"n": self.n, "m": self.m, "proposal": self.proposal, "score": self.score}


@pytest.fixture(autouse=True, scope="module")
def one_torch_thread() -> Iterator[None]:
    """The matrices here are tiny: a second thread would only wait."""
    with one_thread():
        yield


def directions(*shape: int, seed: int) -> Tensor:
    return torch.nn.functional.normalize(normal(*shape, seed=seed), dim=1)


HEADS = {
    "ten classes": Head(normal(10, 64) / 4, normal(10, seed=1) / 4),
    "without bias": Head(normal(6, 20, seed=2) / 2),
    "low rank": Head(directions(7, 3, seed=15) @ normal(3, 24, seed=4) / 3, normal(7, seed=5) / 8),
    "more classes than features": Head(directions(9, 5, seed=52), normal(9, seed=9) / 8),
    "duplicated rows": Head(normal(6, 16, seed=7)[[0, 1, 2, 3, 2, 5]] / 2),
    "small": SMALL,
    "a rare class": Head(torch.eye(5, 8) + normal(5, 8, seed=11) / 8, torch.tensor([0, 0, -1.6, 0, 0])),
}
CASES = {
    "ten classes": Case("ten classes"),
    "without bias": Case("without bias"),
    "low rank": Case("low rank"),
    "more classes than features": Case("more classes than features"),
    "the forget row is a retain row": Case("duplicated rows", forget=(4,)),
    "two forget classes": Case("ten classes", forget=(2, 7)),
    "entropy": Case("small", score="entropy"),
    "energy": Case("small", score="energy"),
    "uniform": Case("small", proposal="uniform"),
    "laplace": Case("small", proposal="laplace"),
    "relu-gaussian": Case("small", proposal="relu-gaussian"),
    "abs-gaussian": Case("small", proposal="abs-gaussian", score="energy"),
}


def summarise(case: Case, samples: Floats, labels: NDArray[np.int64], sources: NDArray[np.int64]) -> dict[str, float]:
    """Summarise one run: confidences, thresholds, lengths, projections inside and outside the row space."""
    head = HEADS[case.head]
    logits = logits_of(head, samples)
    W = head.weight.double().numpy()
    _, scale, rows = np.linalg.svd(W, full_matrices=False)
    inside = samples @ rows[scale > 1e-5 * scale[0]].T
    toward = W - W.mean(0)
    values = {
        "sureness": sureness(logits, case.score),
        "log-odds": sureness(logits, "softmax"),
        "norm": np.linalg.norm(samples, axis=1),
        "inside": np.linalg.norm(inside, axis=1),
        "outside": (samples**2).sum(1) - (inside**2).sum(1),
        "toward": (samples * toward[sources]).sum(1),
        "coordinate": samples[:, 0],
        "fourth power": (samples**4).mean(1),
        "own label": np.take_along_axis(log_softmax(logits), labels[:, None], 1)[:, 0],
    }
    found = {}
    retain = case.m * (head.classes - len(case.forget))
    for part, which in (("retain", slice(0, retain)), ("forget", slice(retain, None))):
        for name, value in values.items():
            found[f"{part} {name}"] = float(value[which].mean())
        by_pool = values["sureness"][which].reshape(head.classes - len(case.forget), -1)
        found[f"{part} threshold"] = float((by_pool.min(1) if part == "retain" else by_pool.max(1)).mean())
        found[f"{part} rarest"] = float(by_pool[case.rare].mean())
    return found


def table(runs: list[dict[str, float]]) -> Table:
    return {name: np.array([run[name] for run in runs]) for name in runs[0]}


@cache
def reference_table(case: Case, first_seed: int = 10_000) -> Table:
    head, runs = HEADS[case.head], []
    for seed in range(first_seed, first_seed + RUNS):
        found = reference_probes(head, case.forget, seed=seed, **case.settings)
        runs.append(summarise(case, found.samples, found.labels, found.sources))
    return table(runs)


def fast_table(
    case: Case, *, sampled: Case | None = None, head: Head | None = None, times: int = RUNS, **how: Any
) -> Table:
    """Summaries of the fast sampler; ``sampled`` and ``head`` let a wrong sampler be summarised as if it were right."""
    runs, how = [], {"threads": 1} | (sampled or case).settings | how
    for seed in range(times):
        probes = sample_probes(head or HEADS[case.head], case.forget, seed=seed, **how)
        samples = probes.samples.double().numpy()
        runs.append(summarise(case, samples, probes.labels.numpy(), probes.sources.numpy()))
    return table(runs)


def differences(one: Table, other: Table) -> dict[str, float]:
    """The summaries that differ, with their p-values, at a level of ALPHA for all of them together."""
    moving = [name for name in one if max(one[name].std(), other[name].std()) > 1e-9]
    p = {name: float(stats.ks_2samp(one[name], other[name]).pvalue) for name in moving}
    return {name: value for name, value in p.items() if value < ALPHA / len(p)}


@pytest.mark.parametrize("name", CASES)
def test_runs_of_the_fast_sampler_look_like_runs_of_the_reference(name: str) -> None:
    assert differences(fast_table(CASES[name]), reference_table(CASES[name])) == {}


@pytest.mark.parametrize("name", ["low rank", "relu-gaussian", "two forget classes"])
def test_so_do_runs_of_the_torch_stream(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sfra.attack.probes.sample, "open_stream", open_torch_stream)
    assert differences(fast_table(CASES[name]), reference_table(CASES[name])) == {}


def open_torch_stream(weight: Tensor, bias: Tensor, *, threads: int | None, **how: Any) -> Stream:
    return TorchStream(weight, bias, **how)


GAUSSIAN = [name for name, case in CASES.items() if case.proposal == "gaussian" and case.score == "softmax"]


@pytest.mark.parametrize("name", ["ten classes", "two forget classes", "more classes than features"])
def test_so_do_runs_of_the_weighted_stream(name: str) -> None:
    assert differences(fast_table(CASES[name], path="weighted", times=FEWER), reference_table(CASES[name])) == {}


WEIGHTED = CASES["ten classes"]


def wrong_sign(monkeypatch: pytest.MonkeyPatch) -> None:
    """Logits of the others fall where they should rise along a class's row."""
    right = Lines.of

    def wrong(*given: Any) -> Lines:
        lines = right(*given)
        return replace(lines, gram=2 * np.diag(np.diagonal(lines.gram)) - lines.gram)

    monkeypatch.setattr(Lines, "of", wrong)


def no_truncation(monkeypatch: pytest.MonkeyPatch) -> None:
    """The component along the row is any normal number."""
    right = WeightedStream._moved

    def wrong(self: WeightedStream, items: Tensor) -> Tensor:
        place = torch.randn(len(items), dtype=torch.float64, generator=torch.Generator().manual_seed(1))
        return right(self, torch.stack([items[:, 0], place.view(torch.int64)], dim=1))

    monkeypatch.setattr(WeightedStream, "_moved", wrong)


def no_resampling(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every draw counts alike, whatever its weight."""
    right = WeightedStream.__init__

    def wrong(self: WeightedStream, lines: Lines, bounds: Floats, **how: Any) -> None:
        right(self, lines, np.where(np.isfinite(bounds), 1e-9, np.inf), **how)

    monkeypatch.setattr(WeightedStream, "__init__", wrong)


def stale_thresholds(monkeypatch: pytest.MonkeyPatch) -> None:
    """The places on the lines are those of other draws."""
    right = WeightedStream._moved

    def wrong(self: WeightedStream, items: Tensor) -> Tensor:
        draws, at = items[:, 0] // 10, items[:, 0] % 10
        return right(self, torch.stack([(draws + 16) * 10 + at, items[:, 1]], dim=1))

    monkeypatch.setattr(WeightedStream, "_moved", wrong)


def no_bias(monkeypatch: pytest.MonkeyPatch) -> None:
    """The thresholds forget the bias."""
    right = Lines.of
    monkeypatch.setattr(Lines, "of", lambda weight, bias, *rest: right(weight, 0 * bias, *rest))


@pytest.mark.parametrize("mistake", [wrong_sign, no_truncation, no_resampling, stale_thresholds, no_bias])
def test_wrong_weights_are_noticed(mistake: Callable[..., None], monkeypatch: pytest.MonkeyPatch) -> None:
    mistake(monkeypatch)
    assert differences(fast_table(WEIGHTED, path="weighted", times=FEWER), reference_table(WEIGHTED))


RARE = Case("a rare class", rare=1)


def test_so_do_pools_that_were_begun_by_the_stream_and_completed_by_conditional_sampling() -> None:
    begun = sample_probes(HEADS[RARE.head], RARE.forget, max_draws=1, **RARE.settings)
    assert list(begun.conditional) == [2]
    assert 5 < begun.draws * float(begun.acceptance[2]) < RARE.n - 5  # some of both in one pool
    assert differences(fast_table(RARE, max_draws=1), reference_table(RARE)) == {}


def test_a_pool_left_half_empty_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sfra.attack.probes.sample, "_complete", lambda pools, *rest: {})
    assert differences(fast_table(RARE, max_draws=1, times=FEWER), reference_table(RARE))


def test_the_comparison_finds_nothing_between_reference_and_reference() -> None:
    case = CASES["low rank"]
    assert differences(reference_table(case), reference_table(case, first_seed=50_000)) == {}


def no_complement(self: RowSpace, inside: Tensor, noise: Tensor) -> Tensor:
    return inside @ self.basis.T


def unit_length(self: RowSpace, inside: Tensor, noise: Tensor) -> Tensor:
    return no_complement(self, inside / inside.norm(dim=1, keepdim=True), noise)


def same_noise(self: RowSpace, inside: Tensor, noise: Tensor) -> Tensor:
    common = noise[:1].expand_as(noise)
    return common + (inside - common @ self.basis) @ self.basis.T


@pytest.mark.parametrize("lift", [no_complement, unit_length, same_noise])
def test_a_wrong_complement_is_noticed(lift: Callable[..., Tensor], monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["low rank"]
    monkeypatch.setattr(RowSpace, "lift", lift)
    assert "forget outside" in differences(fast_table(case), reference_table(case))


def test_a_pool_of_half_the_size_is_noticed() -> None:
    case = CASES["low rank"]
    found = differences(fast_table(case, sampled=replace(case, n=case.n // 2), times=FEWER), reference_table(case))
    assert {"retain threshold", "forget threshold"} <= set(found)


def test_draws_that_count_after_the_pool_is_full_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["low rank"]
    absorb = Pools.absorb

    def bottomless(self: Pools, chunk: Chunk) -> Pools:
        return absorb(self, replace(chunk, ranks=torch.zeros_like(chunk.ranks)))

    monkeypatch.setattr(Pools, "absorb", bottomless)
    found = differences(fast_table(case, times=FEWER), reference_table(case))
    assert {"retain sureness", "forget sureness"} <= set(found)


def test_an_arg_max_over_the_retain_classes_alone_is_noticed() -> None:
    case = CASES["low rank"]
    head = HEADS[case.head]
    blind = head.bias.clone()
    blind[1] -= 50.0
    assert differences(fast_table(case, head=Head(head.weight, blind), times=FEWER), reference_table(case))


def test_another_score_or_proposal_is_noticed() -> None:
    for name, wrong in (("entropy", "energy"), ("laplace", "uniform")):
        assert differences(fast_table(CASES[name], sampled=CASES[wrong], times=FEWER), reference_table(CASES[name]))


def test_an_assignment_in_the_wrong_order_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["two forget classes"]
    monkeypatch.setattr(sfra.attack.probes.sample, "assign", lambda affinity, m, method: torch.arange(2 * m) % 2)
    assert list(differences(fast_table(case, times=FEWER), reference_table(case))) == ["forget own label"]


def test_extremes_on_the_wrong_side_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    case = CASES["low rank"]
    update = Extremes.update
    monkeypatch.setattr(Extremes, "update", lambda self, labels, scores, items: update(self, labels, -scores, items))
    assert "retain sureness" in differences(fast_table(case, times=FEWER), reference_table(case))


POOLS = {
    name: replace(CASES[name], n=1600, m=800) for name in ("low rank", "more classes than features", "relu-gaussian")
}


BOTH_PATHS = [(name, "auto") for name in POOLS] + [(name, "weighted") for name in POOLS if name in GAUSSIAN]


@pytest.mark.parametrize(("name", "path"), BOTH_PATHS)
def test_whole_pools_are_samples_of_the_same_law_candidate_by_candidate(name: str, path: Any) -> None:
    case = POOLS[name]
    head = HEADS[case.head]
    probes = sample_probes(head, case.forget, seed=3, path=path, **case.settings)
    fast, fast_of = probes.samples.double().numpy(), probes.sources.numpy()
    plain = reference_probes(head, case.forget, seed=3, share_pool=True, **case.settings)
    rotation = np.linalg.qr(np.random.default_rng(0).standard_normal((head.width, head.width)))[0]
    p = []
    for k in sorted(set(fast_of.tolist())):
        one, other = fast[fast_of == k], plain.samples[plain.sources == k]
        assert len(one) == len(other) == 1600
        pairs = [(one @ rotation, other @ rotation), (logits_of(head, one), logits_of(head, other))]
        pairs.append((np.linalg.norm(one, axis=1)[:, None], np.linalg.norm(other, axis=1)[:, None]))
        p += [float(stats.ks_2samp(a, b).pvalue) for x, y in pairs for a, b in zip(x.T, y.T, strict=True)]
    assert min(p) > ALPHA / len(p)
    assert stats.kstest(p, "uniform").pvalue > 1e-6  # not too good to be true either


@pytest.mark.parametrize("name", CASES)
def test_every_class_is_met_as_often_as_in_full_dimension(name: str) -> None:
    case = CASES[name]
    head = HEADS[case.head]
    rng = np.random.default_rng(7)
    plain = logits_of(head, PROPOSALS[case.proposal](rng, (60_000, head.width))).argmax(1)
    probes = sample_probes(head, case.forget, **(case.settings | {"n": 4000}))
    landed = (probes.acceptance.double() * probes.draws).round().numpy()
    counts = np.stack([landed, np.bincount(plain, minlength=head.classes)])
    counts = counts[:, counts.sum(0) > 0]
    assert stats.chi2_contingency(counts).pvalue > ALPHA
    assert landed.sum() == probes.draws
