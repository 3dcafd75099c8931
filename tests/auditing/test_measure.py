"""Measuring relearned heads: the split of the data, the selection rules, and what is averaged over seeds."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from builders.audits import FORGET, hidden, trace_of
from sfra.attack.grid import Run, Setting, relearn_release
from sfra.attack.path import Trajectory
from sfra.attack.probes import sample_probes
from sfra.attack.scale import Canonical, Placed
from sfra.auditing.config import AuditConfig
from sfra.auditing.evaluate import evaluate
from sfra.auditing.measure import Measured, measure
from sfra.auditing.score import rs_at, scores
from sfra.auditing.subject import Measurable, split_features
from sfra.core.head import Head
from sfra.core.metrics import Change, estimate_accuracy, estimate_rs, relearning_score, wilson_interval
from sfra.data import FeatureSet

RELEASED = Setting(scale=Canonical(), variant="released")
RESET = Setting(scale=Canonical(), variant="reset-row")
HEAD = Head(torch.eye(3))
PROBES = sample_probes(HEAD, 2, n=20, m=2, threads=1)


def scripted(answers: list[list[int]], *, setting: Setting = RELEASED, seed: int = 0, gain: float = 1.0) -> Run:
    """Make a run whose head of epoch ``e`` answers ``answers[e][i]`` for the ``i``-th unit vector."""
    weights = torch.nn.functional.one_hot(torch.tensor(answers), 3).transpose(1, 2).float()
    path = Trajectory(
        weights=weights,
        biases=torch.zeros(len(answers), 3),
        losses=torch.zeros(len(answers)),
        kept=tuple(range(len(answers))),
    )
    return Run(setting=setting, seed=seed, placed=Placed(head=path.last, gain=gain), probes=PROBES, path=path)


def units(labels: list[int]) -> FeatureSet:
    return FeatureSet(features=torch.eye(len(labels)), labels=torch.tensor(labels))


@given(st.lists(st.integers(0, 4), min_size=2, max_size=60))
@settings(deadline=None)
def test_the_halves_are_disjoint_cover_everything_and_share_every_class_evenly(labels: list[int]) -> None:
    data = FeatureSet(features=torch.arange(len(labels)).float()[:, None], labels=torch.tensor(labels))
    split = split_features(data, None, [0])
    if split.validation is None:  # too few samples of forget or retain classes for two halves
        assert labels.count(0) < 2 or len(labels) - labels.count(0) < 2 or max(map(labels.count, range(1, 5))) < 2
        assert split.report is data
        return
    parts = [split.validation, split.report]
    rows = torch.cat([part.features[:, 0] for part in parts]).tolist()
    assert sorted(rows) == list(range(len(labels)))
    for part in parts:
        assert all(labels[int(row)] == label for row, label in zip(part.features[:, 0], part.labels, strict=True))
    for label in set(labels):
        first, second = (int((part.labels == label).sum()) for part in parts)
        assert 0 <= first - second <= 1


@pytest.mark.parametrize("labels", [[0, 0, 1, 1, 2], [2, 2, 0, 1]])
def test_one_sample_of_the_forget_class_or_of_each_retain_class_cannot_be_halved(labels: list[int]) -> None:
    data = units(labels)
    split = split_features(data, None, [2])
    assert split.report is data
    assert split.validation is None


def test_a_retain_class_of_one_sample_does_not_prevent_the_halves() -> None:
    split = split_features(units([0, 1, 1, 2, 2]), None, [2])
    assert split.validation is not None
    assert (split.validation.labels.tolist(), split.report.labels.tolist()) == ([0, 1, 2], [1, 2])


def test_a_validation_split_is_used_whole_and_leaves_the_evaluation_data_whole() -> None:
    test, held = units([0, 1, 2]), units([2, 1, 0])
    split = split_features(test, held, [2])
    assert split == Measurable(report=test, validation=held, own_validation=True)


LABELS = [0, 0, 1, 1, 2, 2, 2, 2]  # of each class every second sample, from the first on, selects
BEFORE = [0, 0, 1, 1, 0, 0, 0, 0]
SELECTING = [0, 0, 1, 1, 2, 0, 2, 0]  # only selecting samples of the forget class are recognised
REPORTING = [0, 0, 1, 1, 0, 2, 0, 2]
LAST = [0, 0, 1, 1, 2, 0, 0, 0]


def chosen(run: Run, validation: FeatureSet | None = None) -> dict[str, tuple[int, float]]:
    split = split_features(units(LABELS), validation, [2])
    rows = scores(measure([run], split, [2]))
    return {row.rule: (row.epochs[0], row.forget_after) for row in rows}


def test_the_validation_rule_selects_on_one_half_and_reports_on_the_other() -> None:
    found = chosen(scripted([BEFORE, SELECTING, REPORTING, LAST]))
    assert found["validation"] == (1, 0.0)  # by the half that reports it would have been epoch 2, with 1.0
    swapped = chosen(scripted([BEFORE, REPORTING, SELECTING, LAST]))
    assert swapped["validation"] == (2, 0.0)


def test_the_other_rules_look_at_all_of_the_evaluation_data() -> None:
    found = chosen(scripted([BEFORE, SELECTING, [0, 0, 1, 1, 2, 2, 2, 0], LAST]))
    assert found["source-free"] == (3, 0.25)
    assert found["worst-case"] == (2, 0.75)


def test_with_a_validation_split_of_its_own_the_rule_reports_on_all_evaluation_data() -> None:
    held = FeatureSet(features=torch.eye(8)[[0, 2, 4, 6]], labels=torch.tensor([0, 1, 2, 2]))
    found = chosen(scripted([BEFORE, SELECTING, REPORTING, LAST]), held)
    assert found["validation"] == (1, 0.5)
    assert found["source-free"] == (3, 0.25)


def test_without_two_halves_there_is_no_validation_rule() -> None:
    split = split_features(units([0, 0, 1, 1, 2]), None, [2])
    rows = scores(measure([scripted([[0, 0, 1, 1, 0], [0, 0, 1, 1, 2]])], split, [2]))
    assert [row.rule for row in rows] == ["source-free", "worst-case"]


def test_features_are_measured_in_the_coordinates_of_the_head() -> None:
    toy = hidden(bias=0.0)
    (run,) = relearn_release(toy.head, (FORGET,), [RELEASED], AuditConfig(n=300, m=30, epochs=3, threads=1))
    (one,) = measure([run], split_features(toy.data, None, [FORGET]), [FORGET])
    whole = evaluate(run.path, toy.data.features / run.placed.gain, toy.data.labels, [FORGET])
    assert run.placed.gain != pytest.approx(1.0, abs=0.05)
    assert torch.equal(one.test.hits, whole.hits)
    assert torch.equal(one.test.counts, whole.counts)


def test_of_a_measured_run_the_first_and_the_last_head_are_left() -> None:
    run = scripted([BEFORE, SELECTING, REPORTING, LAST])
    (one,) = measure([run], split_features(units(LABELS), None, [2]), [2])
    assert (one.epochs, one.run.path.kept, one.run.path.weights.shape[0]) == ((0, 1, 2, 3), (0, 3), 2)
    assert one.run.path.head(0).fingerprint == run.path.head(0).fingerprint
    assert one.run.path.last.fingerprint == run.path.last.fingerprint


def traced(table: list[list[int]], *, setting: Setting = RELEASED, seed: int = 0) -> Measured:
    """Make a measured run that recognises so many of 10 samples of each class in each epoch."""
    trace = trace_of(table, [10, 10, 10], (2,))
    run = scripted([[0, 1, 2]] * len(table), setting=setting, seed=seed)
    return Measured(run=run, epochs=run.path.kept, test=trace, validation=None, report=trace)


SEEDS = [
    [[10, 9, 0], [9, 9, 4], [8, 8, 9]],
    [[10, 8, 0], [9, 9, 7], [9, 9, 2]],
    [[10, 9, 1], [9, 9, 5], [9, 9, 6]],
]


@pytest.mark.parametrize("rule", ["source-free", "worst-case"])
def test_a_score_is_the_mean_over_seeds_with_the_sample_deviation_of_plain_numpy(rule: str) -> None:
    measured = [traced(table, seed=seed) for seed, table in enumerate(SEEDS)]
    (row,) = [row for row in scores(measured) if row.rule == rule]
    picked, epochs = [], []
    for table in SEEDS:
        retain, forget = np.array(table)[:, :2].sum(1) / 20, np.array(table)[:, 2] / 10
        found_rs = [relearning_score(retain[0], r, forget[0], f) for r, f in zip(retain, forget, strict=True)]
        allowed = [s if r >= 0.9 * retain[0] else -1 for s, r in zip(found_rs, retain, strict=True)]
        epoch = 2 if rule == "source-free" else int(np.argmax(allowed))
        picked.append((found_rs[epoch], retain[0], retain[epoch], forget[0], forget[epoch]))
        epochs.append(epoch)
    means = np.mean(picked, axis=0)
    found = (row.rs, row.retain_before, row.retain_after, row.forget_before, row.forget_after)
    assert found == pytest.approx(tuple(means))
    assert row.rs_std == pytest.approx(np.std([p[0] for p in picked], ddof=1))
    assert row.rs_seeds == pytest.approx([p[0] for p in picked])
    assert row.epochs == tuple(epochs)
    assert row.forget_samples == 10
    assert rule == "source-free" or len(set(epochs)) > 1  # each seed has an epoch of its own


def test_settings_are_kept_apart_and_in_order() -> None:
    measured = [
        traced(table, setting=setting, seed=seed)
        for seed, table in enumerate(SEEDS[:2])
        for setting in (RESET, RELEASED)
    ]
    rows = scores(measured)
    assert [(row.variant, row.rule) for row in rows] == [
        (setting.variant, rule) for setting in (RESET, RELEASED) for rule in ("source-free", "worst-case")
    ]
    assert all(len(row.rs_seeds) == 2 for row in rows)


def test_the_best_score_within_a_retain_budget_is_averaged_over_the_seeds_of_one_setting() -> None:
    measured = [traced(SEEDS[0]), traced(SEEDS[1], seed=1), traced(SEEDS[2], setting=RESET)]
    found = rs_at(measured, RELEASED, (0.05, 0.2))
    first = relearning_score(0.95, 0.9, 0.0, 0.4), relearning_score(0.95, 0.8, 0.0, 0.9)
    second = relearning_score(0.9, 0.9, 0.0, 0.7)
    assert found == pytest.approx({"0.05": (first[0] + second) / 2, "0.2": (first[1] + second) / 2})


def test_the_intervals_of_a_score_come_from_its_samples_and_its_seeds() -> None:
    labels = [0, 2, 1, 2, 2, 1, 0, 2, 2, 2]
    before = [0, 1, 1, 1, 0, 1, 0, 1, 2, 1]
    after = [[0, 2, 1, 2, 2, 1, 0, 1, 2, 1], [0, 2, 1, 1, 2, 2, 0, 1, 2, 1], [0, 2, 1, 1, 0, 1, 0, 2, 2, 1]]
    runs = [scripted([before, one], seed=seed) for seed, one in enumerate(after)]
    split = Measurable(report=units(labels), validation=None, own_validation=True)
    row = scores(measure(runs, split, [2]))[0]
    forget = np.array(labels) == 2

    def changed(mask: NDArray[np.bool_]) -> Change:
        table = np.zeros((4, 4), int)
        was = 3 * (np.array(before) == labels)
        np.add.at(table, (was[mask], (np.array(after) == labels).sum(0)[mask]), 1)
        return Change.of(table.tolist())

    assert row.rs_interval == pytest.approx(estimate_rs(changed(~forget), changed(forget), row.rs_seeds).interval)
    shares = [(np.array(one) == labels)[forget].mean() for one in after]
    assert row.forget_after_interval == pytest.approx(estimate_accuracy(changed(forget).after, shares).interval)
    assert row.forget_before_interval == pytest.approx(wilson_interval(1, 6))
    assert row.interval_covers == "test samples and audit seeds"
    assert scores(measure(runs[:1], split, [2]))[0].interval_covers == "test samples"


def test_without_the_samples_an_interval_takes_them_to_be_shared_by_all_seeds() -> None:
    one, three = ([traced([[10, 9, 0], [9, 9, 4]], seed=seed) for seed in range(count)] for count in (1, 3))
    assert scores(three)[0].rs_interval == pytest.approx(scores(one)[0].rs_interval)
    assert scores(one)[0].forget_after_interval == pytest.approx(wilson_interval(4, 10))
