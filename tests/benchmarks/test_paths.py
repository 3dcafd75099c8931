"""RS does not tell the weighted stream from the plain one: the rows of ``benchmarks/paths.py``."""

from __future__ import annotations

import csv
from collections import defaultdict
from pathlib import Path

import numpy as np
from scipy import stats

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "paths.csv"


def test_rs_of_both_paths_agrees_within_the_spread_of_seeds() -> None:
    found: dict[str, dict[str, list[float]]] = defaultdict(lambda: defaultdict(list))
    with RESULTS.open() as file:
        for row in csv.DictReader(file):
            found[row["model"]][row["path"]].append(float(row["rs"]))
            assert float(row["repeats"]) < 5e-3
    assert len(found) >= 6
    p = []
    for paths in found.values():
        plain, weighted = np.array(paths["plain"]), np.array(paths["weighted"])
        assert len(plain) == len(weighted) == 20
        assert abs(plain.mean() - weighted.mean()) < max(plain.std(), weighted.std(), 1e-3)
        p.append(float(stats.ks_2samp(plain, weighted).pvalue))
    assert min(p) > 0.05 / len(p)
