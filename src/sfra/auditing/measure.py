"""Measure relearned heads on real features: per run and selection rule, then over the seeds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch

from sfra.attack.grid import Run, Setting
from sfra.auditing.evaluate import evaluate
from sfra.auditing.trace import RULES, Trace, select
from sfra.core.metrics import mean_and_std, relearning_score, rs_at_budget, wilson_interval
from sfra.data import FeatureSet


@dataclass(frozen=True, kw_only=True)
class Split:
    """Features to measure on, in two disjoint parts: one may select an epoch, the other reports it."""

    report: FeatureSet
    select: FeatureSet | None
    """Where the validation rule looks; None when there is nothing to hold out."""
    own_validation: bool
    """``select`` is a validation split of its own rather than one half of the evaluation data."""


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One run on real data."""

    run: Run
    test: Trace
    """All evaluation data."""
    select: Trace | None
    """The part that the validation rule selects on."""
    report: Trace
    """What the validation rule reports on; disjoint from ``select``."""

    def chosen(self, rule: str) -> tuple[int, Trace] | None:
        """Return the epoch that a rule picks and the trace to read it on; None where the rule cannot be applied."""
        if rule != "validation":
            return select(self.test, rule), self.test
        if self.select is None:
            return None
        return select(self.report, rule, self.select), self.report


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What one rule reads off the runs of one setting, averaged over seeds."""

    setting: Setting
    rule: str
    rs: float
    rs_std: float | None
    rs_seeds: tuple[float, ...]
    retain_before: float
    retain_after: float
    forget_before: float
    forget_after: float
    epochs: tuple[int, ...]
    """Epoch of each seed."""
    forget_count: int
    """Forget samples that were measured on."""

    @property
    def interval(self) -> tuple[float, float]:
        """Carry the 95 % Wilson interval of the forget accuracy after over to RS, the other accuracies held."""
        ends = wilson_interval(round(self.forget_after * self.forget_count), self.forget_count)
        low, high = (relearning_score(self.retain_before, self.retain_after, self.forget_before, end) for end in ends)
        return min(low, self.rs), max(high, self.rs)


def split_features(test: FeatureSet, validation: FeatureSet | None, forget: Sequence[int]) -> Split:
    """Take the validation split that there is, or halve the evaluation data class by class (every second sample)."""
    if validation is not None:
        return Split(report=test, select=validation, own_validation=True)
    first = torch.zeros(len(test), dtype=torch.bool)
    for label in test.labels.unique():  # type: ignore[no-untyped-call]
        first[torch.nonzero(test.labels == label).flatten()[::2]] = True
    if not all(_covers(test.labels[part], forget) for part in (first, ~first)):
        return Split(report=test, select=None, own_validation=False)
    return Split(report=_part(test, ~first), select=_part(test, first), own_validation=False)


def measure(
    runs: Sequence[Run], split: Split, forget: Sequence[int], *, device: torch.device | str = "cpu"
) -> list[Measured]:
    """Evaluate every run once on each part of the data, on a device."""
    parts = [None if part is None else (part.features.to(device), part.labels) for part in (split.report, split.select)]
    results = []
    for run in runs:
        path = run.path.to(device)
        report, chooser = (
            None if part is None else evaluate(path, run.placed.features(part[0]), part[1], forget) for part in parts
        )
        assert report is not None
        whole = report if chooser is None or split.own_validation else _join(report, chooser)
        results.append(Measured(run=run, test=whole, select=chooser, report=report))
    return results


def outcomes(measured: Sequence[Measured]) -> list[Outcome]:
    """Read every setting under every rule, in the order of the runs."""
    settings = dict.fromkeys(one.run.setting for one in measured)
    rows = []
    for setting in settings:
        mine = [one for one in measured if one.run.setting == setting]
        rows += [row for rule in RULES if (row := _outcome(setting, rule, mine)) is not None]
    return rows


def budgets(measured: Sequence[Measured], setting: Setting, epsilons: Sequence[float]) -> dict[str, float]:
    """Return RS@ε of a setting for each retain budget ε, averaged over seeds."""
    traces = [one.test for one in measured if one.run.setting == setting]
    return {
        f"{epsilon:g}": mean_and_std([rs_at_budget(t.retain, t.forget, epsilon) for t in traces])[0]
        for epsilon in epsilons
    }


def _outcome(setting: Setting, rule: str, measured: Sequence[Measured]) -> Outcome | None:
    picks = [one.chosen(rule) for one in measured]
    found = [pick for pick in picks if pick is not None]
    if not found:
        return None
    accuracies = [
        (float(t.retain[0]), float(t.retain[epoch]), float(t.forget[0]), float(t.forget[epoch])) for epoch, t in found
    ]
    scores = [relearning_score(*row) for row in accuracies]
    mean, std = mean_and_std(scores)
    retain_before, retain_after, forget_before, forget_after = (
        mean_and_std(column)[0] for column in zip(*accuracies, strict=True)
    )
    return Outcome(
        setting=setting,
        rule=rule,
        rs=mean,
        rs_std=std,
        rs_seeds=tuple(scores),
        retain_before=retain_before,
        retain_after=retain_after,
        forget_before=forget_before,
        forget_after=forget_after,
        epochs=tuple(epoch for epoch, _ in found),
        forget_count=found[0][1].forget_count,
    )


def _covers(labels: torch.Tensor, forget: Sequence[int]) -> bool:
    """Say whether there are both retain and forget samples."""
    is_forget = torch.isin(labels, torch.tensor(list(forget)))
    return bool(is_forget.any()) and not bool(is_forget.all())


def _part(data: FeatureSet, rows: torch.Tensor) -> FeatureSet:
    return FeatureSet(features=data.features[rows], labels=data.labels[rows], source=data.source)


def _join(one: Trace, other: Trace) -> Trace:
    return Trace(hits=one.hits + other.hits, counts=one.counts + other.counts, forget_classes=one.forget_classes)
