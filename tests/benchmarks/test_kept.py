"""Audits of kept models with one setting varied: the committed rows come out again, and tables read them."""

from __future__ import annotations

import csv
from pathlib import Path
from statistics import fmean

import pytest

from kept import rows
from reproduction.ablations import ROWS, SUPPORT, level_rows, levels, shared
from reproduction.leaderboard import models_folder
from reproduction.rows import BASE, KEPT, PUBLISHED, Group
from stored import find_models

WIDE = Group(f"{BASE}-224")


def committed(**wanted: str) -> list[dict[str, str]]:
    with (KEPT / WIDE.name / "kept.csv").open(newline="") as file:
        return [row for row in csv.DictReader(file) if wanted.items() <= row.items()]


def test_committed_rows_come_out_again() -> None:
    (model,) = (one for one in find_models(models_folder(WIDE)) if (one.name, one.forget) == ("negative-gradient", 0))
    made = list(rows(model, "missing row", {"missing_row": True}))
    before = committed(method=model.name, forget="0", audit="missing row")
    assert [row["rule"] for row in made] == [row["rule"] for row in before]
    for now, then in zip(made, before, strict=True):
        assert now["variant"] == then["variant"]
        last = (now["scale"], now["rule"]) == ("native", "source-free")  # 500 epochs on, processors are apart
        assert now["rs"] == pytest.approx(float(then["rs"]), abs=0.08 if last else 0.01)


def test_every_kept_model_has_every_level() -> None:
    names = {(one.name, str(one.forget)) for one in find_models(models_folder(WIDE))}
    for varied in ("", "score=entropy", "score=energy", "missing_row=True", "proposal=uniform", "proposal=laplace"):
        assert {(row["method"], row["forget"]) for row in committed(varied=varied)} == names


def test_tables_read_kept_rows_where_they_are_more() -> None:
    found = levels(WIDE, SUPPORT, PUBLISHED)
    for level, text in (("relu-gaussian", "proposal=relu-gaussian"), ("gaussian", "")):
        of = committed(method="bad-teacher", varied=text, scale="native", rule="worst-case", variant="released")
        assert fmean(found[level]["bad-teacher"].values()) == pytest.approx(fmean(float(row["rs"]) for row in of))
    whole = WIDE.audits(PUBLISHED, ending="-ablations", audit="missing row", variant="restored-row")
    assert 0 < len(whole) < len(level_rows(WIDE, ROWS, PUBLISHED)["True"])


def test_a_group_without_kept_rows_reads_its_own(tmp_path: Path) -> None:
    (tmp_path / BASE).mkdir()
    (tmp_path / BASE / "audits.csv").write_bytes((KEPT / BASE / "audits.csv").read_bytes())
    alone = Group(BASE, tmp_path)
    assert alone.kept(PUBLISHED, "support", "released").is_empty()
    own = alone.audits(PUBLISHED, ending="-ablations", audit="support", variant="released")
    assert own.filter(varied="proposal=relu-gaussian").equals(
        level_rows(alone, SUPPORT, PUBLISHED)["relu-gaussian"].select(own.columns)
    )


def test_classes_are_those_of_the_paper_unless_it_has_none_of_them() -> None:
    ours = {"gaussian": {"delete": {"0": 0.1, "7": 0.2}}, "relu-gaussian": {"delete": {"0": 0.1, "7": 0.2}}}
    for theirs, classes in (({"7": 0.5}, ["7"]), ({"9": 0.5}, ["0", "7"])):
        assert shared(ours, SUPPORT, {"gaussian": {"delete": theirs}}) == {"delete": classes}
