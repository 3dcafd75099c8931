"""``sfra explain``: what a finding or a verdict means, and what to do about it."""

from __future__ import annotations

import re
import shutil
import textwrap
from typing import Annotated

import typer

from sfra.auditing.explain import explanations
from sfra.auditing.verdicts import VERDICTS
from sfra.cli.command import WIDEST
from sfra.cli.list import LISTS, print_names
from sfra.cli.options import argument, group
from sfra.core.errors import InputError, meant

CODE = "A code of a verdict (sfra list verdicts) or of a finding (sfra list findings)."


def explain(
    code: Annotated[str | None, argument("Options", "CODE", CODE)] = None,
    debug: Annotated[bool, group("Options")(None, "Add the traceback to an error.", "--debug")] = False,
) -> None:
    """Explain a finding or a verdict.

    Says when it is raised, what it means and what to do. Without CODE, list all codes.

    Example: sfra explain reference-missing
    """
    if code is None:
        for kind in ("verdicts", "findings"):
            typer.echo(f"{kind.capitalize()}:")
            print_names(LISTS[kind][1]())
            typer.echo("")
        typer.echo("sfra explain CODE says more about one of them.")
        return
    texts, found = [], VERDICTS.get(code)
    if found is not None:
        texts += [f"{code}: a verdict ({found.look.words})."]
        texts += [f"What it means. {found.meaning}", f"What to do. {found.do}"]
    if code in explanations():
        texts += [f"{code}: a finding.", *explanations()[code]]
    if not texts:
        close = meant(code, [*VERDICTS, *explanations()])
        do = close or "sfra explain, without a code, lists them"
        raise InputError("there is no such finding or verdict", got=code, do=do)
    width = min(shutil.get_terminal_size().columns, WIDEST) - 1
    typer.echo("\n\n".join(textwrap.fill(plain(text), width, break_on_hyphens=False) for text in texts))


def plain(markdown: str) -> str:
    """Take the marks out of a paragraph: code, bold and links become their text.

    >>> plain("**When.** `a < b`, see [there](x.md)")
    'When. a < b, see there'
    """
    return re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", re.sub(r"`|\*\*", "", markdown))
