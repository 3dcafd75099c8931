"""What all commands share: grouped help, errors as one message and an exit code, and how results are written."""

from __future__ import annotations

import errno
import json
import os
import sys
import tempfile
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand

from sfra.core.errors import InputError, SfraError, meant, printable
from sfra.core.text import written_out

if TYPE_CHECKING:
    from rich.console import RenderableType

FIXABLE, DEFECT, INTERRUPTED, NO_READER = 2, 70, 130, 141
"""Exit codes: the user can fix it; a defect of this program; Ctrl-C; the reader of our output went away."""

OF_THE_DISK = (
    *(errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES, errno.EPERM, errno.ENAMETOOLONG, errno.EIO),
    *(errno.EISDIR, errno.ENOTDIR, errno.EEXIST, errno.ELOOP, errno.ENOTEMPTY),
)
"""File errors that the user can fix: no space, no permission, a name in the way."""

ENDINGS = (".bin", ".ckpt", ".json", ".npz", ".onnx", ".pt", ".pth", ".safetensors", ".tar")
"""What files with models and data end in; no id on the hub does."""

WIDEST = 104
"""Columns beyond which lines of text become hard to follow."""


class Command(TyperCommand):
    """A command whose help shows its options in groups (``rich_help_panel``) and whose errors are reported."""

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        """Read the options; one that there is not is refused with those that are close."""
        try:
            return super().parse_args(ctx, args)
        except Exception as problem:
            if not hasattr(problem, "possibilities"):
                raise
            given = printable(getattr(problem, "option_name", ""))
            close = meant(given, [name for param in self.get_params(ctx) for name in param.opts])
            do = close or f"{ctx.command_path} -h lists them"
            raise InputError(f"{ctx.command_path} has no such option", got=given, do=do) from None

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
    """Print a line on stderr, apart from the results; control characters are replaced."""
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
        where = "a file" if problem.filename is None else problem.filename
        if problem.filename is None and problem.errno == errno.ENOSPC:
            _give_up_stdout()
        problem = SfraError(f"cannot use {where}", got=problem.strerror, do="check the path and the disk")
    if debug or not isinstance(problem, SfraError):
        traceback.print_exception(problem)
    if isinstance(problem, SfraError):
        say(f"error: {problem}")
        return FIXABLE
    say("this is a defect of sfra, not of your input: please report it with the command and the lines above")
    return DEFECT


def _give_up_stdout() -> None:
    """Send the rest of stdout nowhere: Python flushes it once more at exit, and would fail again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


@contextmanager
def when_stopped(advice: Callable[[], str]) -> Iterator[None]:
    """Say, when the work inside is interrupted, what was kept and how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"stopped: {advice()}")
        raise


def check_there(*given: str | Path | None, names: bool = False) -> None:
    """Refuse a path at which there is nothing, before anything slow is imported.

    What has the form ``owner/name`` may be an id on the hub, and, where ``names`` are taken, a word that of a data set.
    """
    for text in map(str, filter(None, given)):
        path = written_out(text)
        marked = path.suffix in ENDINGS or text.startswith(("/", "./", "../", "~")) or text.endswith("/")
        if (marked or text.count("/") > 1 or ("/" not in text and not names)) and not os.path.exists(path):
            beside = os.listdir(path.parent) if path.parent.is_dir() and not path.is_symlink() else ()
            do = meant(path.name, beside) or "check the path"
            do = f"it is a link to {os.readlink(path)}: check that path" if path.is_symlink() else do
            raise InputError("the file or directory does not exist", got=text, do=do)


def check_folder(out: Path | None, *names: str, option: str = "--out") -> None:
    """Refuse, before the work, a folder that files of these names cannot be written to; leave nothing behind."""
    if out is None:
        return
    nearest = next(path for path in (out, *out.parents) if path.exists())
    try:
        with tempfile.TemporaryFile(dir=nearest):
            pass
    except OSError as problem:
        got = f"{out}: {problem.strerror}" if nearest.is_dir() else f"{nearest} is a file"
        expected = f"{option} with a folder that you may write to"
        do = "choose another folder"
        raise InputError("cannot write the results there", expected=expected, got=got, do=do) from None
    for name in names:
        if (out / name).is_dir():
            expected = f"a file or nothing at {out / name}"
            raise InputError(f"cannot write {name}", expected=expected, got="a folder", do="choose another name")


def print_json(content: Any) -> None:
    """Print JSON on stdout, in UTF-8 whatever the terminal's encoding; text is printed as it is."""
    text = content if isinstance(content, str) else json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False)
    typer.echo(text.removesuffix("\n").encode("utf-8", "replace"))


def show(*content: RenderableType) -> None:
    """Print on stdout; without a terminal at 80 columns and without colours, with no blanks at the end of a line."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    console.width = min(console.width, WIDEST)
    with console.capture() as captured:
        console.print(*content, sep="\n")
    sys.stdout.write("\n".join(line.rstrip() for line in captured.get().split("\n")))
