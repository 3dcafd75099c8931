"""Options that several commands have, the same in all, and how an option is declared in its group of the help."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any

import typer

Text = str | None
Count = int | None


def group(title: str) -> Callable[..., Any]:
    """Return a maker of options that the help shows under a title."""

    def make(metavar: str | None, text: str, *flags: str, default: str | bool = True, **more: Any) -> Any:
        given = {"metavar": metavar, "help": text, "autocompletion": completion(text), **more}
        return typer.Option(*flags, show_default=default, rich_help_panel=title, **given)

    return make


def argument(title: str, metavar: str, text: str, **more: Any) -> Any:
    """Return an argument that the help shows under a title."""
    given: Any = {"metavar": metavar, "help": text, "autocompletion": completion(text), **more}
    return typer.Argument(show_default=False, rich_help_panel=title, **given)


def completion(text: str) -> Callable[[str], list[str]] | None:
    """Return what completes a value in the shell: names of the lists that its help mentions; None if it has none."""
    kinds = re.findall(r"sfra list (\w+)", text)

    def complete(incomplete: str) -> list[str]:
        from sfra.cli.list import names

        return [name for kind in kinds for name in names(kind) if name.startswith(incomplete)]

    return complete if kinds else None


making, way = group("What is made"), group("How it is made")
running, ending = group("How it is run"), group("What becomes of the result")

Seed = Annotated[int, running("N", "First seed; equal seeds give equal results.")]
Device = Annotated[str, running("DEVICE", "cpu, cuda, cuda:1, mps ...")]
Quiet = Annotated[bool, running(None, "Print no progress and no summary, only what went wrong.", "--quiet", "-q")]
Debug = Annotated[bool, running(None, "Add the traceback to an error.", "--debug")]
Out = Annotated[Path | None, ending("DIR", "Folder to keep the results in.", "--out", "-o", default="nothing is kept")]
Json = Annotated[bool, ending(None, "Print the result as JSON on stdout, and nothing else there.", "--json")]

Images = Annotated[
    str, making("DATA", "A named data set (sfra list datasets), or a folder with train and validation.", default=False)
]
Recipe = Annotated[
    Text, way("NAME", "Settings by name (sfra list recipes) or .toml file.", default="DATA-BACKBONE, if there is one")
]
MakingSeed = Annotated[int, running("N", "Equal seeds give equal models on the same kind of device.", "--seed")]
Folder = Annotated[Path, ending("DIR", "Model directory to write.", "--out", "-o", default=False)]
