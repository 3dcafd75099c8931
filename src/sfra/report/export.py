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

from sfra.auditing.result import AuditResult
from sfra.core.errors import InputError
from sfra.core.files import write_atomically
from sfra.report.figures import Chart, Planned, Style, draw_all, plan_audit, plan_audits, plan_setting
from sfra.report.figures.style import LIGHT, altair, vl_convert
from sfra.report.sources import Bench, reading

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
    write_atomically(target, render(chart, target.suffix.removeprefix(".")))
    return target


def render(chart: Chart, format: str) -> bytes:
    """Return a figure as the bytes of a file."""
    if format not in FORMATS:
        raise InputError(f"cannot save a figure as .{format}", expected=", ".join(FORMATS), got=format or "no ending")
    spec, convert = with_texts(chart.to_dict(), drawable), vl_convert()
    version = {"vl_version": "v" + ".".join(altair().SCHEMA_VERSION.lstrip("v").split(".")[:2])}
    offline: dict[str, Any] = {**version, "allowed_base_urls": []}
    if format == "svg":
        return described(convert.vegalite_to_svg(spec, **offline), spec["description"]).encode()
    if format == "pdf":
        return ordered(bytes(convert.vegalite_to_pdf(spec, **offline)))
    if format == "png":
        return bytes(convert.vegalite_to_png(spec, scale=PIXELS, **offline))
    marked = with_texts(spec, lambda text: text.replace("<", LESS))
    return str(convert.vegalite_to_html(marked, bundle=True, **version)).replace(LESS, "\\u003c").encode()


def with_texts(value: Any, change: Callable[[str], str]) -> Any:
    """Change every text of a specification, names of columns too."""
    if isinstance(value, str):
        return change(value)
    if isinstance(value, dict):
        return {with_texts(name, change): with_texts(one, change) for name, one in value.items()}
    return [with_texts(one, change) for one in value] if isinstance(value, list) else value


def drawable(text: str) -> str:
    """Replace what no picture can hold."""
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


def export_bench(bench: Bench, folder: str | Path, format: str = "svg", *, style: Style = LIGHT) -> Exported:
    """Write every figure of a benchmark, one set for each data set and backbone.

    Args:
        bench: What :func:`sfra.report.sources.read_bench` returns.
        folder: Where files named ``DATASET-BACKBONE-FIGURE.FORMAT`` go.
        format: One of ``FORMATS``.
        style: Theme and size.
    """
    out = Exported()
    for pair, setting in bench.settings().items():
        _export(plan_setting(setting), Path(folder), format, style, out, prefix=f"{'-'.join(pair)}-")
    return out


def export_audits(
    audits: Sequence[tuple[str, AuditResult]], folder: Path, format: str = "svg", *, style: Style = LIGHT
) -> Exported:
    """Write every figure of audits as ``FIGURE.FORMAT``; of several audits, each into a folder of its name."""
    out = Exported()
    if len(audits) > 1:
        _export(plan_audits(audits), folder, format, style, out)
    for name, audit in audits:
        with reading(name):
            place = folder if len(audits) == 1 else folder / name
            _export(plan_audit(audit), place, format, style, out, told=f"{name}: ")
    return out


def _export(
    planned: Mapping[str, Planned],
    folder: Path,
    format: str,
    style: Style,
    out: Exported,
    *,
    prefix: str = "",
    told: str = "",
) -> None:
    drawn = draw_all(planned, style=style)
    files = {name: folder / file_name(f"{prefix}{name}.{format}") for name in drawn.charts}
    out.written.extend(save(chart, files[name]) for name, chart in drawn.charts.items())
    out.left_out.update({f"{told}{prefix}{name}": reason for name, reason in drawn.left_out.items()})


def file_name(name: str) -> str:
    """Write the name of a figure so that it can be a file: a method of one's own has a colon in its name.

    >>> file_name("alpha-my_package.method:Mine")
    'alpha-my_package.method-Mine'
    """
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", name)
