"""How often intervals hold the truth: a few cases of the simulation."""

from __future__ import annotations

from typing import Any

import numpy as np

from interval_coverage import Case, coverage

FEW: dict[str, Any] = {"forget_samples": 60, "retain_samples": 300, "forget_before": 0.0, "retain_drop": 0.02}
SIMULATED = [
    Case(**FEW, forget_after=0.5, seeds=1, spread=0.0),
    Case(**FEW, forget_after=0.9, seeds=3, spread=0.1),
    Case(**FEW | {"forget_before": 0.2}, forget_after=0.6, seeds=3, spread=0.25),
    Case(**FEW, forget_after=0.1, seeds=5, spread=0.1),
    Case(**FEW, forget_after=0.6, seeds=1, spread=0.0, references=(0.2,)),
    Case(**FEW, forget_after=0.6, seeds=3, spread=0.1, references=(0.2, 0.4)),
]


def test_intervals_hold_the_truth_in_95_percent_of_simulated_audits() -> None:
    found = [coverage(case, 400, seed=number) for number, case in enumerate(SIMULATED)]
    shares = {name: [tally[name].row()["coverage"] for tally in found if name in tally] for name in ("rs", "delta_rs")}
    assert all(0.93 <= np.mean(shares[name]) <= 0.98 for name in shares)
    assert min(min(one) for one in shares.values()) >= 0.92
