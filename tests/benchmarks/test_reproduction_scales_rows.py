"""What is said of scales on the committed rows, recomputed from the files with numpy and scipy alone."""

from __future__ import annotations

import csv
from typing import Any

import numpy as np
import pytest
from scipy import stats

from builders.reproduction import LONG, RATED, STEPPED, THREE, cells, paper_value
from reproduction.build import COMPARED
from reproduction.document import SENTENCES
from reproduction.sentences_scales import agreement_scales, norm
from reproduction.stored import KEPT, Kept, read_kept
from reproduction.tables_scales import agreement_scales_table, full_scales_table, norm_table, other_norms_table
from sfra.attack.scale import KAPPA
from sfra.bench.tables.names import METHODS


def rows_of(name: str) -> list[dict[str, str]]:
    with (KEPT / COMPARED / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return list(csv.DictReader(file))


@pytest.fixture(scope="module")
def committed() -> Kept:
    return read_kept(COMPARED)


@pytest.fixture(scope="module")
def grid() -> dict[tuple[str, str, str], dict[str, float]]:
    """RS of every model in worst-case by scale: its κ as written, or the name of the scale."""
    found: dict[tuple[str, str, str], dict[str, float]] = {}
    for row in rows_of("audits"):
        if (row["audit"], row["variant"], row["rule"]) == ("main", "released", "worst-case"):
            place = (row["protocol"], row["method"], row["forget"])
            found.setdefault(place, {})[row["kappa"] or "native"] = float(row["rs"])
    return found


def test_retrained_models_are_read_as_numpy_reads_the_csv(grid: Any, committed: Kept) -> None:
    others: dict[str, dict[str, str | None]] = cells(other_norms_table(committed))
    shown = {label: row | others.get(label, {}) for label, row in cells(norm_table(committed)).items()}
    apart: dict[str, list[tuple[float, float]]] = {}
    gains = {
        (row["protocol"], row["forget"]): float(row["gain"])
        for row in rows_of("diagnostics")
        if (row["method"], row["scale"]) == ("retrained", "canonical")
    }
    for forget in map(str, range(10)):
        curve = grid[COMPARED, "retrained", forget]
        kappas = np.array(sorted((k for k in curve if k != "native"), key=float))
        x, y = np.log(kappas.astype(float)), np.array([curve[k] for k in kappas])
        row, paper = shown[forget], paper_value("retrained", forget)
        assert len(x) == 9
        assert (np.diff(y) >= 0).all()
        assert (row["a"], row["paper"]) == (f"{curve['native']:.2f}", f"{paper:.2f}")
        assert row["paper_kappa"] == f"{np.exp(np.interp(paper, y[y > 0.01], x[y > 0.01])):.2f}"
        for letter, protocol in (("a", COMPARED), ("c", STEPPED), ("d", LONG)):
            if (protocol, forget) in gains and (protocol, "retrained", forget) in grid:
                kappa = KAPPA / gains[protocol, forget]
                assert row[f"{letter}_kappa"] == f"{kappa:.2f}"
                if x[0] <= np.log(kappa) <= x[-1]:
                    read = float(np.interp(np.log(kappa), x, y))
                    assert row[f"{letter}_scaled"] == f"{read:.2f}"
                    apart.setdefault(letter, []).append((read, grid[protocol, "retrained", forget]["native"]))
    assert {letter: len(some) for letter, some in apart.items()} == {"a": 10, "c": 3, "d": 3}
    text = norm(committed)
    for letter in sorted(set(apart) - {"a"}):
        scaled, measured = np.array(apart[letter]).T
        assert f"the κ of ({letter}), class by class, the models of (a) give {scaled.mean():.2f}. " in text
        most = np.abs(scaled - measured).max()
        assert f"Class by class, (a) scaled in this way and ({letter}) differ by at most {most:.2f}." in text


def test_one_scale_brings_every_retrained_model_as_near_to_the_paper_as_is_said(grid: Any, committed: Kept) -> None:
    curves = [grid[COMPARED, "retrained", str(k)] for k in range(10)]
    paper = np.array([paper_value("retrained", str(k)) for k in range(10)])
    apart = {scale: np.abs(np.array([curve[scale] for curve in curves]) - paper) for scale in curves[0]}
    best = min((scale for scale in apart if scale != "native"), key=lambda scale: apart[scale].mean())
    text = norm(committed)
    assert f"With one scale for all, κ = {float(best):.2f}, chosen from the sweep after seeing the paper's" in text
    assert f"by {apart[best].mean():.2f} on average over classes and by at most {apart[best].max():.2f}" in text
    assert f"(as released by {apart['native'].mean():.2f} on average)" in text


def recomputed(worlds: Any, shown: Any, told: str) -> None:
    """Compare a table of agreement at every scale, and what is said of it, with numpy and scipy."""
    places = set.intersection(*map(set, worlds.values()))
    methods = sorted({method for method, _ in places})
    scales = sorted(set.union(*(set(one) for one in worlds["a"].values())))
    assert len(scales) == len(shown) == 10
    for letter, side in worlds.items():
        differences = {}
        for scale in scales:
            ours, paper = (
                np.array([np.mean([value(m, c) for n, c in places if n == m]) for m in methods])
                for value in (lambda m, c, s=scale, side=side: side[m, c][s], paper_value)
            )
            row = shown["native" if scale == "native" else f"{float(scale):.2f}"]
            rho = stats.spearmanr(ours, paper).statistic
            numbers = [np.abs(ours - paper).mean(), (ours - paper).mean(), rho]
            cells_of = [row[f"{letter}_{name}"].replace("−", "-") for name in ("difference", "bias", "spearman")]
            assert [float(cell) for cell in cells_of] == pytest.approx(numbers, abs=0.00501)
            differences[scale] = numbers[0]
        best = min((s for s in scales if s != "native"), key=differences.__getitem__)
        nearest = f"({letter}) is nearest to the paper at κ = {float(best):.2f}, with a mean absolute difference of "
        assert f"{nearest}{differences[best]:.2f} (as released {differences['native']:.2f})" in told


def test_agreement_at_every_scale_is_that_of_numpy_on_the_csv(grid: Any, committed: Kept) -> None:
    worlds = {"a": {(m, c): one for (p, m, c), one in grid.items() if p == COMPARED and m in METHODS}}
    rates = {(m, c): one for (p, m, c), one in grid.items() if p == RATED}
    if rates:
        same = {place: one for place, one in worlds["a"].items() if place[0] in ("retrained", "delete")}
        worlds["b"] = same | rates
    told = agreement_scales(committed)
    recomputed(worlds, cells(agreement_scales_table(committed)), told.split("that (a), (d) and")[0])


def test_agreement_of_the_full_training_is_that_of_numpy_on_the_csv(grid: Any, committed: Kept) -> None:
    full = {(m, c): one for (p, m, c), one in grid.items() if p == LONG and m in METHODS}
    shown, told = cells(full_scales_table(committed)), agreement_scales(committed)
    if not full:
        assert shown == {}
        assert "(d) ha" in told.rpartition("predict it.")[2]
        return
    assert {forget for _, forget in full} <= set(THREE)
    own = {(m, c): grid[COMPARED, m, c] for m, c in full}
    recomputed({"a": own, "d": full}, shown, told.partition("that (a), (d) and")[2])


def test_where_the_order_is_nearest_is_told_beside_where_the_level_is(committed: Kept) -> None:
    rows = {
        (table.label, letter, kappa): row
        for table in (agreement_scales_table(committed), full_scales_table(committed))
        for kappa, row in cells(table).items()
        for letter in "abd"
        if kappa != "native" and f"{letter}_spearman" in row
    }

    def number(place: tuple[str, str, str], name: str) -> float:
        return float(str(rows[place][f"{place[1]}_{name}"]).replace("−", "-"))

    sweeps = {place[:2] for place in rows}
    nearest = [min((p for p in rows if p[:2] == sweep), key=lambda p: number(p, "difference")) for sweep in sweeps]
    reached = [number(place, "spearman") for place in nearest]
    best = max(rows, key=lambda place: number(place, "spearman"))
    told = agreement_scales(committed)
    assert f"Spearman is {min(reached):.2f} to {max(reached):.2f} there." in told
    assert f"The highest of these sweeps, {number(best, 'spearman'):.2f}, is that of ({best[1]})" in told
    assert f"where the mean difference is {rows[best][f'{best[1]}_bias']}." in told


def test_retrained_models_stand_to_the_papers_as_is_said(grid: Any, committed: Kept) -> None:
    ours, paper = (
        np.array([value(str(k)) for k in range(10)])
        for value in (lambda c: grid[COMPARED, "retrained", c]["native"], lambda c: paper_value("retrained", c))
    )
    told = SENTENCES["paper-scale"](committed)
    assert f"give back less than the paper's in {(ours < paper).sum()} of 10 classes" in told
    assert f"in its order (Spearman {stats.spearmanr(ours, paper).statistic:.2f})" in told
