"""What the documents say of power, against the rows that are kept."""

from __future__ import annotations

import re
from pathlib import Path

import polars as pl
import pytest

from power_report import NAMES, choose, curves, halves, judge, load, plot
from sfra.auditing.findings.release import LOST_AT_N, RS_AT_M

DOCS = Path(__file__).parents[2] / "docs"


def texts(svg: str) -> list[str]:
    return re.findall(r"<text[^>]*>([^<]*)</text>", svg)


def test_shares_and_auc_are_those_counted_by_hand() -> None:
    rs = {"original": (0.9, 0.5), "a": (0.2, 0.45), "b": (0.35, 0.5)}
    rows = pl.DataFrame(
        {"kappa": 2.0, "n": 9, "m": 3, "exponent": 0.0, "seed": 1, "forget": 10 * i, "model": model}
        | {"kind": "masked" if model == "original" else "fresh", "rs_100": rs[model][i]}
        for i in range(2)
        for model in rs
    )
    got = judge(rows).row(0, named=True)  # hidden .7 .55 .05 .00; absent -.15 .15 -.05 .05
    assert (got["masked"], got["retrained"]) == (pytest.approx(0.7), pytest.approx(0.375))
    assert (got["detected"], got["alarms"]) == (0.5, 0.25)
    assert got["auc"] == pytest.approx((4 + 4 + 2.5 + 2) / 16, abs=1 / 16)  # .05 against .05 hangs on a rounding
    assert halves(rows) == ([0], [10])


def test_the_table_of_weights_is_that_of_the_rows() -> None:
    told = re.findall(r"^\| (\d\.\d) \| (.*) \|$", (DOCS / "method.md").read_text(encoding="utf-8"), re.MULTILINE)
    found = judge(load("cifar100-seeds")).filter(pl.col("m") == 50)
    for kappa, cells in told:
        rows = found.filter(pl.col("kappa") == float(kappa)).sort("exponent")
        shares = [[float(share) for share in cell.split(" / ")] for cell in cells.split(" | ")]
        assert shares == [pytest.approx(row, abs=0.0051) for row in rows.select("detected", "alarms", "auc").rows()]
    assert len(told) == 4


def test_the_setting_chosen_on_one_half_is_the_one_that_the_documents_name() -> None:
    best, other = choose(load("cifar100-seeds"))
    assert (best["kappa"], best["m"], best["exponent"]) == (2.0, 50, 0.0)
    shares = [one[name] for one in (best, other) for name in ("detected", "alarms")]
    assert shares == pytest.approx([0.43, 0.00, 0.33, 0.17], abs=0.005)
    few = judge(load("cifar10-seeds"))
    assert (few["detected"].min(), few.filter(pl.col("m") == 500)["alarms"].max()) == (1.0, 0.0)


def test_what_small_n_says_is_lost_is_what_the_rows_lost() -> None:
    rows = load("cifar10").filter(
        (pl.col("kind") == "masked") & (pl.col("kappa") == 1.7) & (pl.col("m") == 500) & (pl.col("exponent") == 0)
    )
    table = rows.filter(pl.col("seed") == 1).pivot(on="forget", index="n", values="rs_100")
    levels = {row[0]: row[1:] for row in table.rows()}
    for n, (mean, worst) in LOST_AT_N.items():
        lost = [full - here for full, here in zip(levels[500_000], levels[n], strict=True)]
        assert [mean, worst] == pytest.approx([sum(lost) / 5, max(lost)], abs=0.01)


@pytest.mark.parametrize("name", ["cifar10", "cifar100"])
def test_what_small_m_says_of_rs_is_in_the_rows(name: str) -> None:
    rows = curves(load(name)).filter((pl.col("axis") == "m") & (pl.col("exponent") == 0) & (pl.col("kind") == "masked"))
    found = dict(rows.select("x", "rs_100").rows())
    for m, rs in RS_AT_M[NAMES[name]].items():
        assert rs == pytest.approx(found[m], abs=0.0051)


def test_rs_over_m_is_as_the_documents_say() -> None:
    level = curves(load("cifar100")).filter((pl.col("axis") == "m") & (pl.col("exponent") == 0)).sort("x")
    for kind, told in (("masked", [0.53, 0.61, 0.32, 0.10]), ("fresh", [0.58, 0.52, 0.25, 0.07])):
        assert level.filter(pl.col("kind") == kind)["rs_100"].to_list() == pytest.approx(told, abs=0.0051)


def test_the_figure_of_the_documents_is_the_one_that_is_drawn(tmp_path: Path) -> None:
    plot([load(name) for name in NAMES], tmp_path / "power.svg")
    drawn, kept = ((folder / "power.svg").read_text(encoding="utf-8") for folder in (tmp_path, DOCS))
    assert texts(drawn) == texts(kept)
    assert kept.count("mark-line") == drawn.count("mark-line") > 0


@pytest.mark.parametrize(("score", "told"), [("rs_100", [0.07, 0.14, 0.24]), ("rs_mean", [0.07, 0.08, 0.08])])
def test_two_retrainings_differ_as_far_as_the_documents_say(score: str, told: list[float]) -> None:
    rows = load("cifar100-seeds").filter((pl.col("kind") == "fresh") & (pl.col("m") == 50) & (pl.col("kappa") == 2.4))
    table = rows.pivot(on="model", index=["exponent", "seed", "forget"], values=score)
    squares = table.group_by("exponent").agg(((pl.col("a") - pl.col("b")) ** 2).mean()).sort("exponent")["a"]
    assert squares.sqrt().to_list() == pytest.approx(told, abs=0.0051)


def test_the_digits_lose_power_at_a_larger_scale_and_rs_at_a_smaller_n() -> None:
    found = judge(load("digits")).filter((pl.col("m") == 500) & (pl.col("exponent") == 0))
    levels = {(row["kappa"], row["n"]): row for row in found.rows(named=True)}
    assert [levels[kappa, 500_000]["detected"] for kappa in (1.7, 2.0)] == [1.0, pytest.approx(0.83, abs=0.005)]
    few = curves(load("digits")).filter(
        (pl.col("axis") == "n") & (pl.col("exponent") == 0) & (pl.col("kind") == "masked")
    )
    at = dict(few.select("x", "rs_100").rows())
    assert at[500_000] - at[5_000] == pytest.approx(0.22, abs=0.005)
