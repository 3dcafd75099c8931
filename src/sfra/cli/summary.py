"""The summary of an audit on the terminal, for a reader who must not misread it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from rich.console import Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sfra.auditing.result import AuditReport
from sfra.cli.tables import accuracy_table, findings_table, number, plain, results_table, signed, sweep_table
from sfra.core.errors import counted

COLOURS = {
    "recovered": "bold red",
    "recovered-after-reset": "bold red",
    "generic": "bold cyan",
    "not-recovered": "bold cyan",
}
"""Colours of the verdicts; all others are yellow: something is missing before a conclusion can be drawn."""

RULES = {"source-free": "last epoch", "validation": "best on validation data", "worst-case": "best on test data"}

VARIANTS = {"released": "", "reset-row": ", forget row re-initialised", "restored-row": ", forget row restored"}


def summary(report: AuditReport, out: Path | None) -> Group:
    """Lay out a report: what was tested, the verdict, the numbers behind it, what to keep in mind."""
    parts = [_subject(report), *_verdict(report)]
    if report.rs is not None:
        parts += [
            _indent(accuracy_table(report.retain, report.forget, len(report.forget_classes))),
            _indent(_scores(report)),
            *_readings(report),
        ]
    return Group(*parts, *_findings(report), _end(report, out))


def _subject(report: AuditReport) -> RenderableType:
    """Say what was tested."""
    model, data, reference = report.model, report.data, report.reference
    gone = "class" if len(report.forget_classes) == 1 else "classes"
    lost = f", no output for the forgotten {gone}" if model["forget_row"] == "missing" else ""
    settings = report.settings
    features = counted(model["width"], "feature", "features")
    epochs, seeds = counted(settings["epochs"], "epoch", "epochs"), counted(settings["seeds"], "seed", "seeds")
    rows = {
        "Model": f"{plain(model['source'])} ({model['outputs']} outputs, {features}{lost})",
        "Forgotten": _classes(report),
        "Data": f"{plain(data['source'])} ({counted(data['samples'], 'sample', 'samples')})"
        if data
        else "none: nothing is measured",
        "Reference": plain(reference["source"]) if reference else "none: there is nothing to compare with",
        "Audit": f"N = {settings['n']:,}, M = {settings['m']:,} probes per class, {epochs}, {seeds}",
    }
    grid = _grid()
    for name, text in rows.items():
        grid.add_row(name, Text(text, overflow="fold"))
    return Group(Text("Source-free relearning audit", style="bold underline"), Text(), _indent(grid))


def _verdict(report: AuditReport) -> Iterator[RenderableType]:
    """Say what it amounts to, in words, and where another reading of the same audit says otherwise."""
    colour = COLOURS.get(report.verdict, "bold yellow")
    yield Text.assemble(("Verdict: ", "bold"), (report.verdict, colour))
    others = [row for row in report.results if row["rule"] == report.rule and row["verdict"] != report.verdict]
    lines = [_otherwise(row, report) for row in others if _is_main(row, report)]
    also = ["Other readings of the same audit:", *lines] if lines else []
    yield _indent(Text("\n".join([report.statement, *also])))


def _otherwise(row: dict[str, Any], report: AuditReport) -> str:
    """Say what a reading that differs from the verdict says."""
    where = f"at {row['scale']} scale"
    if row["variant"] == "reset-row":
        where = "with a fresh forget row"
    elif row["scale"] == report.scale:
        where = "as released, the numbers below"
    scores = f"RS {number(row['rs'])}" + (f", ΔRS {signed(row['delta_rs'])}" if report.reference else "")
    return f"- {where}: {row['verdict']} ({scores})"


def _scores(report: AuditReport) -> Table:
    """Explain RS, its floor and ΔRS, each beside its value."""
    assert report.rs_interval is not None
    grid = _grid()
    low, high = report.rs_interval
    spread = (
        f"± {report.rs_std:.3f} over {counted(report.settings['seeds'], 'seed', 'seeds')}, "
        if report.rs_std is not None
        else ""
    )
    setting = f"{report.scale} scale, {report.rule} rule ({RULES[report.rule]}){VARIANTS[report.variant]}"
    budgets = " / ".join(f"{100 * float(epsilon):g}" for epsilon in report.rs_at)
    kept = " / ".join(number(score) for score in report.rs_at.values())
    grid.add_row("RS", number(report.rs), "0: nothing comes back; 1: all of it, at no cost to the rest")
    grid.add_row("", "", f"{spread}95 % interval {low:.3f} to {high:.3f}")
    grid.add_row("", "", setting)
    grid.add_row("floor", number(report.floor), "scored by a head that always answers the forgotten class")
    grid.add_row("ΔRS", signed(report.delta_rs), _comparison(report))
    grid.add_row("RS@ε", "", f"{kept}: best RS while the other classes lose at most {budgets} points")
    return grid


def _comparison(report: AuditReport) -> str:
    if report.delta_rs is None:
        return "not measured: without a reference, RS alone is not evidence of memory (pass --reference)"
    low, high = report.delta_rs_interval or (report.delta_rs, report.delta_rs)
    rest = f"RS minus {number(report.reference_rs)}, that of the reference in the same audit"
    return f"{rest}\n95 % interval {signed(low)} to {signed(high)}"


def _readings(report: AuditReport) -> Iterator[RenderableType]:
    """Show the same audit at other scales, by other rules and with a fresh forget row; then the sweep."""
    yield Text("All readings (* the numbers above)", style="bold")
    shown = [row for row in report.results if _is_main(row, report)]
    yield _indent(results_table(shown, (report.scale, report.variant, report.rule)))
    if report.sweep is not None:
        yield Text(f"Over scales ({report.rule} rule)", style="bold")
        yield Padding(sweep_table(report.sweep["points"]), (0, 0, 0, 2))
        yield _indent(Text(_curve(report.sweep)))


def _is_main(row: dict[str, Any], report: AuditReport) -> bool:
    """Say whether a reading is one of those that every audit has, rather than a point of the sweep."""
    return row["scale"] in ("native", "canonical", report.scale)


def _curve(sweep: dict[str, Any]) -> str:
    """Sum up the curve over the scales."""
    if sweep["area"] is None:
        return f"Highest RS {number(sweep['best_rs'])}. Without a reference a curve says little."
    return (
        f"Area between the model's and the reference's curve: {signed(sweep['area'])} (0: relearns like the reference; "
        f"at most ±0.5). Highest RS while the reference stays at or below {sweep['level']:.2f}: "
        f"{number(sweep['rs_at_reference'])}."
    )


def _findings(report: AuditReport) -> Iterator[RenderableType]:
    if report.findings:
        yield Text("Findings, gravest first (docs/flags.md explains each code)", style="bold")
        yield _indent(findings_table(report.findings))


def _end(report: AuditReport, out: Path | None) -> Text:
    """Say where the files are and how long it took."""
    took = f"Took {report.seconds:.1f} s. "
    if out is None:
        return Text(took + "Nothing was written: pass --out DIR to keep the result and the relearned head.")
    return Text(took + f"Written to {plain(out)}: audit.json, relearned_head.safetensors.", overflow="fold")


def _classes(report: AuditReport) -> str:
    """Name the forget classes, by index and, where it is known and says more, by name."""
    names = report.class_names or ()
    described = []
    for index in report.forget_classes:
        name = plain(names[index]) if index < len(names) else str(index)
        described.append(str(index) if name == str(index) else f"{index} ({name})")
    return ("class " if len(described) == 1 else "classes ") + ", ".join(described)


def _grid() -> Table:
    """Make a table of labels, numbers and explanations; only the last column wraps."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="bold")
    return grid


def _indent(content: RenderableType) -> Padding:
    """Set a part off by two columns, with an empty line below."""
    return Padding(content, (0, 0, 1, 2))
