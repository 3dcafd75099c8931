"""How often intervals hold the truth: a few cases of the simulation, and the rows of all of them."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import Any

import numpy as np

from interval_coverage import Case, cases, coverage

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "interval-coverage.csv"

FEW: dict[str, Any] = {"forget_samples": 60, "retain_samples": 300, "forget_before": 0.0, "retain_drop": 0.02}
SIMULATED = [
    Case(**FEW, forget_after=0.5, seeds=1, spread=0.0),
    Case(**FEW, forget_after=0.9, seeds=3, spread=0.1),
    Case(**FEW | {"forget_before": 0.2}, forget_after=0.6, seeds=5, spread=0.25),
    Case(**FEW, forget_after=0.6, seeds=1, spread=0.0, references=(0.2,)),
    Case(**FEW, forget_after=0.6, seeds=3, spread=0.1, references=(0.2, 0.4)),
]


def test_intervals_hold_the_truth_in_95_percent_of_simulated_audits() -> None:
    found = [coverage(case, 300, seed=number) for number, case in enumerate(SIMULATED)]
    rs, delta = ([tally[name]["coverage"] for tally in found if name in tally] for name in ("rs", "delta_rs"))
    assert 0.93 <= np.mean(rs) <= 0.97, rs
    assert min(rs) >= 0.92, rs
    assert 0.93 <= min(delta) < 0.99, delta  # with two references it is wider than it need be


def test_the_rows_of_all_cases_show_95_percent_and_more_for_delta_rs() -> None:
    with RESULTS.open() as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == sum(1 if case.references else 3 for case in cases())
    for name in ("rs", "forget_after", "retain_after"):
        found = [float(row["coverage"]) for row in rows if row["quantity"] == name]
        assert 0.93 <= np.mean(found) <= 0.97
        assert min(found) >= 0.905
    assert min(float(row["coverage"]) for row in rows if row["quantity"] == "delta_rs") >= 0.95
