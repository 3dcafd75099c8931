"""What all commands share: help with grouped options, and errors that end in one message and an exit code."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperCommand

from sfra.errors import SfraError

FIXABLE, DEFECT, INTERRUPTED, NO_READER = 2, 70, 130, 141
"""Exit codes: the user can fix it; a defect of this program; Ctrl-C; the reader of our output went away."""


class Command(TyperCommand):
    """A command whose help shows its options in groups (``rich_help_panel``) and whose errors are reported."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what goes wrong becomes a message on stderr and an exit code."""
        with reporting(debug=bool(ctx.params.get("debug"))):
            return super().invoke(ctx)

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, group by group, in the order in which the groups first appear."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if record := param.get_help_record(ctx):
                groups.setdefault(getattr(param, "rich_help_panel", None) or "Options", []).append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)


def say(message: str) -> None:
    """Print a line on stderr, where it does not mix with results."""
    typer.echo(message, err=True)


@contextmanager
def reporting(*, debug: bool = False) -> Iterator[None]:
    """Turn exceptions into a message and an exit code; ``debug`` adds the traceback of what the user can fix."""
    try:
        yield
        sys.stdout.flush()
    except (typer.Exit, typer.Abort, typer.BadParameter):
        raise
    except SfraError as problem:
        if debug:
            traceback.print_exc()
        say(f"error: {problem}")
        raise typer.Exit(FIXABLE) from None
    except KeyboardInterrupt:
        say("interrupted")
        raise typer.Exit(INTERRUPTED) from None
    except BrokenPipeError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise typer.Exit(NO_READER) from None
    except Exception:
        traceback.print_exc()
        say("this is a defect of sfra, not of your input: please report it with the command and the lines above")
        raise typer.Exit(DEFECT) from None
