"""``sfra report``: a page, and figures, from the results of audits or of a benchmark."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfra.cli import options as opt
from sfra.cli.bench import STORE
from sfra.cli.command import check_folder, print_json, say
from sfra.cli.early import check_audits
from sfra.cli.options import Text, argument, ending, group
from sfra.core.errors import InputError, counted, printable

if TYPE_CHECKING:
    from sfra.report.export import Exported

FORMATS = ("svg", "pdf", "png")
SUFFIXES = (".html", ".htm")
PAGE = Path("report.html")
WHAT = "What is reported"
RESULTS = (
    "audit.json files, or folders with one, or folders of such folders. One makes the page of that audit, several a "
    "page that lists them all, each in detail."
)
what = group(WHAT)


def report(
    results: Annotated[list[Path] | None, argument(WHAT, "RESULTS", RESULTS)] = None,
    bench: Annotated[
        list[str] | None, what("PROTOCOL", "Report a benchmark instead (sfra list protocols); may be repeated.")
    ] = None,
    store: Annotated[Path | None, what("DIR", "Where its results are kept; only read.", default=str(STORE))] = None,
    out: Annotated[Path, ending("FILE", "The page to write: one file that needs no network.", "--out", "-o")] = PAGE,
    figures: Annotated[Path | None, ending("DIR", "Also write every figure here.", default="no figures")] = None,
    format: Annotated[Text, ending("NAME", f"Format of the figures: {', '.join(FORMATS)}.", default="svg")] = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """Make a page of results that opens in a browser.

    It shows the verdict in words, curves, tables, and how to repeat them. The page is one file: it opens from disk, in
    light and dark, on paper too, and loads nothing from the network.

    Example: sfra report results/ --out report.html
    """
    _check(results or [], bench or [], store, out, figures, format)
    from datetime import UTC, datetime

    from sfra.core.files import write_text

    date = datetime.now(UTC).date().isoformat()
    drawn: Exported | None = None
    if bench:
        from sfra.report import bench_page, export_bench, read_bench

        found = read_bench(bench, store or STORE)
        page = bench_page(found, date=date)
        if figures is not None:
            drawn = export_bench(found, figures, format or "svg")
    else:
        from sfra.report import audit_page, export_audits, find_audits, overview_page

        audits = find_audits(results or [])
        alone = len(audits) == 1
        page = audit_page(audits[0][1], date=date) if alone else overview_page(audits, date=date)
        if figures is not None:
            drawn = export_audits(audits, figures, format or "svg")
    write_text(out, page)
    written, left_out = ([], {}) if drawn is None else (drawn.written, drawn.left_out)
    if json:
        facts = {"schema": "sfra.report/1", "page": str(out), "bytes": out.stat().st_size}
        print_json({**facts, "figures": [str(path) for path in written], "left_out": left_out})
    elif not quiet:
        typer.echo(f"Written to {printable(out)}. Open it in a browser.")
        if drawn is not None:
            say(f"{counted(len(written), 'figure was', 'figures were')} written.")
        for name, reason in left_out.items():
            say(f"left out: {name}: {reason}")


def _check(
    results: list[Path], bench: list[str], store: Path | None, out: Path, figures: Path | None, format: str | None
) -> None:
    """Refuse what does not go together before anything is read."""
    if bool(results) == bool(bench):
        expected = "audit.json files or folders, or --bench PROTOCOL, not both"
        got = "both" if results else "neither"
        raise InputError("say what to report", expected=expected, got=got, do="sfra report results/")
    if store is not None and not bench:
        raise InputError("--store needs --bench", got=store, do="pass --bench PROTOCOL as well")
    if format is not None and figures is None:
        raise InputError("--format needs --figures", got=format, do="pass --figures DIR as well")
    if format is not None and format not in FORMATS:
        raise InputError(f"cannot write figures as {format}", expected=", ".join(FORMATS), got=format)
    if out.suffix.lower() not in SUFFIXES:
        raise InputError("the page needs another name", expected="--out with a file that ends in .html", got=out)
    check_folder(out.absolute().parent, out.name)
    check_folder(figures, option="--figures")
    check_audits(results)
