"""The masked original in the ablations: found or missed, as plain loops over the committed file say."""

from __future__ import annotations

import csv
from collections.abc import Mapping, Sequence
from dataclasses import replace
from statistics import fmean

import pytest

from builders.reproduction import ABLATIONS, TEN
from reproduction.ablations import PROPOSALS, SCORES
from reproduction.build import COMPARED
from reproduction.document import SENTENCES, TABLES
from reproduction.masked import FACTORS, controls_of
from reproduction.stored import KEPT, Kept, Row, read_kept

NATIVE, VERDICT = ("native", "worst-case"), ("canonical", "source-free")


@pytest.fixture(scope="module")
def committed() -> Kept:
    """The rows as they are."""
    return read_kept(COMPARED)


@pytest.fixture(scope="module")
def bare(committed: Kept) -> Kept:
    """Only the main audits."""
    return replace(committed, audits=[row for row in committed.audits if row["protocol"] == COMPARED])


def controlled(
    kept: Kept, level: str, rs: Mapping[str, float], *, verdict: str = "recovered", method: str = "masked"
) -> list[Row]:
    """Make audits of proposals out of the main ones, with an RS of their own by forget class."""
    made: list[Row] = []
    for reading in (NATIVE, VERDICT):
        for row in kept.main(*reading):
            if row["method"] == method and row["forget"] in rs:
                place = {"protocol": ABLATIONS, "audit": "proposals", "varied": f"proposal={level}"}
                made.append({**row, **place, "rs": rs[row["forget"]], "verdict": verdict})
    return made


def added(kept: Kept, *parts: Sequence[Row]) -> Kept:
    return replace(kept, audits=[*kept.audits, *(row for part in parts for row in part)])


def read(kept: Kept) -> list[dict[str, str | None]]:
    table = TABLES["masked"](kept)
    return [{name: cell[0] for name, cell in zip(table.names, row, strict=True)} for row in table.rows]


def test_the_table_is_what_the_file_says(committed: Kept) -> None:
    with (KEPT / COMPARED / "audits.csv").open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    found: dict[tuple[str, ...], list[dict[str, str]]] = {}
    for row in rows:
        key = tuple(row[name] for name in ("protocol", "audit", "varied", "method", "scale", "rule", "variant"))
        found.setdefault(key, []).append(row)
    settings = {"proposal": "proposal", "score": "score", "forget row": "missing_row", "support": "proposal"}
    settings |= {"M": "m", "N": "n"}
    shown = read(committed)
    assert len(shown) == 23
    for name, factor in FACTORS.items():
        classes = TEN if factor in (PROPOSALS, SCORES) else ["7"]
        for level, text in factor.names.items():
            main = level == factor.main
            head = (name if len(name) == 1 else name.capitalize(), f"{text} (main)" if main else text)
            (line,) = [row for row in shown if (row["varied"], row["level"]) == head]
            place = (COMPARED, "main", "") if main else (ABLATIONS, factor.audit, f"{settings[name]}={level}")
            variant = "released" if main else factor.variant
            some = [
                [row for row in found[(*place, *who, variant)] if row["forget"] in classes]
                for who in (("masked", *NATIVE), ("masked", *VERDICT), ("retrained", *VERDICT))
            ]
            assert all(sorted(r["forget"] for r in part) == classes for part in some)
            means = [f"{fmean(float(r['rs']) for r in part):.2f}" for part in some]
            assert [line["native"], line["masked"], line["retrained"]] == means
            back = sum(r["verdict"] == "recovered" for r in some[1])
            assert (line["classes"], line["recovered"]) == (str(len(classes)), f"{back} of {len(classes)}")


def test_what_is_missed_is_named_and_what_is_found_is_counted(committed: Kept) -> None:
    others = [one for factor in FACTORS.values() for one in controls_of(committed, factor) if not one.main]
    missed = [one for one in others if one.recovered < len(one.classes)]
    told = SENTENCES["masked"](committed)
    assert f"with {len(others) - len(missed)} of {len(others)} other settings" in told
    assert "Proposal and score were varied for 10 classes; forget row, support, M and N were varied for class 7" in told
    assert [(one.factor.audit, one.level) for one in missed] == [("support", "abs-gaussian"), ("M", "50")]
    support, size = (f"(RS {one.verdict:.2f})" for one in missed)
    assert f"and missed with absolute value as support {support} and M = 50 {size}." in told
    gaps = {one.verdict - one.reference: one for one in others if one.reference is not None and one not in missed}
    least = gaps[min(gaps)]
    name = f"{least.factor.names[least.level]} score"
    assert f"{name}: {least.verdict:.2f} against {least.reference:.2f}, +{min(gaps):.2f} on average, " in told
    rows = [row for row in committed.audits if (row["protocol"], row["varied"]) == (ABLATIONS, f"score={least.level}")]
    rs = {
        (row["method"], row["forget"]): row["rs"]
        for row in rows
        if (row["scale"], row["rule"], row["variant"]) == (*VERDICT, "released")
    }
    single = min(rs["masked", forget] - rs["retrained", forget] for forget in TEN)
    assert f" on average, +{single:.2f} for one class." in told


def test_without_audits_of_the_control_one_sentence_says_so(bare: Kept) -> None:
    assert SENTENCES["masked"](bare) == "The masked original has not been audited with another setting yet."
    assert TABLES["masked"](bare).rows == ()


def test_levels_are_compared_over_the_classes_that_all_have(bare: Kept) -> None:
    uniform = controlled(bare, "uniform", {"0": 0.25, "3": 0.75, "7": 0.5})
    laplace = controlled(bare, "laplace", {"3": 0.5, "7": 0.25, "8": 1.0})
    some = {one.level: one for one in controls_of(added(bare, uniform, laplace), PROPOSALS)}
    assert [one.classes for one in some.values()] == [["3", "7"]] * 3
    assert (some["uniform"].verdict, some["laplace"].verdict) == (0.625, 0.375)
    assert (some["uniform"].found, some["uniform"].reference) == (True, None)  # its retrained models are not there
    apart = added(bare, controlled(bare, "uniform", {"0": 0.5}), controlled(bare, "laplace", {"1": 0.5}))
    assert controls_of(apart, PROPOSALS) == []


def test_a_reference_that_alarms_as_well_leaves_little_between(bare: Kept) -> None:
    control = controlled(bare, "uniform", {"7": 0.75})
    assert "Where it is found, least is left" in SENTENCES["masked"](added(bare, control))  # of the main audits
    beside = controlled(bare, "uniform", {"7": 0.5}, method="retrained")
    told = SENTENCES["masked"](added(bare, control, beside))
    assert told.endswith("retrained models with the uniform proposal: 0.75 against 0.50, +0.25.")
    assert "with 1 of 1 other settings, and missed with none. Proposal was varied for class 7 alone." in told
    lost = SENTENCES["masked"](added(bare, controlled(bare, "uniform", {"7": 0.125}, verdict="generic")))
    assert "with 0 of 1 other settings, and missed with the uniform proposal (RS 0.12)." in lost
    two = SENTENCES["masked"](added(bare, controlled(bare, "uniform", {"3": 0.5, "7": 0.25}, verdict="generic")))
    assert "missed with the uniform proposal (0 of 2, mean RS 0.38)." in two
