"""The figures of the document, from the committed rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reproduction.ablations import SIZES
from reproduction.beside import Reading, class_names, place_name
from reproduction.stored import METHOD_LIST, PUBLISHED, VERDICT, Kept, own, printed
from reproduction.sweeps import sweep_rows
from reproduction.tables_rs import scores
from sfra.attack.scale import KAPPA
from sfra.bench.protocol import load_protocol
from sfra.bench.tables.names import backbone_name
from sfra.report import export
from sfra.report.diagnoses import with_main
from sfra.report.figures_comparison import Sides, comparison_figure
from sfra.report.figures_heatmap import heatmap_figure
from sfra.report.figures_scales import sweep_figure
from sfra.report.figures_sensitivity import sensitivity_figure
from sfra.report.style import Chart


def document_figures(kept: Kept) -> dict[str, Chart]:
    """Draw ours against the paper's, RS over scales, RS of every model, and RS over M and N where these were varied."""
    place = where(kept)
    ours, paper = kept.by_class(*PUBLISHED), printed("sfra", "rs")
    pairs = [
        {"method": method, "class": forget, "ours": value, "paper": paper.get(method, {}).get(forget)}
        for method in METHOD_LIST
        for forget, value in ours.get(method, {}).items()
    ]
    rows = main_rows(kept)
    swept = [
        row for row in rows if row["kappa"] is not None and (row["variant"], row["rule"]) == ("released", "source-free")
    ]
    drawn = {
        "comparison": comparison_figure(pairs, subtitle=f"{place}. Scale native, rule worst-case."),
        "sweep": sweep_figure(swept, canonical=KAPPA, subtitle=f"{place}. Rule source-free."),
        "heatmap": heatmap_figure(rows, "rs", scale=VERDICT[0], rule=VERDICT[1], names=class_names(kept)),
    }
    sized = size_rows(kept)
    if sized:
        drawn["sensitivity"] = sensitivity_figure(sized, scale=VERDICT[0], rule=VERDICT[1])
    return drawn


def beside_figures(kept: Kept, other: Kept) -> dict[str, Chart]:
    """Draw mean RS of a group against another's in two readings, and RS of every model and over scales.

    Each is drawn where there are rows for it.
    """
    readings = {"comparison": PUBLISHED, "comparison-canonical": VERDICT}
    found = {name: pairs for name, reading in readings.items() if (pairs := method_pairs(kept, other, reading))}
    drawn = {
        name: comparison_figure(
            pairs,
            subtitle=f"Scale {readings[name][0]}, rule {readings[name][1]}.",
            sides=named_sides(kept, other),
        )
        for name, pairs in found.items()
    }
    if kept.main(*VERDICT):
        scale, rule = VERDICT
        drawn["heatmap"] = heatmap_figure(main_rows(kept), "rs", scale=scale, rule=rule, names=class_names(kept))
    swept = sweep_rows(kept)
    if swept:
        subtitle = f"{where(kept)}. Rule source-free."
        drawn["sweep"] = sweep_figure(swept, canonical=KAPPA, subtitle=subtitle, names=class_names(kept))
    return drawn


def method_pairs(kept: Kept, other: Kept, reading: Reading) -> list[dict[str, Any]]:
    """Pair the mean RS of every method that both groups have; their classes are not the same."""
    ours, theirs = (scores(one, *reading) for one in (kept, other))
    return [{"method": m, "ours": ours[m], "paper": theirs[m]} for m in ours if m in theirs]


def named_sides(kept: Kept, other: Kept) -> Sides:
    """Name two data sets in a figure that would compare ours with the paper's."""
    here, there = place_name(kept), place_name(other)
    return Sides(
        title=f"Mean RS on {here} beside {there}",
        told=f"Mean RS on {here} against {there}",
        ours=f"On {here} it",
        here=f"RS on {here}",
        there=f"RS on {there}",
    )


def where(kept: Kept) -> str:
    """Name the data set and the backbone of a group."""
    return f"{place_name(kept)}, {backbone_name(load_protocol(kept.group).backbone)}"


def main_rows(kept: Kept) -> list[dict[str, Any]]:
    """Return the main audits of a group's own protocol as figures take them."""
    place = identity(kept)
    return [place | dict(row) for row in own(kept.audits, kept) if row["audit"] == "main"]


def identity(kept: Kept) -> dict[str, str]:
    """Name data set and backbone as rows do."""
    protocol = load_protocol(kept.group)
    return {"dataset": protocol.dataset, "backbone": protocol.backbone}


def size_rows(kept: Kept) -> list[Mapping[str, Any]]:
    """Return the audits that vary M or N, with the main ones of the same models; none where neither was varied."""
    common = identity(kept) | {size.lower(): int(factor.main) for size, factor in SIZES.items()}
    found = [
        {**row, **common} | ({size.lower(): int(row["varied"].partition("=")[2])} if size in SIZES else {})
        for row in kept.audits
        if (size := row["audit"]) in SIZES or (size, row["protocol"]) == ("main", kept.group)
    ]
    return with_main(found) if any(row["audit"] in SIZES for row in found) else []


def description(chart: Any) -> str:
    """Return the text alternative of a figure, which holds its main numbers."""
    return str(chart.to_dict()["description"])


def save_figures(charts: Mapping[str, Chart], folder: Path) -> list[Path]:
    """Write figures as SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    return [export.save(chart, folder / f"{name}.svg") for name, chart in charts.items()]
