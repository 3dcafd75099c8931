"""The page of a benchmark: leaderboard, maps, figures and every audit in detail, from its store alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import msgspec

from sfra.attack.scale import KAPPA
from sfra.bench.grid import open_store
from sfra.bench.report import READINGS, BenchReport, make_report
from sfra.bench.rows import Rows, join
from sfra.bench.tables.names import forget_of, method_name, method_rank
from sfra.core.errors import InputError
from sfra.report import vega
from sfra.report.classes import Names, named_table, names_of, with_names
from sfra.report.diagnoses import read_diagnoses, read_maps
from sfra.report.export import export_bench as export_bench
from sfra.report.figures import swept
from sfra.report.figures_accuracy import accuracy_figure
from sfra.report.figures_scales import sweep_figure
from sfra.report.figures_scatter import scatter_figure
from sfra.report.figures_tradeoff import tradeoff_figure, tradeoff_rows
from sfra.report.figures_violin import violin_figure
from sfra.report.page import Audit, checked_view, codes_of, data_of, first_alike, make_page, read_audit
from sfra.report.page_audit import flat
from sfra.report.page_board import board_data, place_name
from sfra.report.page_diagnostics import LABELS, diagnostics_part
from sfra.report.page_map import heat_css, heat_map
from sfra.report.page_text import BADGES, titled

Row = Mapping[str, Any]

FIGURES = {"violin": violin_figure, "scatter": scatter_figure, "accuracy": accuracy_figure}
TITLES = {
    "violin": "RS over the forget sets, method by method",
    "scatter": "RS against ΔRS",
    "accuracy": "Forget accuracy before and after the audit",
    "tradeoff": "RS against the loss of retain accuracy",
    "sweep": "RS over the scales of the head, beside the references",
}


def bench_page(protocols: Sequence[str | Path], store: str | Path, *, date: str) -> str:
    """Make the page of a benchmark, or of several that share a store.

    Args:
        protocols: Names, or ``.toml`` files.
        store: Folder with the results; it is only read.
        date: What the page gives as its date.

    Raises:
        InputError: The store holds no audit of these protocols.
    """
    reports = [make_report(protocol, store) for protocol in protocols]
    cells = dict.fromkeys(row["cell"] for report in reports for row in main_rows(report.rows.audits))
    if not cells:
        raise InputError(
            "there is nothing to report: no audit of this benchmark is done",
            expected="a store with results",
            got=store,
            do=f"sfra bench run {protocols[0]} --store {store}",
        )
    opened, rows = open_store(store), join([report.rows for report in reports])
    scale, _ = default_reading(main_rows(rows.audits))
    return page_of_reports(
        reports,
        {key: read_audit(opened.folder(key)) for key in cells},
        date=date,
        diagnoses=read_diagnoses(rows, opened, scale=scale),
        embeddings=read_maps(rows, opened),
    )


def page_of_reports(
    reports: Sequence[BenchReport],
    audits: Mapping[str, Audit],
    *,
    date: str,
    diagnoses: Sequence[Row] = (),
    embeddings: Sequence[Row] = (),
) -> str:
    """Make the page of benchmarks from their rows and, by cell, the content of their ``audit.json`` files.

    Args:
        reports: Benchmarks; what they have in common is shown once.
        audits: Content of each audit, by cell.
        date: What the page gives as its date.
        diagnoses: What :func:`sfra.report.diagnoses.read_diagnoses` found.
        embeddings: What :func:`sfra.report.diagnoses.read_maps` found.
    """
    joined = join([report.rows for report in reports])
    rows = main_rows(joined.audits)
    names = _names(joined, audits)
    audits = {row["cell"]: with_names(audits[row["cell"]], names.get(row["dataset"])) for row in rows}
    places = sorted({(row["dataset"], row["backbone"]) for row in rows})
    several = len(places) > 1
    shown = _one_per_cell(rows)
    first = first_alike([audits[row["cell"]] for row in shown])
    views = [
        _view(row, audits[row["cell"]], like=shown[i], several=several) for row, i in zip(shown, first, strict=True)
    ]
    scale, rule = default_reading(rows)
    drawn = [_figures(_of(rows, place), audits, scale, rule, names.get(place[0])) for place in places]
    why = diagnostics_part(joined, diagnoses, embeddings, scale=scale, rule=rule)
    figures = {f"{i}-{name}": figure for i, made in enumerate(drawn) for name, figure in made.items()} | why.figures
    return make_page(
        "bench.html.j2",
        title=titled([report.protocol.name for report in reports]),
        verdicts=BADGES,
        date=date,
        codes=codes_of(views),
        data={
            **data_of(views),
            "figures": {key: {name: figure[name] for name in ("spec", "dark")} for key, figure in figures.items()},
            **board_data(rows, scale, rule, several=several, names=names),
        },
        reports=[_about(report, names.get(report.protocol.dataset)) for report in reports],
        views=views,
        several=several,
        reading=f"{scale} scale, {rule} rule",
        maps=[_maps(_of(rows, place), views, scale, rule, names.get(place[0])) for place in places],
        places=[
            {
                "name": place_name(*place),
                "figures": [(_title(name, _of(rows, place)), f"{i}-{name}") for name in TITLES if name in drawn[i]],
            }
            for i, place in enumerate(places)
        ],
        captions={key: figure["caption"] for key, figure in figures.items()},
        diagnostics=why.html,
        heat_css=heat_css(),
    )


def _title(name: str, rows: Sequence[Row]) -> str:
    """Title a figure; one that leaves out forget sets of several classes says so."""
    only_some = name == "violin" and len({len(forget_of(row)) == 1 for row in rows}) > 1
    return TITLES[name].replace("forget sets", "single forget classes") if only_some else TITLES[name]


def _names(rows: Rows, audits: Mapping[str, Audit]) -> dict[str, list[str]]:
    """Find the class names of every data set: what its originals say, else what an audit says."""
    audited = [{**row, "class_names": audits[row["cell"]].get("class_names")} for row in main_rows(rows.audits)]
    return names_of([*rows.originals, *audited])


def main_rows(audits: Sequence[Row]) -> list[Row]:
    """Keep what the leaderboard is made of: no ablations, and the forget row as released, or as restored."""
    return [row for row in audits if row.get("audit", "main") == "main" and row["variant"] != "reset-row"]


def default_reading(audits: Sequence[Row]) -> tuple[str, str]:
    """Choose the reading that the page opens with: that of verdicts, if the audits have it."""
    known = {(row["scale"], row["rule"]) for row in audits}
    return next((reading for reading in READINGS if reading in known), min(known))


def _one_per_cell(audits: Sequence[Row]) -> list[Row]:
    """Keep one row of each audit, in the order of the tables."""
    once = {row["cell"]: row for row in reversed(audits)}

    def rank(row: Row) -> tuple[Any, ...]:
        forget = forget_of(row)
        return row["dataset"], row["backbone"], method_rank(row["method"]), len(forget), forget, row["seed"]

    return sorted(once.values(), key=rank)


def _view(row: Row, audit: Audit, *, like: Row, several: bool) -> dict[str, Any]:
    place = f", {place_name(row['dataset'], row['backbone'])}" if several else ""
    seed = f", seed {row['seed']}" if row["seed"] else ""
    reference = row["method"] == "retrained"
    itself = " (the reference itself)" if reference else ""
    label = f"{method_name(row['method'])}{itself}{place}{seed}"
    return checked_view(audit, key=_key(row), like=_key(like), label=label, reference=reference)


def _key(row: Row) -> str:
    return f"audit-{row['cell'][:12]}"


def _of(audits: Sequence[Row], place: tuple[str, str]) -> list[Row]:
    return [row for row in audits if (row["dataset"], row["backbone"]) == place]


def _figures(rows: Sequence[Row], audits: Mapping[str, Audit], scale: str, rule: str, names: Names) -> dict[str, Any]:
    """Draw the figures of one data set and backbone; one that these audits are not enough for is left out."""
    place = place_name(rows[0]["dataset"], rows[0]["backbone"])
    curves = [
        point
        for row in _one_per_cell(rows)
        if len(forget_of(row)) == 1
        for point in tradeoff_rows(audits[row["cell"]], method=row["method"], scale=scale, variant=row["variant"])
    ]
    draw = {name: partial(figure, rows, scale=scale, rule=rule, names=names) for name, figure in FIGURES.items()}
    draw["tradeoff"] = partial(tradeoff_figure, curves, subtitle=f"{place}. Scale {scale}.")
    over_scales = swept(rows, rule)
    if over_scales:
        subtitle = f"{place}. Rule {rule}."
        draw["sweep"] = partial(sweep_figure, over_scales, canonical=KAPPA, subtitle=subtitle, names=names)
    made = {}
    for name, figure in draw.items():
        try:
            made[name] = vega.both_themes(figure)
        except InputError:
            continue
    return made


def _maps(
    audits: Sequence[Row], views: Sequence[Mapping[str, Any]], scale: str, rule: str, names: Names
) -> dict[str, Any]:
    """Arrange RS and ΔRS as tables of methods by forget sets, each cell a link to its audit."""
    rows = [row for row in audits if (row["scale"], row["rule"]) == (scale, rule)]
    keys = {view["key"] for view in views}
    return {
        "name": place_name(audits[0]["dataset"], audits[0]["backbone"]),
        "maps": [heat_map(rows, value, keys, names) for value in ("rs", "delta_rs")],
    }


def _about(report: BenchReport, names: Names) -> dict[str, Any]:
    shown = [table for table in report.tables if table.label not in ("failures", *LABELS)]
    return {
        "name": report.protocol.name,
        "description": report.protocol.description,
        "missing": report.rows.missing,
        "failures": [dict(row) for row in report.rows.failures],
        "tables": [named_table(table, names).to_dict() for table in shown],
        "settings": list(flat(vega.rounded(msgspec.to_builtins(report.protocol)))),
    }
