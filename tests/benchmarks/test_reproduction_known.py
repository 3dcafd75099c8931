"""The control and how well the original knows a class, recomputed from the committed files."""

from __future__ import annotations

import csv
from dataclasses import replace

import pytest
from scipy import stats

from reproduction.known import known_well
from reproduction.stored import KEPT, Kept, read_kept

GROUPS = ("cifar10-resnet18", "cifar100-resnet18")


def read(group: str, name: str) -> list[dict[str, str]]:
    with (KEPT / group / f"{name}.csv").open(newline="", encoding="utf-8") as file:
        return [row for row in csv.DictReader(file) if row["protocol"] == group]


@pytest.mark.parametrize("group", GROUPS)
def test_the_correlation_is_that_of_scipy_on_the_csv(group: str) -> None:
    known = {row["label"]: int(row["hits"]) / int(row["samples"]) for row in read(group, "originals")}
    rows = {
        (row["method"], row["forget"]): row
        for row in read(group, "audits")
        if (row["audit"], row["variant"], row["scale"], row["rule"]) == ("main", "released", "canonical", "source-free")
    }
    classes = sorted({forget for method, forget in rows if method == "masked"})
    gaps = [float(rows["masked", c]["rs"]) - float(rows["retrained", c]["rs"]) for c in classes]
    told = known_well(read_kept(group))
    rho = stats.spearmanr([known[c] for c in classes], gaps).statistic
    over = f"over {len(classes)} classes, Spearman between its accuracy on the class and masked minus retrained"
    assert f"{over} is {rho:.2f}." in told
    back = {c: rows["masked", c]["verdict"] == "recovered" for c in classes}
    missed, found = ([100 * known[c] for c in classes if back[c] is side] for side in (False, True))
    ends = (
        f"The original has {min(missed):.0f} to {max(missed):.0f} % on those that are not"
        if missed
        else "The control stands out more"
    )
    assert ends in told
    assert (f"{min(found):.0f} to {max(found):.0f} % on those that are." in told) is bool(missed)


def of(kept: Kept, gaps: dict[str, float]) -> Kept:
    """Set masked minus retrained of some classes; the others are left out."""
    audits = [
        {**row, "rs": 0.1 + (gaps[row["forget"]] if row["method"] == "masked" else 0.0)}
        for row in kept.audits
        if row["forget"] in gaps and row["method"] in ("masked", "retrained")
    ]
    return replace(kept, audits=audits)


def test_nothing_is_said_where_they_do_not_go_together_or_are_too_few() -> None:
    kept = read_kept(GROUPS[0])
    known = {str(int(row["label"])): row["hits"] for row in kept.originals if row["protocol"] == GROUPS[0]}
    assert "is 1.00." in known_well(of(kept, {c: known[c] / 2000 for c in "013579"}))
    assert known_well(of(kept, {c: 0.9 - known[c] / 2000 for c in "013579"})) == ""
    assert known_well(of(kept, {c: known[c] / 2000 for c in "01"})) == ""
    assert known_well(replace(kept, originals=())) == ""
