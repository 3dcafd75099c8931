"""What all commands share: help with grouped options, and errors that end in one message and an exit code."""

from __future__ import annotations

import errno
import os
import sys
import traceback
from typing import Any

import typer
from typer.core import TyperCommand

from sfra.core.errors import SfraError, printable

FIXABLE, DEFECT, INTERRUPTED, NO_READER = 2, 70, 130, 141
"""Exit codes: the user can fix it; a defect of this program; Ctrl-C; the reader of our output went away."""


OF_THE_DISK = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG),
    *(errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.ENOTEMPTY),
)
"""What the user can fix of what goes wrong with files: no space, no permission, a name in the way."""


class Command(TyperCommand):
    """A command whose help shows its options in groups (``rich_help_panel``) and whose errors are reported."""

    def invoke(self, ctx: Any) -> Any:
        """Run the command; what goes wrong becomes a message on stderr and an exit code."""
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()
        except (typer.Exit, typer.Abort, typer.BadParameter):
            raise
        except (Exception, KeyboardInterrupt) as problem:
            raise typer.Exit(report(problem, debug=bool(ctx.params.get("debug")))) from None
        return result

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Name the arguments as their help does, in brackets where they may be left out."""
        arguments = [param for param in self.get_params(ctx) if param.param_type_name == "argument"]
        names = [_name(param).rstrip("…") + ("…" if param.nargs == -1 else "") for param in arguments]
        shown = [name if param.required else f"[{name}]" for name, param in zip(names, arguments, strict=True)]
        return ["[OPTIONS]", *shown]

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write arguments and options, group by group, in the order in which the groups first appear."""
        groups: dict[str, list[tuple[str, str]]] = {}
        for param in self.get_params(ctx):
            if record := param.get_help_record(ctx):
                record = (_name(param), record[1]) if param.param_type_name == "argument" else record
                groups.setdefault(getattr(param, "rich_help_panel", None) or "Options", []).append(record)
        for title, records in groups.items():
            with formatter.section(title):
                formatter.write_dl(records)


def _name(argument: Any) -> str:
    return str(argument.metavar or argument.name.upper())


def say(message: str) -> None:
    """Print a line on stderr, where it does not mix with results; what a terminal would act upon is replaced."""
    typer.echo(printable(message), err=True)


def report(problem: BaseException, *, debug: bool = False) -> int:
    """Say what went wrong and return the exit code; ``debug`` adds the traceback of what the user can fix."""
    if isinstance(problem, KeyboardInterrupt):
        say("interrupted")
        return INTERRUPTED
    if isinstance(problem, BrokenPipeError):
        _give_up_stdout()
        return NO_READER
    if isinstance(problem, OSError) and not isinstance(problem, SfraError) and problem.errno in OF_THE_DISK:
        where = "" if problem.filename is None else f" at {problem.filename}"
        if problem.filename is None and problem.errno == errno.ENOSPC:
            _give_up_stdout()
        problem = SfraError(f"a file cannot be used{where}", got=problem.strerror, do="check the path and the disk")
    if debug or not isinstance(problem, SfraError):
        traceback.print_exception(problem)
    if isinstance(problem, SfraError):
        say(f"error: {problem}")
        return FIXABLE
    say("this is a defect of sfra, not of your input: please report it with the command and the lines above")
    return DEFECT


def _give_up_stdout() -> None:
    """Let what is still to be printed go nowhere: Python would try once more at its end, and fail in its own way."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
