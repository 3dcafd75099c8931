"""Figures as files: SVG, PDF, PNG or a page that stands alone, made on this machine without any connection.

The same chart gives the same bytes, with the same versions of the renderer.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from sfra.auditing.result import read_result
from sfra.bench.engine.store import Store
from sfra.bench.grid import open_store
from sfra.bench.plan import plan
from sfra.bench.protocol import load_protocol
from sfra.bench.rows import Rows, collect, join
from sfra.bench.tables.names import place
from sfra.core.errors import InputError
from sfra.core.files import write_atomically
from sfra.report.classes import names_of
from sfra.report.diagnoses import file_name, read_diagnoses, read_maps
from sfra.report.figures import audit_figures, benchmark_figures
from sfra.report.figures_tradeoff import tradeoff_rows
from sfra.report.style import Chart, Style, altair, vl_convert

FORMATS = ("svg", "pdf", "png", "html")
"""What a figure can be saved as, by the ending of its name."""

PIXELS = 3.0
"""Pixels of a PNG per unit of the figure: about 290 dots per inch at the intended size."""


NOT_DRAWN = re.compile("[\\x00-\\x08\\x0b\\x0c\\x0e-\\x1f\\x7f-\\x9f\\ud800-\\udfff\\ue0f1\\ufffe\\uffff]")
"""Characters that no picture can hold, and the mark below; a single one would end the renderer, and us with it."""

LESS = "\ue0f1"
"""Stands for ``<`` on the way into a page, where it could close the script that it is in."""


@dataclass(frozen=True, kw_only=True)
class Exported:
    """What was written, and what could not be drawn."""

    written: list[Path] = field(default_factory=list)
    left_out: dict[str, str] = field(default_factory=dict)
    """Reason by figure."""


def save(chart: Chart, path: str | Path) -> Path:
    """Write a figure, in the format that the name of the file ends with, whole or not at all."""
    target = Path(path)
    write_atomically(target, render(chart, _checked(target.suffix.removeprefix("."))))
    return target


def render(chart: Chart, format: str) -> bytes:
    """Return a figure as the bytes of a file."""
    spec, convert = _with_texts(chart.to_dict(), _drawable), vl_convert()
    version = {"vl_version": "v" + ".".join(altair().SCHEMA_VERSION.lstrip("v").split(".")[:2])}
    offline: dict[str, Any] = {**version, "allowed_base_urls": []}
    _checked(format)
    if format == "svg":
        return described(convert.vegalite_to_svg(spec, **offline), spec["description"]).encode()
    if format == "pdf":
        return ordered(bytes(convert.vegalite_to_pdf(spec, **offline)))
    if format == "png":
        return bytes(convert.vegalite_to_png(spec, scale=PIXELS, **offline))
    marked = _with_texts(spec, lambda text: text.replace("<", LESS))
    return str(convert.vegalite_to_html(marked, bundle=True, **version)).replace(LESS, "\\u003c").encode()


def _with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Change every text of a specification, names of columns too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {_with_texts(name, change): _with_texts(one, change) for name, one in value.items()}
    return [_with_texts(one, change) for one in value] if isinstance(value, list) else value


def _drawable(text: str) -> str:
    return NOT_DRAWN.sub("\N{REPLACEMENT CHARACTER}", text)


def described(svg: str, description: str) -> str:
    """Give the root of an SVG its text alternative, for those who do not see it.

    >>> print(described('<svg width="1"></svg>', "A <b>"))
    <svg role="img" aria-label="A &lt;b&gt;" width="1"></svg>
    """
    start, end = svg.index("<svg"), svg.index(">", svg.index("<svg"))
    root = re.sub(r'\s(?:role|aria-label)="[^"]*"', "", svg[start:end])
    return svg[:start] + f'<svg role="img" aria-label="{escape(description)}"' + root.removeprefix("<svg") + svg[end:]


def ordered(pdf: bytes) -> bytes:
    """Sort the lists of resources of a PDF, which the renderer writes in an order that changes from run to run.

    No offset moves, since each list keeps its length.
    """
    return re.sub(
        rb"(?:^ +/[A-Za-z]+\d+ \d+ 0 R\n){2,}",
        lambda found: b"".join(sorted(found[0].splitlines(keepends=True))),
        pdf,
        flags=re.MULTILINE,
    )


def export_bench(
    protocols: Sequence[str | Path],
    store: str | Path,
    folder: str | Path,
    format: str = "svg",
    *,
    scale: str = "canonical",
    rule: str = "source-free",
    style: Style | None = None,
) -> Exported:
    """Write every figure of a benchmark, or of several that share a store and are drawn as one."""
    opened = open_store(store)
    rows = join([collect(plan(load_protocol(protocol)), opened) for protocol in protocols])
    return export_all(
        rows,
        folder,
        format,
        scale=scale,
        rule=rule,
        style=style,
        trajectories=read_trajectories(rows, opened, scale=scale),
        diagnoses=read_diagnoses(rows, opened, scale=scale),
        maps=read_maps(rows, opened),
    )


def export_all(
    rows: Rows,
    folder: str | Path,
    format: str = "svg",
    *,
    scale: str = "canonical",
    rule: str = "source-free",
    style: Style | None = None,
    trajectories: Sequence[Mapping[str, Any]] = (),
    diagnoses: Sequence[Mapping[str, Any]] = (),
    maps: Sequence[Mapping[str, Any]] = (),
) -> Exported:
    """Write every figure of a benchmark, one set for each data set and backbone.

    Args:
        rows: What the store holds, as :func:`sfra.bench.rows.collect` reads it.
        folder: Where files named ``DATASET-BACKBONE-FIGURE.FORMAT`` go.
        format: One of ``FORMATS``.
        scale: Scale of the audits.
        rule: Selection rule.
        style: Theme and size.
        trajectories: What :func:`read_trajectories` found, for the trade-off.
        diagnoses: What :func:`read_diagnoses` found, for the two figures of the margin.
        maps: What :func:`read_maps` found.

    Raises:
        InputError: There are no audits at all, or the format is unknown.
    """
    _checked(format)
    out, classes = Exported(), names_of(rows.originals)
    settings = sorted({(row["dataset"], row["backbone"]) for row in rows.audits}, key=lambda pair: place(*pair))
    if not settings:
        raise InputError(
            "there is nothing to draw: no audit is done", got=f"{rows.missing} missing", do="run the benchmark first"
        )
    for setting in settings:
        audits, curves, found, points = (
            [row for row in part if (row.get("dataset"), row.get("backbone")) == setting]
            for part in (rows.audits, trajectories, diagnoses, maps)
        )
        drawn, left_out = benchmark_figures(
            audits,
            trajectories=curves,
            diagnoses=found,
            maps=points,
            scale=scale,
            rule=rule,
            names=classes.get(setting[0]),
            style=style,
        )
        prefix = "-".join(setting)
        out.left_out.update({f"{prefix}-{name}": reason for name, reason in left_out.items()})
        names = {name: Path(folder) / file_name(f"{prefix}-{name}.{format}") for name in drawn}
        out.written.extend(save(chart, names[name]) for name, chart in drawn.items())
    return out


def export_audit(
    report: Mapping[str, Any], folder: str | Path, format: str = "svg", *, style: Style | None = None
) -> Exported:
    """Write every figure of one audit, from the content of its ``audit.json``, as ``FIGURE.FORMAT``."""
    drawn, left_out = audit_figures(report, style=style)
    written = [save(chart, Path(folder) / f"{name}.{_checked(format)}") for name, chart in drawn.items()]
    return Exported(written=written, left_out=left_out)


def read_trajectories(rows: Rows, store: Store, *, scale: str = "canonical") -> list[dict[str, Any]]:
    """Read the trajectories of the main audits of single forget classes from their files, for the trade-off."""
    cells = {
        row["cell"]: row
        for row in rows.audits
        if (row.get("audit", "main"), row["scale"], row["variant"]) == ("main", scale, "released")
        and len(row["forget_classes"]) == 1
    }
    found = []
    for key, row in cells.items():
        report = read_result(store.folder(key) / "audit.json").to_dict()
        identity = {name: row[name] for name in ("dataset", "backbone", "cell")}
        made = tradeoff_rows(report, method=row["method"], scale=scale, variant="released")
        found += [identity | point for point in made]
    return found


def _checked(format: str) -> str:
    if format not in FORMATS:
        raise InputError("a figure cannot be saved so", expected=", ".join(FORMATS), got=format or "no ending")
    return format
