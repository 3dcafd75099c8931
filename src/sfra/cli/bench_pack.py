"""``sfra bench pack`` and ``unpack``: take the results of a benchmark to another machine, without its models."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfra.cli import options as opt
from sfra.cli.bench import STORE, Store, bench
from sfra.cli.command import Command
from sfra.cli.output import check_folder, dump, print_json
from sfra.core.errors import InputError, counted

ENDINGS = (".tar", ".tar.gz", ".tar.xz")

Protocols = Annotated[
    list[str],
    typer.Argument(metavar="PROTOCOL…", help="Names (sfra list protocols), or .toml files.", show_default=False),
]
File = Annotated[Path, typer.Option(metavar="FILE", help="Archive to write: .tar.gz, .tar.xz (smaller) or .tar.")]
Archive = Annotated[Path, typer.Argument(metavar="FILE", help="What sfra bench pack wrote.", show_default=False)]
Originals = Annotated[
    bool, typer.Option("--originals", help="Take the original models along, so that another machine can go on.")
]


@bench.command("pack", cls=Command)
def pack(
    protocols: Protocols,
    store: Store = STORE,
    out: File = Path("results.tar.gz"),
    originals: Originals = False,
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
    facts = {"schema": "sfra.bench-pack/1", "file": str(out), "bytes": out.stat().st_size, "results": done}
    if json:
        print_json(dump({**facts, "missing": len(cells) - done}))
    else:
        typer.echo(f"{out}: {done} of {len(cells)} results, {out.stat().st_size / 2**20:.1f} MiB")


@bench.command("unpack", cls=Command)
def unpack(file: Archive, store: Store = STORE, json: opt.Json = False, debug: opt.Debug = False) -> None:
    """Put packed results into a store, new or not. What the store holds already stays as it is."""
    if not file.is_file():
        raise InputError("there is no such archive", expected="a file of sfra bench pack", got=file)
    from sfra.bench.engine.packing import check_archive
    from sfra.bench.engine.packing import unpack as read
    from sfra.bench.grid import make_store

    check_archive(file)
    new = read(file, make_store(store))
    if json:
        print_json(dump({"schema": "sfra.bench-unpack/1", "store": str(store), "new": new}))
    else:
        typer.echo(f"{store}: {counted(new, 'new result', 'new results')}")
