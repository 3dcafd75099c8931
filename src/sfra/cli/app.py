"""The commands of ``sfra``, by name."""

from __future__ import annotations

from typing import Annotated

import typer

from sfra._version import __version__
from sfra.cli.audit import audit
from sfra.cli.bench import bench
from sfra.cli.card import card
from sfra.cli.command import Command
from sfra.cli.demo import demo
from sfra.cli.doctor import doctor
from sfra.cli.explain import explain
from sfra.cli.list import list_
from sfra.cli.report import report
from sfra.cli.train import train
from sfra.cli.unlearn import unlearn

EPILOG = "Exit codes: 0 done, 1 a --fail-if gate failed, 2 something to fix (the message says what)."

app = typer.Typer(
    context_settings={"help_option_names": ["-h", "--help"]},
    epilog=EPILOG,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # plain help: as readable, and rich need not be imported for it
)
app.command("audit", cls=Command)(audit)
app.add_typer(bench, name="bench")
app.command("doctor", cls=Command)(doctor)
app.command("report", cls=Command)(report)
app.command("card", cls=Command)(card)
app.command("demo", cls=Command)(demo)
app.command("train", cls=Command)(train)
app.command("unlearn", cls=Command)(unlearn)
app.command("explain", cls=Command)(explain)
app.command("list", cls=Command)(list_)


def _version(asked: bool) -> bool:
    if asked:
        typer.echo(f"sfra {__version__}")
        raise typer.Exit
    return asked


@app.callback()
def sfra(
    version: Annotated[
        bool, typer.Option("--version", "-V", help="Print the version.", is_eager=True, callback=_version)
    ] = False,
) -> None:
    """Audit unlearned classifiers: can the forgotten class be brought back from the released model alone?"""
