"""The page of a benchmark: leaderboard, maps, figures, diagnostics and every audit in detail, from its store alone."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

import msgspec

from sfra.bench.report import BenchReport
from sfra.bench.tables.diagnoses import alignment_table, confidence_table, margin_table
from sfra.bench.tables.names import backbone_name, dataset_name, forget_name, forget_of, method_name, method_rank
from sfra.report.classes import Names, named_table, set_name, set_words
from sfra.report.figures import Setting, plan_setting
from sfra.report.figures.rows import Row, in_order
from sfra.report.figures.style import Style
from sfra.report.numbers import number, percent, signed
from sfra.report.page.audit import View, audit_view, first_alike, flat, make_page
from sfra.report.page.charts import Charts, rounded
from sfra.report.page.html import table
from sfra.report.sources import Bench, main_rows, with_names

Pair = tuple[str, str]

DIAGNOSED = ("alignment", "margin", "confidence")
"""Tables that are shown among the diagnostics, and not once more among all tables."""

METHODS = 3
"""Most methods whose diagnostics are drawn on the page: those with a map first. Files of all are written on demand."""

HEADS = (
    *("RS mean", "RS max", "ΔRS mean", "ΔRS max"),
    *("Forget before", "Forget after", "Retain before", "Retain after", "Audits"),
)
STAGES = ("forget_before", "forget_after", "retain_before", "retain_after")


def bench_page(bench: Bench, *, date: str) -> str:
    """Make the page of a benchmark, or of several that share a store.

    Args:
        bench: What :func:`sfra.report.sources.read_bench` returns.
        date: What the page gives as its date.
    """
    charts, settings, names = Charts(), bench.settings(), bench.names
    rows = main_rows(bench.rows.audits)
    several = len(settings) > 1
    views = _views(bench, rows, charts, names, several=several)
    keys = {view["key"] for view in views}
    protocols = [report.protocol.name for report in bench.reports]
    *first, last = protocols
    return make_page(
        "bench.html.j2",
        views,
        charts,
        title=f"Benchmarks {', '.join(first)} and {last}" if first else f"Benchmark {last}",
        date=date,
        reports=[_about(report, names.get(report.protocol.dataset)) for report in bench.reports],
        reading=f"{bench.scale} scale, {bench.rule} rule",
        several=several,
        heads=HEADS,
        board=board(rows, bench.scale, bench.rule),
        filters=filters(rows, bench.scale, bench.rule, names),
        places=[
            _place(f"place-{i}", pair, setting, keys, charts, several=several)
            for i, (pair, setting) in enumerate(settings.items())
        ],
        diagnostics=_diagnostics(bench, names),
    )


def place_name(dataset: str, backbone: str) -> str:
    """Name a data set and a backbone.

    >>> place_name("cifar10", "resnet18-small")
    'CIFAR-10, ResNet-18'
    """
    return f"{dataset_name(dataset)}, {backbone_name(backbone)}"


def _views(
    bench: Bench, rows: Sequence[Row], charts: Charts, names: Mapping[str, Sequence[str]], *, several: bool
) -> list[View]:
    """Arrange each audit once, in the order of the tables."""

    def rank(row: Row) -> tuple[Any, ...]:
        forget = forget_of(row)
        return row["dataset"], row["backbone"], method_rank(row["method"]), len(forget), forget, row["seed"]

    shown = sorted({row["cell"]: row for row in reversed(rows)}.values(), key=rank)
    audits = [with_names(bench.audits[row["cell"]], names.get(row["dataset"])) for row in shown]
    views = []
    for row, audit, like in zip(shown, audits, first_alike(audits), strict=True):
        reference = row["method"] == "retrained"
        label = method_name(row["method"]) + (" (the reference itself)" if reference else "")
        label += f", {place_name(row['dataset'], row['backbone'])}" if several else ""
        label += f", seed {row['seed']}" if row["seed"] else ""
        views.append(
            audit_view(
                audit, charts, key=_key(row), like=_key(shown[like]), label=label, reference=reference, brief=True
            )
        )
    return views


def _key(row: Row) -> str:
    return f"audit-{row['cell'][:12]}"


def board(rows: Sequence[Row], scale: str, rule: str) -> list[dict[str, Any]]:
    """Compute every line of the leaderboard, which shows those that its filters ask for.

    A line is a method on a data set and backbone, read at a scale under a rule, over all forget sets or for one.
    """
    shown = [row for row in rows if row["scale"] in ("native", "canonical", scale)]
    several = len({forget_name(row) for row in shown}) > 1
    groups: dict[tuple[str, ...], list[Row]] = {}
    for row in shown:
        key = tuple(str(row[name]) for name in ("method", "dataset", "backbone", "scale", "rule"))
        for forget in ("", forget_name(row)) if several else ("",):
            groups.setdefault((*key, forget), []).append(row)
    lines: list[dict[str, Any]] = []
    for (method, dataset, backbone, at, by, forget), mine in groups.items():
        known = {name: [row[name] for row in mine if row[name] is not None] for name in ("rs", "delta_rs", *STAGES)}
        scores = [over(known[name]) if known[name] else None for name in ("rs", "delta_rs") for over in (fmean, max)]
        shares = [fmean(known[name]) if known[name] else None for name in STAGES]
        texts = [number(scores[0]), number(scores[1]), signed(scores[2]), signed(scores[3]), *map(percent, shares)]
        lines.append(
            {"name": method_name(method), "place": place_name(dataset, backbone)}
            | {"where": {"dataset": dataset, "backbone": backbone, "scale": at, "rule": by, "forget": forget}}
            | {"hidden": (at, by, forget) != (scale, rule, "")}
            | {"cells": [*zip(texts, rounded([*scores, *shares]), strict=True), (str(len(mine)), len(mine))]}
        )

    def rank(line: dict[str, Any]) -> float:
        """Put the largest mean ΔRS first, and what has none last."""
        delta = line["cells"][2][1]
        return math.inf if delta is None else -delta

    return sorted(lines, key=rank)


def filters(
    rows: Sequence[Row], scale: str, rule: str, names: Mapping[str, Sequence[str]]
) -> list[tuple[str, str, list[tuple[str, str]], str]]:
    """List what the leaderboard can be filtered by: name, label, entries, and the entry that it opens with."""
    sets = sorted({(len(forget_of(row)), forget_of(row), forget_name(row)) for row in rows})

    def called(name: str) -> str:
        """Name a forget set in words, unless data sets mean other classes by the same indices."""
        mine = [row for row in rows if forget_name(row) == name]
        words = {set_words(forget_of(row), names.get(row["dataset"])) for row in mine}
        return words.pop() if len(words) == 1 else name

    scales = sorted({row["scale"] for row in rows if row["scale"] in ("native", "canonical", scale)})
    made = [
        ("dataset", "Data set", [(one, dataset_name(one)) for one in sorted({row["dataset"] for row in rows})], ""),
        ("backbone", "Backbone", [(one, backbone_name(one)) for one in sorted({row["backbone"] for row in rows})], ""),
        ("forget", "Forget set", [(name, called(name)) for _, _, name in sets], ""),
        ("scale", "Scale", [(one, one) for one in scales], scale),
        ("rule", "Rule", [(one, one) for one in sorted({row["rule"] for row in rows})], rule),
    ]
    return [one for one in made if len(one[2]) > 1]


def _place(key: str, pair: Pair, setting: Setting, keys: set[str], charts: Charts, *, several: bool) -> dict[str, Any]:
    """Arrange the maps and figures of one data set and backbone; those of diagnoses method by method, one map each."""
    rows = [row for row in main_rows(setting.audits) if (row["scale"], row["rule"]) == (setting.scale, setting.rule)]
    planned = {name: one for name, one in plan_setting(setting).items() if one.figure.on_page}
    mapped, others = (in_order(row["method"] for row in some) for some in (setting.maps, setting.diagnoses))
    chosen = in_order([*mapped, *(name for name in others if name not in mapped)][:METHODS])
    groups = {}
    for method in chosen:
        mine = {name: one for name, one in planned.items() if one.method == method}
        maps = [name for name, one in mine.items() if one.figure.needs == "maps"]
        groups[method_name(method)] = charts.add(key, {name: mine[name] for name in mine if name not in maps[1:]})
    return {
        "name": place_name(*pair) if several else "",
        "maps": [heat_map(rows, value, keys, setting.names) for value in ("rs", "delta_rs")],
        "charts": charts.add(key, {name: one for name, one in planned.items() if one.method is None}),
        "groups": {title: made for title, made in groups.items() if made},
    }


def heat_map(rows: Sequence[Row], value: str, keys: set[str], names: Names = None) -> dict[str, Any]:
    """Arrange RS or ΔRS as a table of methods by forget sets; a cell leads to its audit, of several seeds the first.

    Args:
        rows: Rows of one data set, backbone, scale and rule.
        value: ``rs`` or ``delta_rs``.
        keys: Audits that the page has in detail.
        names: Names of the data set's classes.
    """
    style = Style(theme="auto")
    shown = [row for row in rows if row[value] is not None and (value == "rs" or row["method"] != "retrained")]
    sets = sorted({(len(forget_of(row)), forget_of(row), forget_name(row)) for row in shown})

    def cell(method: str, forget: str) -> dict[str, Any] | None:
        mine = [row for row in shown if row["method"] == method and forget_name(row) == forget]
        if not mine:
            return None
        score = fmean(row[value] for row in mine)
        shade = style.shade("ramp", score) if value == "rs" else style.shade("diverging", (score + 1) / 2)
        key = _key(mine[0])
        return shade | {"text": number(score) if value == "rs" else signed(score), "key": key if key in keys else None}

    return {
        "title": "RS" if value == "rs" else "ΔRS",
        "sets": [{"name": set_name(one, names), "words": set_words(one, names)} for _, one, _ in sets],
        "lines": [
            {"name": method_name(method), "cells": [cell(method, name) for _, _, name in sets]}
            for method in in_order(row["method"] for row in shown)
        ],
    }


def _diagnostics(bench: Bench, names: Mapping[str, Sequence[str]]) -> list[dict[str, Any]]:
    """Arrange the tables of diagnostics; classes have names where all rows are of one data set."""
    rows, scale = bench.rows, bench.scale
    datasets = {row["dataset"] for row in rows.audits}
    known = names.get(*datasets) if len(datasets) == 1 else None
    made = (
        alignment_table(rows, scale=scale, rule=bench.rule),
        margin_table(rows, scale=scale),
        confidence_table(rows, scale=scale),
    )
    return [named_table(one, known).to_dict() for one in made if one.rows]


def _about(report: BenchReport, names: Names) -> dict[str, Any]:
    shown = [one for one in report.tables if one.label not in ("failures", *DIAGNOSED)]
    failures = [[row["label"], row["kind"], row["message"], str(row["attempts"])] for row in report.rows.failures]
    return {
        "name": report.protocol.name,
        "description": report.protocol.description,
        "missing": report.rows.missing,
        "failures": table("Failed cells", ("What", "Why", "Message", "Attempts"), failures, words=("Why", "Message")),
        "tables": [named_table(one, names).to_dict() for one in shown],
        "settings": list(flat(rounded(msgspec.to_builtins(report.protocol)))),
    }
