"""``sfra card``: results of audits as a block for a model card."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from sfra.cli.early import check_audits
from sfra.cli.options import Text, argument, group

option = group("Options")
RESULTS = "audit.json files, or folders with one, or folders of such folders; all of one model."


def card(
    results: Annotated[list[Path], argument("Options", "RESULTS", RESULTS)],
    name: Annotated[Text, option("NAME", "The model, as its card calls it.", default="as the audit calls it")] = None,
    debug: Annotated[bool, option(None, "Add the traceback to an error.", "--debug")] = False,
) -> None:
    """Print a block for the README of a model.

    It holds model-index metadata, as Hugging Face reads it, and a section that says what the audit found. The metadata
    goes to the top of the README, the section where you like.

    Example: sfra card results/ --name my-org/my-model > card.md
    """
    check_audits(results)
    from sfra.report import find_audits
    from sfra.report.markdown import model_card

    typer.echo(model_card([audit for _, audit in find_audits(results)], name=name).encode("utf-8", "replace"), nl=False)
