"""``sfra bench``: run a grid of models and audits, look at it, compute cells again, make tables, pack results."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from sfra.cli import options as opt
from sfra.cli.command import Command, check_folder, print_json, say, when_stopped
from sfra.cli.options import Count, Text, argument, group
from sfra.core.errors import InputError, counted

if TYPE_CHECKING:
    from sfra.bench.engine.summary import Summary

INCOMPLETE = 1
"""Exit code of a run after which something is missing."""

SHOWN = 12
"""Failures that are printed one by one."""

ENDINGS = (".tar", ".tar.gz", ".tar.xz")
STORE, ARCHIVE = Path("sfra-bench"), Path("results.tar.gz")

option = group("Options")
PROTOCOL = "A name (sfra list protocols), or a .toml file."

Protocol = Annotated[str, argument("Arguments", "PROTOCOL", PROTOCOL)]
Store = Annotated[Path, option("DIR", "Folder that holds the results.")]
Only = Annotated[Text, option("NAME=VALUE,…", "Only a part of it, such as method=delete,forget=7.")]
Executor = Annotated[str, option("NAME", "local (processes on this machine) or ray.")]
Workers = Annotated[Count, option("N", "Cells to compute at the same time.", default="one per core", min=1)]
TimeLimit = Annotated[
    float | None, option("SECONDS", "Give up a cell after this many seconds.", default="the protocol's")
]
Address = Annotated[
    Text, option("ADDRESS", "Address of a Ray cluster, for --executor ray.", default="a local one is started")
]

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
    """Compute what is missing of a benchmark.

    Whatever is in the store stays; a killed run goes on where it stopped. Several runs, on several machines, may share
    a store. A cell is one model, its features, an audit or a control. One that fails keeps its reason and the rest goes
    on; exit code 1 says that something is missing.

    Example: sfra bench run digits --store results/
    """
    from sfra.bench.plan import parse_only
    from sfra.cli.progress import showing_grid

    def advice() -> str:
        kept = (store / "store.json").is_file()
        onward = f"what was done is kept; continue with: sfra bench run {protocol} --store {store}"
        return onward if kept else "nothing was done"

    chosen = parse_only(only)
    with when_stopped(advice), showing_grid(quiet=quiet) as progress:
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
    _deliver(summary, store, json=json, quiet=quiet)
    if summary.complete and not json and not quiet:
        say(f"make the tables with: sfra bench report {protocol} --store {store}")
    if summary.failed and not json and not quiet:
        say(f"once the cause is fixed, try again with: sfra bench retry {protocol} --store {store}")
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
    """Say what is done, failed, running and left. Writes nothing."""
    from sfra.bench.grid import protocol_status
    from sfra.bench.plan import parse_only

    _deliver(protocol_status(protocol, store, only=parse_only(only)), store, json=json, quiet=False)


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
    from sfra.bench.grid import check_run, retry_failed
    from sfra.bench.plan import parse_only

    chosen = parse_only(only)
    check_run(protocol, store, only=chosen, executor=executor, device=device, address=address)
    cleared = retry_failed(protocol, store, only=chosen)
    if not quiet:
        say(f"failed cells that will be tried again: {len(cleared)}")
    run(protocol, store, only, executor, workers, time_limit, address, device, json, quiet, debug)


@bench.command("rerun", cls=Command)
def rerun(
    protocol: Protocol,
    only: Annotated[str, option("NAME=VALUE,…", "What to compute again, such as method=delete.", default=False)],
    store: Store = STORE,
    executor: Executor = "local",
    workers: Workers = None,
    time_limit: TimeLimit = None,
    address: Address = None,
    device: opt.Device = "cpu",
    json: opt.Json = False,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """Compute a part of a benchmark again.

    What is done of it is removed, with all that was made of it, failures too; then sfra bench run begins. With
    method=delete the models are made anew; with method=delete,what=audit they stay and only the audits are. Cells that
    only failed are for sfra bench retry.

    Example: sfra bench rerun digits --only method=delete
    """
    from sfra.bench.grid import check_run, discard_done
    from sfra.bench.plan import parse_only

    chosen = parse_only(only)
    check_run(protocol, store, only=chosen, executor=executor, device=device, address=address)
    again, others = discard_done(protocol, store, only=chosen)
    if not quiet:
        say(f"cells that will be computed again: {again}")
        if others:
            told = counted(others, "other cell was", "other cells were")
            say(f"{told} made of them and removed: sfra bench run {protocol} --store {store} computes the rest")
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
    Works on a store that is not complete, and says what is missing.
    """
    check_folder(out)
    from sfra.bench.report import make_report

    made = make_report(protocol, store)
    if out is not None:
        made.save(out)
    if json:
        print_json(made.to_dict())
    elif not quiet:
        typer.echo(made.text())
        say(f"Written to {out}." if out is not None else "Nothing was written: pass --out DIR to keep all tables.")


@bench.command("pack", cls=Command)
def pack(
    protocols: Annotated[list[str], argument("Arguments", "PROTOCOL…", PROTOCOL)],
    store: Store = STORE,
    out: Annotated[
        Path, option("FILE", "Archive to write: .tar.gz, .tar.xz (smaller) or .tar.", "--out", "-o")
    ] = ARCHIVE,
    originals: Annotated[
        bool, option(None, "Include the original models, to continue elsewhere.", "--originals")
    ] = False,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Put the results of a benchmark into one file.

    Megabytes instead of gigabytes: tables, figures and pages can be made of them anywhere; models and features stay
    behind.

    Example: sfra bench pack cifar10-resnet18 --store results/ --out results.tar.gz
    """
    if not out.name.endswith(ENDINGS):
        raise InputError("the archive needs another name", expected=f"--out ending in {', '.join(ENDINGS)}", got=out)
    check_folder(out.absolute().parent, out.name)
    from sfra.bench.engine.packing import pack as write
    from sfra.bench.grid import open_store
    from sfra.bench.plan import plan
    from sfra.bench.protocol import load_protocol

    goals = [goal for name in protocols for goal in plan(load_protocol(name))]
    models = [need for goal in goals if goal.what == "accuracy" for need in goal.cell.needs.values()]
    cells = {goal.cell.key: goal.cell for goal in goals}
    opened = open_store(store)
    done = sum(opened.is_done(cell) for cell in cells.values())
    write(list(cells.values()), opened, out, whole=models if originals else ())
    size = out.stat().st_size
    if json:
        facts = {"schema": "sfra.bench-pack/1", "file": str(out), "bytes": size, "results": done}
        print_json({**facts, "missing": len(cells) - done})
    else:
        typer.echo(f"{out}: {done} of {len(cells)} results, {size / 2**20:.1f} MiB")


@bench.command("unpack", cls=Command)
def unpack(
    file: Annotated[Path, argument("Arguments", "FILE", "What sfra bench pack wrote.")],
    store: Store = STORE,
    json: opt.Json = False,
    debug: opt.Debug = False,
) -> None:
    """Put packed results into a store, new or not. What the store holds already is kept."""
    if not file.is_file():
        raise InputError(f"there is no archive at {file}", expected="a file of sfra bench pack", got=file)
    from sfra.bench.engine.packing import check_archive
    from sfra.bench.engine.packing import unpack as read
    from sfra.bench.grid import make_store

    check_archive(file)
    new = read(file, make_store(store))
    if json:
        print_json({"schema": "sfra.bench-unpack/1", "store": str(store), "new": new})
    else:
        typer.echo(f"{store}: {counted(new, 'new result', 'new results')}")


def _deliver(summary: Summary, store: Path, *, json: bool, quiet: bool) -> None:
    """Print the state of a grid, as JSON or in a line after its failures."""
    from sfra.bench.grid import open_store

    log_of = open_store(store).failure_log
    if json:
        facts = ("label", "kind", "reason", "message", "where", "attempts", "key")
        print_json(
            {
                "schema": "sfra.bench-status/1",
                "complete": summary.complete,
                "goals": summary.goals,
                "done": len(summary.done),
                "computed": len(summary.computed),
                "elsewhere": len(summary.elsewhere),
                "running": [cell.label for cell in summary.running],
                "left": len(summary.left),
                "failed": [
                    {**{name: getattr(failure, name) for name in facts}, "log": str(log_of(failure.key))}
                    for failure in summary.failed
                ],
                "blocked": [{"label": one.cell.label, "by": one.by.label} for one in summary.blocked],
                "seconds": round(summary.seconds, 3),
                "eta_seconds": summary.eta,
            }
        )
    elif not quiet:
        for failure in summary.failed[:SHOWN]:
            first_line = failure.message.strip().partition("\n")[0]
            where = f"\n  at {failure.where}" if failure.where else ""
            say(f"failed: {failure.label}\n  {failure.reason}: {first_line}{where}\n  log: {log_of(failure.key)}")
        if len(summary.failed) > SHOWN:
            say(f"… and {counted(len(summary.failed) - SHOWN, 'more failure', 'more failures')} (--json lists all)")
        typer.echo(f"{summary}" + (f" ({summary.seconds:.0f} s)" if summary.seconds else ""))
