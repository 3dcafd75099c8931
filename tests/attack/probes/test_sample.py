from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

import sfra.attack.probes.sample
from builders.algorithm import HEAD, SMALL, log_softmax, logits_of, share_greedily
from builders.algorithm import sureness as exact_sureness
from sfra.attack.probes import Probes, ProbeSettings, proposals, sample_probes, scores, support
from sfra.attack.probes.assign import assign
from sfra.attack.probes.stream import CompiledStream
from sfra.core.errors import InputError, SamplingError
from sfra.core.head import Head

SETTINGS = [(proposal, score) for proposal in proposals.names() for score in scores.names()]


def pool_of(probes: Probes, part: str, label: int) -> Tensor:
    """Rows of one pool's retain or forget probes."""
    chosen = torch.zeros(len(probes.labels), dtype=torch.bool)
    chosen[slice(0, probes.retain_count) if part == "retain" else slice(probes.retain_count, None)] = True
    return torch.nonzero(chosen & (probes.sources == label)).flatten()


@pytest.mark.parametrize("forget", [3, [3], (0, 7), [5, 1, 2]])
@pytest.mark.parametrize("assignment", ["greedy", "optimal"])
def test_every_pool_gives_m_retain_probes_and_m_probes_to_each_forget_class(forget: Any, assignment: str) -> None:
    probes = sample_probes(HEAD, forget, n=400, m=30, assignment=assignment)
    chosen = [forget] if isinstance(forget, int) else sorted(forget)
    kept = [k for k in range(8) if k not in chosen]
    assert probes.retain_count == len(kept) * 30
    assert len(probes.samples) == len(kept) * 30 * (1 + len(chosen))
    assert len(probes.retain) == len(kept) * 30
    assert len(probes.forget) == len(kept) * 30 * len(chosen)
    assert probes.labels[: probes.retain_count].tolist() == [k for k in kept for _ in range(30)]
    for k in kept:
        assert len(pool_of(probes, "retain", k)) == 30
        shared = probes.labels[pool_of(probes, "forget", k)]
        assert torch.bincount(shared, minlength=8).tolist() == [30 * (c in chosen) for c in range(8)]


@pytest.mark.parametrize(("proposal", "score"), SETTINGS)
def test_the_head_gives_every_probe_to_the_pool_it_came_from(proposal: str, score: str) -> None:
    probes = sample_probes(SMALL, 1, n=2000, m=100, proposal=proposal, score=score)
    logits = logits_of(SMALL, probes.samples.numpy())
    np.testing.assert_array_equal(logits.argmax(1), probes.sources.numpy())
    np.testing.assert_allclose(probes.sureness.numpy(), exact_sureness(logits, score), rtol=1e-5, atol=1e-5)
    for k in (0, 2, 3, 4):
        surest, unsure = (probes.sureness[pool_of(probes, part, k)] for part in ("retain", "forget"))
        assert float(surest.min()) > float(unsure.max())
        assert bool((surest.diff() <= 0).all())
        assert bool((unsure.diff() >= 0).all())


def test_no_draw_is_used_twice() -> None:
    flat = Head(HEAD.weight * 1e-10)  # every log-odds rounds to -log 7
    for probes in (
        sample_probes(flat, 3, n=60, m=30),
        sample_probes(SMALL, 3, n=60, m=30, proposal="uniform"),
        sample_probes(HEAD, (3, 4), n=90, m=30),
    ):
        inside = torch.tensor(logits_of(HEAD if probes.samples.shape[1] == 32 else SMALL, probes.samples.numpy()))
        assert torch.cdist(inside, inside).fill_diagonal_(1.0).min() > 1e-9


def test_greedy_labels_follow_the_rule_pool_by_pool() -> None:
    probes = sample_probes(HEAD, (2, 6, 7), n=300, m=20)
    for k in (0, 1, 3, 4, 5):
        rows = pool_of(probes, "forget", k)
        log_p = log_softmax(logits_of(HEAD, probes.samples[rows].numpy()))[:, [2, 6, 7]]
        assert probes.labels[rows].tolist() == np.array([2, 6, 7])[share_greedily(log_p, 20)].tolist()


def test_the_assignment_shares_out_the_same_candidates_in_another_way() -> None:
    greedy, optimal = (sample_probes(HEAD, (2, 6, 7), n=300, m=20, assignment=name) for name in ("greedy", "optimal"))
    assert torch.equal(greedy.samples, optimal.samples)
    for k in (0, 1, 3, 4, 5):
        rows = pool_of(optimal, "forget", k)
        log_p = torch.from_numpy(log_softmax(logits_of(HEAD, optimal.samples[rows].numpy()))[:, [2, 6, 7]])
        assert optimal.labels[rows].tolist() == torch.tensor([2, 6, 7])[assign(log_p, 20, "optimal")].tolist()
    assert not torch.equal(greedy.labels, optimal.labels)


def test_the_record_of_a_run_is_complete_and_true() -> None:
    probes = sample_probes(HEAD, 1, n=300, m=20)
    assert float(probes.acceptance.sum()) == pytest.approx(1.0, abs=1e-6)
    assert probes.draws * float(probes.acceptance[[0, *range(2, 8)]].min()) >= 300
    assert probes.conditional == {}
    assert probes.engine == CompiledStream.name == "compiled"
    assert probes.support == support(probes.samples)
    assert 0 < probes.seconds < 600
    assert probes.labels.dtype == probes.sources.dtype == torch.int64
    assert probes.samples.dtype == torch.float32


@pytest.mark.parametrize("scale", [1e-3, 1e5, 1e30])
def test_heads_of_any_scale_give_finite_probes_in_full_number(scale: float) -> None:
    head = Head(HEAD.weight * scale, HEAD.bias * scale)
    for score in scores.names():
        probes = sample_probes(head, 1, n=200, m=20, score=score)
        assert len(probes.samples) == 7 * 20 * 2
        assert bool(torch.isfinite(probes.samples).all())
        assert bool(torch.isfinite(probes.sureness).all())


def test_a_class_that_ties_with_an_earlier_one_everywhere_is_named() -> None:
    head = Head(SMALL.weight[[0, 1, 2, 3, 0]])
    with pytest.raises(SamplingError, match="class 4"):
        sample_probes(head, 1, n=100, m=10)
    assert len(sample_probes(head, 4, n=100, m=10).samples) == 80  # as the forget class it may never win


def test_the_smallest_pools_allowed_are_sampled() -> None:
    assert len(sample_probes(HEAD, 3, n=2, m=1).samples) == 14
    assert len(sample_probes(HEAD, range(6), n=7, m=1).samples) == 14


def test_probes_and_pools_that_would_fill_the_memory_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sfra.attack.probes.sample, "MOST_NUMBERS", 14 * 32)
    assert len(sample_probes(HEAD, 3, n=9, m=1).samples) == 14
    with pytest.raises(InputError, match=r"do not fit into memory\n  expected: at most 14 probes of 32 .*\n  got: +28"):
        sample_probes(HEAD, 3, n=9, m=2)
    with pytest.raises(SamplingError, match=r"the pool of class 0 does not fit into memory(\n.*)*do: +lower n"):
        sample_probes(HEAD, 3, n=50_000, m=1, max_draws=1)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"m": 0}, "m is not a count"),
        ({"max_draws": 0}, "max_draws is not a count"),
        ({"proposal": "cauchy"}, r"unknown proposal\n  expected: gaussian or uniform or laplace"),
        ({"score": "margin"}, r"unknown score\n  expected: softmax or entropy or energy"),
        ({"assignment": "auction"}, r"unknown assignment\n  expected: greedy or optimal"),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        ProbeSettings(**({"n": 9, "m": 1} | settings))


@pytest.mark.parametrize(
    ("forget", "n", "m", "message"),
    [
        ([], 9, 1, "no forget class was given"),
        ([2, 8], 9, 1, r"out of range\n  expected: an index from 0 to 7"),
        (-1, 9, 1, "out of range"),
        (range(7), 99, 1, "too few classes would be left"),
        ([3, 4], 149, 50, r"too small .*\n  expected: \(1 \+ 2\) m <= n(\n.*)*lower m to 49 or raise n to 150"),
    ],
)
def test_a_head_and_its_settings_must_fit_together(forget: Any, n: int, m: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        sample_probes(HEAD, forget, n=n, m=m)


@pytest.mark.parametrize(
    ("n", "budget", "do"),
    [
        (142_857_143, 1, "lower n to 142,857,142 or raise max_draws"),
        (10**30, 10**40, f"lower n to {2**62 // 7:,}"),
    ],
)
def test_pools_that_no_budget_fills_are_refused_before_the_first_draw(n: int, budget: int, do: str) -> None:
    with pytest.raises(InputError, match=rf"the pools are too large\n(.*\n)*  do:       {do}"):
        ProbeSettings(n=n, m=1, max_draws=budget).check(8, [3])
    assert ProbeSettings(n=142_857_142, m=1, max_draws=budget).check(8, [3]) == (3,)


@pytest.mark.parametrize(
    ("asked", "message"),
    [
        ({"threads": 0}, "threads is out of range"),
        ({"threads": 1025}, "threads is out of range"),
        ({"seed": -1}, "the seed is out of range"),
        ({"seed": 2**63}, "the seed is out of range"),
    ],
)
def test_threads_and_seeds_out_of_range_are_refused(asked: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        sample_probes(HEAD, 3, n=9, m=1, **asked)
    assert len(sample_probes(HEAD, 3, n=9, m=1, seed=2**63 - 1).samples) == 14
