"""``sfra bench``: run a grid of models and audits, look at it, try failed cells again, make the tables."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from sfra.cli import options as opt
from sfra.cli.command import Command, say
from sfra.cli.output import check_folder, dump, print_json
from sfra.core.errors import counted

if TYPE_CHECKING:
    from sfra.bench.engine.store import Failure
    from sfra.bench.engine.summary import Summary

INCOMPLETE = 1
"""Exit code of a run after which something is missing."""

SHOWN = 12
"""Failures that are printed one by one."""

Protocol = Annotated[
    str,
    typer.Argument(metavar="PROTOCOL", help="A name (sfra list protocols), or a .toml file.", show_default=False),
]
Store = Annotated[Path, typer.Option(metavar="DIR", help="Folder that holds the results.")]
Only = Annotated[
    str | None, typer.Option(metavar="NAME=VALUE,…", help="Only a part of it, such as method=delete,forget=7.")
]
Executor = Annotated[str, typer.Option(metavar="NAME", help="local (processes on this machine) or ray.")]
Workers = Annotated[
    int | None,
    typer.Option(metavar="N", help="How many cells to compute at the same time.", show_default="one per core", min=1),
]
TimeLimit = Annotated[
    float | None,
    typer.Option(metavar="SECONDS", help="Give a cell up after so long.", show_default="the protocol's"),
]
Address = Annotated[
    str | None,
    typer.Option(
        metavar="ADDRESS", help="Address of a Ray cluster, for --executor ray.", show_default="a local one is started"
    ),
]
STORE = Path("sfra-bench")

bench = typer.Typer(
    no_args_is_help=True, rich_markup_mode=None, help="Run and report a benchmark of methods and audits."
)


@bench.command("run", cls=Command)
def run(
    protocol: Protocol,
    store: Store = STORE,
    only: Only = None,
    executor: Executor = "local",
    workers: Workers = None,
    time_limit: TimeLimit = None,
    address: Address = None,
    device: opt.Device = "cpu",
    json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """Compute what a benchmark still lacks.

    Whatever is in the store stays; a killed run goes on where it stopped. Several runs, on several machines, may share
    a store. A cell is one model, its features, an audit or a control. One that fails keeps its reason and the rest goes
    on; exit code 1 says that something is missing.

    Example: sfra bench run digits --store results/
    """
    from sfra.bench.plan import parse_only
    from sfra.cli.grid_progress import showing_grid

    chosen = parse_only(only)
    with _telling_how_to_go_on(store), showing_grid(quiet=quiet) as progress:
        from sfra.bench.grid import run_protocol

        summary = run_protocol(
            protocol,
            store,
            only=chosen,
            executor=executor,
            workers=workers,
            device=device,
            time_limit=time_limit,
            address=address,
            progress=progress,
        )
    _deliver(summary, json=json, quiet=quiet)
    if summary.complete and not json and not quiet:
        say(f"make the tables with: sfra bench report {protocol} --store {store}")
    if summary.failed and not json and not quiet:
        say(f"when the cause is gone, try again with: sfra bench retry {protocol} --store {store}")
    if not summary.complete:
        raise typer.Exit(INCOMPLETE)


@bench.command("status", cls=Command)
def status(
    protocol: Protocol,
    store: Store = STORE,
    only: Only = None,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Tell what is done, failed, running and left. Writes nothing."""
    from sfra.bench.grid import protocol_status
    from sfra.bench.plan import parse_only

    _deliver(protocol_status(protocol, store, only=parse_only(only)), json=json, quiet=False)


@bench.command("retry", cls=Command)
def retry(
    protocol: Protocol,
    store: Store = STORE,
    only: Only = None,
    executor: Executor = "local",
    workers: Workers = None,
    time_limit: TimeLimit = None,
    address: Address = None,
    device: opt.Device = "cpu",
    json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """Try failed cells again, and whatever they held up."""
    from sfra.bench.grid import check_run, open_store, retry_failed
    from sfra.bench.plan import parse_only

    chosen = parse_only(only)
    open_store(store)
    check_run(protocol, store, only=chosen, executor=executor, device=device, address=address)
    cleared = retry_failed(protocol, store, only=chosen)
    if not quiet:
        say(f"failed cells that will be tried again: {len(cleared)}")
    run(protocol, store, only, executor, workers, time_limit, address, device, json, quiet, debug)


@bench.command("report", cls=Command)
def report(
    protocol: Protocol,
    store: Store = STORE,
    out: opt.Out = None,
    json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """Make the tables of a benchmark from its store.

    Prints the main tables, as Markdown; --out keeps all of them, also as CSV and LaTeX, and the rows they are made of.
    Works on a store that is not complete: what is missing is said.
    """
    check_folder(out)
    from sfra.bench.report import make_report

    made = make_report(protocol, store)
    if out is not None:
        made.save(out)
    if json:
        print_json(dump(made.to_dict()))
    elif not quiet:
        typer.echo(made.text())
        say(f"Written to {out}." if out is not None else "Nothing was written: pass --out DIR to keep all tables.")


@contextmanager
def _telling_how_to_go_on(store: Path) -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        if (store / "store.json").is_file():
            say(f"stopped: what was done is kept in {store}; give the same command again to go on")
        raise


def _deliver(summary: Summary, *, json: bool, quiet: bool) -> None:
    if json:
        print_json(dump(_plain(summary)))
        return
    for failure in () if quiet else summary.failed[:SHOWN]:
        say(f"failed: {failure.label}\n  {failure.reason}: {_first_line(failure)}")
    if not quiet and len(summary.failed) > SHOWN:
        say(f"… and {counted(len(summary.failed) - SHOWN, 'more failure', 'more failures')} (--json lists all)")
    if not quiet:
        typer.echo(f"{summary}" + (f" ({summary.seconds:.0f} s)" if summary.seconds else ""))


def _first_line(failure: Failure) -> str:
    return failure.message.strip().partition("\n")[0]


def _plain(summary: Summary) -> dict[str, Any]:
    return {
        "schema": "sfra.bench-status/1",
        "complete": summary.complete,
        "goals": summary.goals,
        "done": len(summary.done),
        "computed": len(summary.computed),
        "elsewhere": len(summary.elsewhere),
        "running": [cell.label for cell in summary.running],
        "left": len(summary.left),
        "failed": [
            {
                "label": f.label,
                "kind": f.kind,
                "reason": f.reason,
                "message": f.message,
                "attempts": f.attempts,
                "key": f.key,
            }
            for f in summary.failed
        ],
        "blocked": [{"label": one.cell.label, "by": one.by.label} for one in summary.blocked],
        "seconds": round(summary.seconds, 3),
        "eta_seconds": summary.eta,
    }
