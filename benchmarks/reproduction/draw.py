"""The figures of the document, from the committed rows."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from reproduction.stored import METHOD_LIST, Kept, printed
from reproduction.tables_rs import PUBLISHED, VERDICT
from sfra.bench.protocol import load_protocol
from sfra.report import export
from sfra.report.figures_comparison import comparison_figure
from sfra.report.figures_heatmap import heatmap_figure
from sfra.report.figures_scales import sweep_figure
from sfra.report.style import Chart
from sfra.scale import KAPPA
from sfra.tables.names import backbone_name, dataset_name


def document_figures(kept: Kept) -> dict[str, Chart]:
    """Draw ours against the paper's, RS over scales, and RS of every model."""
    protocol = load_protocol(kept.group)
    place = f"{dataset_name(protocol.dataset)}, {backbone_name(protocol.backbone)}"
    identity = {"dataset": protocol.dataset, "backbone": protocol.backbone}
    ours, paper = kept.by_class(*PUBLISHED), printed("sfra", "rs")
    pairs = [
        {"method": method, "class": forget, "ours": value, "paper": paper.get(method, {}).get(forget)}
        for method in METHOD_LIST
        for forget, value in ours.get(method, {}).items()
    ]
    rows = [identity | dict(row) for row in kept.audits if row["protocol"] == kept.group and row["audit"] == "main"]
    swept = [
        row for row in rows if row["kappa"] is not None and (row["variant"], row["rule"]) == ("released", "source-free")
    ]
    return {
        "comparison": comparison_figure(pairs, subtitle=f"{place}. Scale native, rule worst-case."),
        "sweep": sweep_figure(swept, canonical=KAPPA, subtitle=f"{place}. Rule source-free."),
        "heatmap": heatmap_figure(rows, "rs", scale=VERDICT[0], rule=VERDICT[1]),
    }


def description(chart: Any) -> str:
    """Return the text alternative of a figure, which holds its main numbers."""
    return str(chart.to_dict()["description"])


def save_figures(charts: Mapping[str, Chart], folder: Path) -> list[Path]:
    """Write figures as SVG."""
    folder.mkdir(parents=True, exist_ok=True)
    return [export.save(chart, folder / f"{name}.svg") for name, chart in charts.items()]
