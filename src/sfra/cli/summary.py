"""What an audit and the demonstration print: verdict, numbers, findings; readable at 80 columns and without colour."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from io import StringIO
from pathlib import Path
from typing import Any, Literal

from rich.console import Console, ConsoleOptions, Group, RenderableType
from rich.padding import Padding
from rich.table import Table
from rich.text import Text

from sfra.auditing.findings.registry import critical
from sfra.auditing.result import AuditReport, AuditResult, Finding, ReleaseFacts, Score, Sweep, SweepPoint
from sfra.auditing.rules import RULES
from sfra.auditing.verdict import REMEDY
from sfra.auditing.verdicts import VERDICTS
from sfra.cli.command import WIDEST
from sfra.cli.made import class_label
from sfra.core.errors import counted, printable

SEVERITIES = {"critical": "bold red", "warning": "yellow", "info": "bold cyan"}
"""Colours of severities. The words say the same."""

LEAST_COLUMNS = 4
"""Columns of a table that are shown however narrow a terminal is."""

BY_CONTROLS = ("like-hidden", "blind")
"""Verdicts that controls make of what every reading says."""

VARIANTS = {"released": "", "reset-row": ", forget row re-initialised", "restored-row": ", forget row restored"}


def summary(report: AuditReport, out: Path | None) -> Group:
    """Lay out a report, and say where it was written to."""
    kept = "Nothing was written: pass --out DIR to keep the result and the relearned head."
    if out is not None:
        kept = f"Written to {plain(out)}: audit.json, relearned_head.safetensors."
    return Group(*_parts(report), Text(f"Took {report.seconds:.1f} s. {kept}", overflow="fold"))


def text(report: AuditResult) -> str:
    """Write a report as text without colours."""
    looks: dict[str, Any] = {"color_system": None, "highlight": False, "markup": False, "emoji": False}
    console = Console(file=StringIO(), width=WIDEST, force_jupyter=False, **looks)
    with console.capture() as captured:
        console.print(Group(*_parts(report)))
    return "\n".join(line.rstrip() for line in captured.get().strip().split("\n"))


def _parts(report: AuditResult) -> list[RenderableType]:
    """Return what was tested, the verdict, the numbers behind it, what to keep in mind."""
    unusable = report.verdict == "unusable"
    parts = [*_verdict(report), *_subject(report)] if unusable else [*_subject(report), *_verdict(report)]
    if report.rs is not None and not unusable:
        parts += [*_classes(report), _indent(_accuracies(report))]
    if report.scored:
        parts += [_indent(_scores(report)), *_controls(report), *_readings(report)]
    listed = critical(report.findings)[1:] if unusable else report.findings  # the verdict names the first
    if listed:
        parts += [_title("Findings, gravest first (sfra explain CODE says more)"), _indent(_findings(listed))]
    return parts


def demo_table(rows: Sequence[Mapping[str, Any]]) -> Table:
    """Show the models of the demonstration side by side."""
    accuracies = ("retain_before", "retain_after", "forget_before", "forget_after")
    pairs = ("retain\nbefore", "\nafter", "forget\nbefore", "\nafter")
    table = _table("\nModel", *pairs, "\nRS", "\nΔRS", "\nVerdict", left=1)
    table.columns[-1].justify = "left"
    for row in rows:
        shares = (_percent(row[name]).removesuffix(" %") for name in accuracies)
        scores = _number(row["rs"]), _signed(row["delta_rs"])
        table.add_row(plain(row["model"]), *shares, *scores, plain(row["verdict"]))
    return table


def plain(text: object) -> str:
    """Make text that came out of a file safe to print: one line, no control characters.

    >>> plain("cat" + chr(27) + "[2J")
    'cat?[2J'
    """
    return printable(" ".join(str(text).split()))


def _subject(report: AuditResult) -> Iterator[RenderableType]:
    """Say what was tested."""
    model, data, settings = report.model, report.data, report.settings
    several = len(report.forget_classes) > 1
    gone = "classes" if several else "class"
    lost = f", no output for the forgotten {gone}" if model.forget_row == "missing" else ""
    features = counted(model.width, "feature", "features")
    epochs, seeds = counted(settings["epochs"], "epoch", "epochs"), counted(settings["seeds"], "seed", "seeds")
    classes = [class_label(label, report.class_names) for label in report.forget_classes]
    numbering = f", labels by {plain(data.numbering)}" if data and data.numbering else ""
    samples = f"{plain(data.source)}: {counted(data.samples, 'sample', 'samples')}{numbering}" if data else None
    rows = {
        "Model": f"{plain(model.source)}: {model.outputs} outputs, {features}{lost}",
        "Forgotten": f"{gone} {', '.join(classes)}",
        "Data": samples or "none: nothing is measured",
        **({} if model.preprocess is None else {"Images": plain(model.preprocess)}),
        "Reference": "; ".join(_beside(one, report) for one in report.references)
        or "none: there is nothing to compare with",
        "Audit": f"N = {settings['n']:,}, M = {settings['m']:,} probes per class, {epochs}, {seeds}",
    }
    grid = _grid()
    for name, text in rows.items():
        grid.add_row(name, Text(text, overflow="fold"))
    yield from (Text("Source-free relearning audit", style="bold underline"), Text(), _indent(grid))


def _beside(reference: ReleaseFacts, report: AuditResult) -> str:
    """Name a reference, and how its images were prepared if otherwise than the model's."""
    own = reference.preprocess
    other = "" if own in (None, report.model.preprocess) else f" (images {plain(own)})"
    return f"{plain(reference.source)}{other}"


def _verdict(report: AuditResult) -> Iterator[RenderableType]:
    """Say what it amounts to, in words, and where another reading of the same audit says otherwise."""
    yield Text.assemble(("Verdict: ", "bold"), (report.verdict, VERDICTS[report.verdict].look.terminal))
    same = {report.verdict}
    if report.verdict in BY_CONTROLS and report.results:
        same.add(report.results[0].verdict)
    lines = []
    for row in report.results if report.scored else ():
        if row.rule != report.rule or row.verdict in same or not _is_main(row, report):
            continue
        where = "as released, the numbers below" if row.scale == report.scale else f"at {row.scale} scale"
        where = "with a fresh forget row" if row.variant == "reset-row" else where
        delta = f", ΔRS {_signed(row.delta_rs)}" if report.references else ""
        lines.append(f"- {where}: {row.verdict} (RS {_number(row.rs)}{delta})")
    also = ["Other readings of the same audit:", *lines] if lines else []
    said = report.statement.replace(REMEDY, f"\n{REMEDY.lstrip()}")
    yield _indent(Text("\n".join([said, *also])))


def _classes(report: AuditResult) -> Iterator[RenderableType]:
    """Show each of several forgotten classes for itself."""
    if not report.classes:
        return
    table = _table("Class", "Verdict", "before", "after", "RS", "ΔRS")
    for one in report.classes:
        style = VERDICTS[one.verdict].look.terminal
        shown = ("-", "-", "-", "-")
        if one.scores:
            score = one.scores[0]
            shown = (
                _percent(score.forget_before),
                _percent(score.forget_after),
                *(("-", "-") if one.verdict == "not-unlearned" else (_number(score.rs), _signed(score.delta_rs))),
            )
        table.add_row(class_label(one.label, report.class_names), Text(one.verdict, style=style), *shown)
    yield _title("Each forgotten class for itself")
    yield _indent(table)


def _controls(report: AuditResult) -> Iterator[RenderableType]:
    """Show what the audit brings back of classes that are hidden by construction."""
    if not report.controls:
        return
    yield _title("What this audit sees of classes that are only hidden")
    table = _table("", "Hidden class", "RS", "ΔRS", "forget", "seen", left=2)
    for control in report.controls:
        whose = "in the original" if control.kind == "original" else "in this model"
        for one in control.hidden:
            names = ", ".join(class_label(label, report.class_names) for label in one.classes)
            shown = (_number(one.score.rs), _signed(one.score.delta_rs), _percent(one.score.forget_after))
            table.add_row(whose, names, *shown, one.seen_words)
            whose = ""
    yield _indent(table)


def _accuracies(report: AuditResult) -> Table:
    """Show accuracies before and after relearning."""
    table = _table("Accuracy", "", "before", "after", "95 % interval", "")
    count = len(report.forget_classes)
    gone = "forgotten class" if count == 1 else f"{count} forgotten classes"
    for name, what, row in (("retain", "the other classes", report.retain), ("forget", gone, report.forget)):
        before, after = row.before, row.after
        change = "-" if before is None or after is None else f"{100 * (after - before):+z.1f} points"
        ends = " to ".join(map(_percent, row.after_interval or ()))
        table.add_row(name, what, _percent(before), _percent(after), ends, change)
    return table


def _scores(report: AuditResult) -> Table:
    """Explain RS, its floor and ΔRS, each beside its value."""
    assert report.rs_interval is not None
    seeds = counted(report.settings["seeds"], "seed", "seeds")
    spread = f"± {report.rs_std:.3f} over {seeds}, " if report.rs_std is not None else ""
    covers = f" ({report.interval_covers})" if report.interval_covers else ""
    against = "not measured: without a reference, RS alone is not evidence of memory (pass --reference)"
    if report.delta_rs is not None:
        low, high = report.delta_rs_interval or (report.delta_rs, report.delta_rs)
        many = len(report.references)
        whose = "that of the reference" if many == 1 else f"the mean of {many} references"
        against = f"RS minus {_number(report.reference_rs)}, {whose} in the same audit"
        against += f"\n95 % interval {_signed(low)} to {_signed(high)}{covers}"
        if (margin := report.results[0].margin) is not None:
            alone = "; how far this task's trainings lie apart is not known" if many == 1 else ""
            against += f"\nseparate trainings without the class stay below {_signed(margin)}{alone}"
    budgets = " / ".join(f"{100 * float(epsilon):g}" for epsilon in report.rs_at)
    kept = " / ".join(_number(score) for score in report.rs_at.values())
    grid = _grid()
    grid.add_row("RS", _number(report.rs), "0: nothing comes back; 1: all of it, at no cost to the rest")
    grid.add_row("", "", f"{spread}95 % interval {report.rs_interval[0]:.3f} to {report.rs_interval[1]:.3f}{covers}")
    rule = f"{report.rule} rule ({RULES[report.rule].sentence})"
    found = " (found on hidden retain classes)" if report.calibration else ""
    grid.add_row("", "", f"{report.scale} scale{found}, {rule}{VARIANTS[report.variant]}")
    grid.add_row("floor", _number(report.floor), "scored by a head that always answers the forgotten class")
    grid.add_row("ΔRS", _signed(report.delta_rs), against)
    grid.add_row("RS@ε", "", f"{kept}: best RS while the other classes lose at most {budgets} points")
    return grid


def _readings(report: AuditResult) -> Iterator[RenderableType]:
    """Show the same audit at other scales, by other rules and with a fresh forget row; then the sweep."""
    yield _title("All readings (* the numbers above)")
    table = _table("", "Scale", "Forget row", "Rule", "RS", "ΔRS", "retain", "forget", "epoch", left=4)
    last: tuple[str, str] | None = None
    for row in report.results:
        if _is_main(row, report):
            setting, rule = (row.scale, row.variant), row.rule
            mark = "*" if (*setting, rule) == (report.scale, report.variant, report.rule) else ""
            low, high = min(row.epochs), max(row.epochs)
            epochs = str(low) if low == high else f"{low}-{high}"
            table.add_row(mark, *(setting if setting != last else ("", "")), rule, *_measured(row), epochs)
            last = setting
    yield _indent(table)
    if report.sweep is not None:
        yield _title(f"Over scales ({report.rule} rule)")
        curve = _table("Scale κ", "RS", "reference RS", "ΔRS", "retain", "forget", left=1)
        for point in report.sweep.points:
            rs, *others = _measured(point)
            curve.add_row(f"{point.kappa:.2f}", rs, _number(point.reference_rs), *others)
        yield Padding(curve, (0, 0, 0, 2))
        yield _indent(Text(_over_scales(report.sweep)))


def _is_main(row: Score, report: AuditResult) -> bool:
    """Say whether a reading is one of those that every audit has, rather than a point of the sweep."""
    return row.scale in ("native", "canonical", report.scale)


def _over_scales(sweep: Sweep) -> str:
    if sweep.area is None or sweep.level is None:
        return f"Highest RS {_number(sweep.best_rs)}. Without a reference a curve says little."
    return (
        f"Area between the model's and the reference's curve: {_signed(sweep.area)} (0: relearns like the "
        f"reference; at most ±0.5). Highest RS while the reference stays at or below {sweep.level:.2f}: "
        f"{_number(sweep.rs_at_reference)}."
    )


def _findings(findings: Sequence[Finding]) -> Table:
    table = Table.grid(padding=(0, 2, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for finding in findings:
        grade = Text(finding.severity, style=SEVERITIES[finding.severity])
        table.add_row(grade, Text(finding.code, style="bold"))
        table.add_row("", Text(plain(finding.message)))
        if finding.remedy is not None:
            table.add_row("", Text(plain(f"What to do: {finding.remedy}."), style="bold"))
    return table


def _measured(row: Score | SweepPoint) -> tuple[str, str, str, str]:
    return _number(row.rs), _signed(row.delta_rs), _percent(row.retain_after), _percent(row.forget_after)


def _percent(fraction: float | None) -> str:
    return "-" if fraction is None else f"{100 * fraction:.1f} %"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"


def _signed(value: float | None) -> str:
    return "-" if value is None else f"{value:+z.3f}"


def _title(text: str) -> Text:
    return Text(text, style="bold")


def _grid() -> Table:
    """Make a table of labels, numbers and explanations; only the last column wraps."""
    grid = Table.grid(padding=(0, 2, 0, 0))
    grid.add_column(no_wrap=True, style="bold")
    return grid


def _table(*headers: str, left: int = 2) -> Table:
    """Make a table without lines whose first columns are text and whose others are numbers."""
    table = _Fitting(box=None, padding=(0, 2, 0, 0), pad_edge=False, header_style="bold")
    for position, header in enumerate(headers):
        justify: Literal["left", "right"] = "left" if position < left else "right"
        table.add_column(header, justify=justify, no_wrap=position >= left, overflow="fold")
    return table


class _Fitting(Table):
    """A table that leaves out its last columns where a terminal is too narrow for whole words and numbers."""

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Any]:
        part = copy(self)
        while len(part.columns) > LEAST_COLUMNS and _least_width(part) > options.max_width:
            part.columns = part.columns[:-1]
        yield from Table.__rich_console__(part, console, options)


def _least_width(table: Table) -> int:
    """Add up the longest words of columns that wrap, and the longest cells of others, with the space between them."""
    wide = 0
    for column in table.columns:
        cells = [str(cell) for cell in (column.header, *column.cells)]
        parts = [part for cell in cells for part in (cell.split("\n") if column.no_wrap else cell.split())]
        wide += max(map(len, parts), default=0) + 2
    return wide - 2


def _indent(content: RenderableType) -> Padding:
    """Set a part off by two columns, with an empty line below."""
    return Padding(content, (0, 0, 1, 2))
