"""Measure relearned heads on real features: a trace per run, on evaluation and on validation data."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch

from sfra.attack.grid import Run
from sfra.auditing.evaluate import evaluate
from sfra.auditing.rules import RULES, select
from sfra.auditing.subject import Measurable, Subject
from sfra.auditing.trace import Trace
from sfra.core.cpu import one_thread
from sfra.core.types import Progress


@dataclass(frozen=True, kw_only=True)
class Measured:
    """One run on real data."""

    run: Run
    """What was measured; of its epochs the first and the last are left."""
    epochs: tuple[int, ...]
    """The epochs that the traces are of."""
    test: Trace
    """All evaluation data."""
    validation: Trace | None
    """The part that rules which validate select on."""
    report: Trace
    """What they report on; disjoint from ``validation``."""

    def only(self, label: int) -> Measured:
        """Return the same run measured on one of several forget classes."""
        return replace(self, test=self.test.only(label), report=self.test.only(label), validation=None)

    def chosen(self, rule: str) -> tuple[int, Trace] | None:
        """Return the epoch that a rule picks and the trace to read it on; None where the rule cannot be applied."""
        if not RULES[rule].validates:
            return select(self.test, rule), self.test
        if self.validation is None:
            return None
        return select(self.report, rule, self.validation), self.report


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A subject, its relearned heads and, where there was data, what they recognise."""

    subject: Subject
    runs: Sequence[Run]
    measured: Sequence[Measured] | None


def measure(
    runs: Sequence[Run],
    split: Measurable,
    forget: Sequence[int],
    *,
    device: torch.device | str = "cpu",
    progress: Progress | None = None,
) -> list[Measured]:
    """Evaluate every run once on each part of the data, on a device."""
    threads, results = torch.get_num_threads(), []
    with one_thread():
        for run in runs:
            results.append(_measured(run, split, forget, device, threads))
            if progress is not None:
                progress("measuring", len(results), len(runs))
    return results


def _measured(run: Run, split: Measurable, forget: Sequence[int], device: torch.device | str, threads: int) -> Measured:
    path = run.path.to(device)
    report, validation = (
        None
        if part is None
        else evaluate(path, run.placed.features(part.features.to(device)), part.labels, forget, threads=threads)
        for part in (split.report, split.validation)
    )
    assert report is not None
    whole = report
    if validation is not None and not split.own_validation:
        whole = report.joined(validation)
    ends = replace(run, path=run.path.ends())
    return Measured(run=ends, epochs=path.kept, test=whole, validation=validation, report=report)
