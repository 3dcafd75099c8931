"""``sfra list``: the names that options take, one line each."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Callable
from importlib import import_module
from typing import Annotated

import typer

from sfra.cli.output import dump, print_json
from sfra.core.errors import InputError, meant

ASSIGNMENTS = {
    "greedy": "forget classes take turns in ascending index, each its likeliest probes (default)",
    "optimal": "the balanced assignment of highest total likelihood; independent of the order of the classes",
}
RULES = {
    "source-free": "the last epoch: no real data has a say (the verdict's rule)",
    "validation": "the best epoch on a validation split, measured on the rest",
    "worst-case": "the best epoch on the evaluation data itself: an upper bound",
}
SCALES = {
    "native": "the head as released",
    "canonical": "rows centred, and the median retain row brought to a fixed norm (default)",
    "sweep": "canonical, and a curve from half to twice that norm",
    "NUMBER": "rows centred, and the median retain row brought to this norm",
}


def _registry(module: str) -> dict[str, str]:
    """Describe the entries of a module with ``names`` and ``get``."""
    found = import_module(module)
    return {name: found.get(name).description for name in found.names()}


def _backbones() -> dict[str, str]:
    backbones = import_module("sfra.models.backbones")
    return {name: backbones.describe(name) for name in backbones.names()}


def _datasets() -> dict[str, str]:
    found: dict[str, str] = import_module("sfra.data").datasets()
    return found


def _methods() -> dict[str, str]:
    unlearn = import_module("sfra.unlearn")
    return {name: _sentence(unlearn.describe(name).summary) for name in unlearn.names()}


def _protocols() -> dict[str, str]:
    protocol = import_module("sfra.bench.protocol")
    return {name: protocol.describe_protocol(name) for name in protocol.protocol_names()}


def _recipes() -> dict[str, str]:
    recipes = import_module("sfra.models.recipes")
    return {name: recipes.describe(name) for name in recipes.names()}


def _findings() -> dict[str, str]:
    """Describe every finding by the first line of its rule's documentation."""
    findings = import_module("sfra.auditing.findings")
    rules = {code: getattr(findings, code.replace("-", "_")).__doc__ or "" for code in findings.CODES}
    return {code: "raised" + _sentence(text).removeprefix("Fire").partition(";")[0] for code, text in rules.items()}


def _sentence(documentation: str) -> str:
    """Return the first line of a documentation without its markup."""
    line = documentation.strip().partition("\n")[0].rstrip(".")
    return re.sub(r":\w+:(?=`)|`", "", line)


LISTS: dict[str, tuple[str, Callable[[], dict[str, str]]]] = {
    "assignments": ("how several forget classes share the probes (--assignment)", lambda: ASSIGNMENTS),
    "backbones": ("architectures that can be built by name (--backbone, --arch)", _backbones),
    "datasets": ("data sets that can be loaded by name (--data)", _datasets),
    "findings": ("what an audit may say about its own score", _findings),
    "methods": ("unlearning methods (--method)", _methods),
    "proposals": (
        "distributions that probes are drawn from (--proposal)",
        lambda: _registry("sfra.attack.probes.proposals"),
    ),
    "protocols": ("benchmarks that can be run by name (sfra bench run)", _protocols),
    "recipes": (
        "how a backbone is trained on a data set and made to forget (--recipe; DATA-BACKBONE is the usual one)",
        _recipes,
    ),
    "rules": ("which epoch of the relearning counts", lambda: RULES),
    "scales": ("at which scale the head is audited (--scale)", lambda: SCALES),
    "scores": ("scores that rank the probes (--score)", lambda: _registry("sfra.attack.probes.scores")),
}
"""What can be listed: what it is, and how to find it; nothing is imported for the others."""


def list_(
    kind: Annotated[
        str | None, typer.Argument(metavar="KIND", help=f"One of {', '.join(LISTS)}.", show_default=False)
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print a JSON array of names and descriptions.")] = False,
    debug: Annotated[bool, typer.Option("--debug", help="Show where in the program an error arose.")] = False,
) -> None:
    """List the names that options take.

    Without KIND, list what can be listed.
    """
    if kind is not None and kind not in LISTS:
        raise InputError("there is no such list", expected=", ".join(LISTS), got=kind, do=meant(kind, LISTS))
    entries = LISTS[kind][1]() if kind else {name: what for name, (what, _) in LISTS.items()}
    if json:
        print_json(dump([{"name": name, "description": text} for name, text in entries.items()]))
        return
    width = max(map(len, entries))
    for name, text in entries.items():
        typer.echo(_fold(f"{name:<{width}}  {text}", width + 2))


def _fold(line: str, indent: int) -> str:
    """Wrap a line for the eye on a terminal; elsewhere it stays one line, for other programs."""
    if not sys.stdout.isatty():
        return line
    return textwrap.fill(line, shutil.get_terminal_size().columns - 1, subsequent_indent=" " * indent)
