"""The part of a benchmark's page that says why audits came out as they did: tables, curves and maps."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from sfra.bench.rows import Rows
from sfra.bench.tables.diagnoses import alignment_table, confidence_table, margin_table
from sfra.bench.tables.names import backbone_name, dataset_name, method_name, place
from sfra.core.errors import InputError
from sfra.report import vega
from sfra.report.classes import named_table, names_of
from sfra.report.diagnoses import diagnosis_figures, with_main
from sfra.report.figures_rows import in_order
from sfra.report.figures_sensitivity import sensitivity_figure
from sfra.report.html import render_part

Row = Mapping[str, Any]
Setting = tuple[str, str]

LABELS = ("alignment", "margin", "confidence")
"""Tables that are shown here, and not once more among all tables."""

METHODS = 3
"""Most methods whose figures are on the page: those with a map first. Files of all are written on demand."""

KEPT = ("space", "kind", "label", "name")
"""What the page keeps of a point, besides its place."""


@dataclass(frozen=True, kw_only=True)
class Part:
    """A part of a page and the figures that its script draws; both are empty where nothing was diagnosed."""

    html: Any = ""
    figures: dict[str, Any] = field(default_factory=dict)


def diagnostics_part(rows: Rows, diagnoses: Sequence[Row], maps: Sequence[Row], *, scale: str, rule: str) -> Part:
    """Arrange the diagnostics of a benchmark at one scale.

    Args:
        rows: All rows of the page's benchmarks.
        diagnoses: What :func:`sfra.report.diagnoses.read_diagnoses` found at that scale.
        maps: What :func:`sfra.report.diagnoses.read_maps` found.
        scale: Scale of the page's figures.
        rule: Selection rule of the page's figures.
    """
    settings = sorted({(row["dataset"], row["backbone"]) for row in rows.audits}, key=lambda pair: place(*pair))
    figures: dict[str, Any] = {}
    places = []
    for i, setting in enumerate(settings):
        groups = _groups(setting, rows, diagnoses, maps, scale, rule)
        named = [(title, [(f"why-{i}-{name}", made) for name, made in charts.items()]) for title, charts in groups]
        figures |= {key: made for _, charts in named for key, made in charts}
        name = f"{dataset_name(setting[0])}, {backbone_name(setting[1])}"
        places.append({"name": name, "groups": [(title, [key for key, _ in charts]) for title, charts in named]})
    names = names_of(rows.originals)
    of_all = names.get(settings[0][0]) if len({dataset for dataset, _ in settings}) == 1 else None
    tables = [named_table(table, of_all).to_dict() for table in _tables(rows, scale, rule) if table.rows]
    if not tables and not figures:
        return Part()
    captions = {key: made["caption"] for key, made in figures.items()}
    several = len(settings) > 1
    html = render_part("diagnostics.html.j2", tables=tables, places=places, captions=captions, several=several)
    return Part(html=html, figures=figures)


def _tables(rows: Rows, scale: str, rule: str) -> list[Any]:
    return [
        alignment_table(rows, scale=scale, rule=rule),
        margin_table(rows, scale=scale),
        confidence_table(rows, scale=scale),
    ]


def _groups(
    setting: Setting, rows: Rows, diagnoses: Sequence[Row], maps: Sequence[Row], scale: str, rule: str
) -> list[tuple[str, dict[str, Any]]]:
    """Draw the figures of one data set and backbone: those of M and N, then method by method, with its first map."""
    audits, found, points = (
        [row for row in part if (row["dataset"], row["backbone"]) == setting] for part in (rows.audits, diagnoses, maps)
    )
    groups = [
        ("M and N", _drawn({"sensitivity": partial(sensitivity_figure, with_main(audits), scale=scale, rule=rule)}))
    ]
    for method in _chosen(found, points):
        mine, maps_of_it = ([row for row in part if row["method"] == method] for part in (found, points))
        calls, _ = diagnosis_figures(mine, [_light(row) for row in maps_of_it[:1]])
        groups.append((method_name(method), _drawn(calls)))
    return [(title, charts) for title, charts in groups if charts]


def _chosen(diagnoses: Sequence[Row], maps: Sequence[Row]) -> list[str]:
    """Choose the methods that are shown: those with maps, filled up with others."""
    mapped, others = (in_order(row["method"] for row in part) for part in (maps, diagnoses))
    return in_order([*mapped, *(name for name in others if name not in mapped)][:METHODS])


def _drawn(calls: Mapping[str, Callable[..., Any]]) -> dict[str, Any]:
    made = {}
    for name, call in calls.items():
        try:
            made[name] = vega.both_themes(call)
        except InputError:
            continue
    return made


def _light(row: Row) -> dict[str, Any]:
    """Round a map to what a screen shows: its axes are tens of units long."""
    points = [{name: p[name] for name in KEPT} | {"x": round(p["x"], 1), "y": round(p["y"], 1)} for p in row["points"]]
    return {**row, "points": points}
