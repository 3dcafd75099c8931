"""``sfra report``: a page, and figures, from the results of audits or of a benchmark."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfra.cli import options as opt
from sfra.cli.bench import STORE
from sfra.cli.command import say
from sfra.cli.output import check_folder, dump, print_json
from sfra.core.errors import InputError, counted, printable

if TYPE_CHECKING:
    from sfra.report.export import Exported

FORMATS = ("svg", "pdf", "png")
SUFFIXES = (".html", ".htm")
PAGE = Path("report.html")

_what = partial(typer.Option, rich_help_panel="What is reported")
_end = partial(typer.Option, rich_help_panel="What becomes of the result")

Results = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="RESULTS",
        rich_help_panel="What is reported",
        help="audit.json files, or folders with one, or folders of such folders. One makes the page of that audit, "
        "several a page that lists them all, each in detail.",
        show_default=False,
    ),
]
Bench = Annotated[
    list[str] | None,
    _what(
        metavar="PROTOCOL", help="Report a benchmark (sfra list protocols) instead; repeat for several of one store."
    ),
]
Store = Annotated[
    Path | None,
    _what(metavar="DIR", help="Where the results of --bench are kept; only read.", show_default=str(STORE)),
]
Out = Annotated[Path, _end(metavar="FILE", help="The page to write: one file that needs no network.")]
Figures = Annotated[
    Path | None, _end(metavar="DIR", help="Also write every figure into this folder.", show_default="no figures")
]
Format = Annotated[
    str | None, _end(metavar="NAME", help="File format of the figures: svg, pdf or png.", show_default="svg")
]


def report(
    results: Results = None,
    bench: Bench = None,
    store: Store = None,
    out: Out = PAGE,
    figures: Figures = None,
    format: Format = None,
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

    date = datetime.now(UTC).date().isoformat()
    if bench:
        text, drawn = _of_benchmark(bench, store or STORE, date, figures, format or "svg")
    else:
        text, drawn = _of_audits(results or [], date, figures, format or "svg")
    _write(out, text)
    _deliver(out, drawn, json=json, quiet=quiet)


def _check(
    results: list[Path], bench: list[str], store: Path | None, out: Path, figures: Path | None, format: str | None
) -> None:
    """Refuse what does not go together before anything is read."""
    if bool(results) == bool(bench):
        raise InputError(
            "say what to report",
            expected="audit.json files or folders, or --bench PROTOCOL, not both",
            got="both" if results else "neither",
            do="sfra report results/",
        )
    if store is not None and not bench:
        raise InputError("--store is of no use without --bench", got=store, do="pass --bench PROTOCOL as well")
    if format is not None and figures is None:
        raise InputError("--format is of no use without --figures", got=format, do="pass --figures DIR as well")
    if format is not None and format not in FORMATS:
        raise InputError("figures cannot be written so", expected=", ".join(FORMATS), got=format)
    if out.suffix.lower() not in SUFFIXES:
        raise InputError("the page needs another name", expected="--out with a file that ends in .html", got=out)
    check_folder(out.absolute().parent, out.name)
    check_folder(figures, option="--figures")


def _of_audits(results: list[Path], date: str, figures: Path | None, format: str) -> tuple[str, Exported | None]:
    from sfra.report.page import audit_page, export_audits, find_audits, overview_page

    audits = find_audits(results)
    alone = len(audits) == 1
    page = audit_page(audits[0][1], date=date) if alone else overview_page(audits, date=date)  # checks what it reads
    return page, None if figures is None else export_audits(audits, figures, format)


def _of_benchmark(
    bench: list[str], store: Path, date: str, figures: Path | None, format: str
) -> tuple[str, Exported | None]:
    from sfra.report.page_bench import bench_page, export_bench

    text = bench_page(bench, store, date=date)
    return text, None if figures is None else export_bench(bench, store, figures, format)


def _write(out: Path, text: str) -> None:
    from sfra.core.files import write_text

    try:
        write_text(out, text)
    except OSError as problem:
        raise InputError("the page could not be written", got=f"{out}: {problem}") from None


def _deliver(out: Path, drawn: Exported | None, *, json: bool, quiet: bool) -> None:
    if json:
        print_json(dump(_plain(out, drawn)))
    elif not quiet:
        typer.echo(f"Written to {printable(out)}.")
        if drawn is not None:
            say(f"{counted(len(drawn.written), 'figure was', 'figures were')} written.")
            for name, reason in drawn.left_out.items():
                say(f"left out: {name}: {reason}")


def _plain(out: Path, drawn: Exported | None) -> dict[str, Any]:
    return {
        "schema": "sfra.report/1",
        "page": str(out),
        "bytes": out.stat().st_size,
        "figures": [] if drawn is None else [str(path) for path in drawn.written],
        "left_out": {} if drawn is None else drawn.left_out,
    }
