"""``sfra list``: the names that options take, one line each, read from the registries."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Callable
from importlib import import_module
from typing import Annotated, Any

import typer

from sfra.cli.command import print_json
from sfra.cli.options import argument, group
from sfra.core.errors import InputError, meant

option = group("Options")

ASSIGNMENTS = {
    "greedy": "forget classes take turns in ascending index, each its likeliest probes (default)",
    "optimal": "the balanced assignment of highest total likelihood; independent of the order of the classes",
}


def _of(module: str, describe: Callable[[Any, str], str]) -> Callable[[], dict[str, str]]:
    """Describe the names of a registry, which is imported only when it is asked for."""

    def entries() -> dict[str, str]:
        found = import_module(module)
        return {name: describe(found, name) for name in found.names()}

    return entries


def _protocols() -> dict[str, str]:
    protocol = import_module("sfra.bench.protocol")
    return {name: protocol.describe_protocol(name) for name in protocol.protocol_names()}


def _sentences(module: str, registry: str) -> Callable[[], dict[str, str]]:
    """Describe a registry whose entries carry a sentence."""
    return lambda: {name: entry.sentence for name, entry in getattr(import_module(module), registry).items()}


def _scales() -> dict[str, str]:
    return _sentences("sfra.attack.scale", "SCALES")() | {"NUMBER": "centred rows with this median norm"}


def _findings() -> dict[str, str]:
    """Describe every finding by the first line of its documentation."""
    found = import_module("sfra.auditing.findings").FINDINGS
    told = {code: _sentence(check.__doc__ or "").partition(";")[0] for code, check in found.items()}
    return {code: text.replace("Fire when", "raised when", 1) for code, text in told.items()}


def _sentence(documentation: str) -> str:
    """Return the first line of a documentation without its markup."""
    line = documentation.strip().partition("\n")[0].rstrip(".")
    return re.sub(r":\w+:(?=`)|`", "", line)


LISTS: dict[str, tuple[str, Callable[[], dict[str, str]]]] = {
    "assignments": ("how several forget classes share the probes (--assignment)", lambda: ASSIGNMENTS),
    "backbones": (
        "architectures that can be built by name (--backbone, --arch)",
        _of("sfra.models.backbones", lambda registry, name: str(registry.describe(name))),
    ),
    "datasets": (
        "data sets that can be loaded by name (--data)",
        lambda: dict(import_module("sfra.data").datasets()),
    ),
    "findings": ("what an audit may say about its own score", _findings),
    "loaders": (
        "what a released model may be (sfra audit MODEL)",
        lambda: {loader.name: loader.description for loader in import_module("sfra.release").LOADERS},
    ),
    "methods": (
        "unlearning methods (--method)",
        _of("sfra.unlearn", lambda registry, name: _sentence(registry.describe(name).summary)),
    ),
    "proposals": (
        "distributions that probes are drawn from (--proposal)",
        _of("sfra.attack.probes.proposals", lambda registry, name: str(registry.get(name).description)),
    ),
    "protocols": ("benchmarks that can be run by name (sfra bench run)", _protocols),
    "recipes": (
        "how a backbone is trained on a data set and made to forget (--recipe; DATA-BACKBONE is the usual one)",
        _of("sfra.models.recipes", lambda registry, name: str(registry.describe(name))),
    ),
    "rules": ("which epoch of the relearning counts", _sentences("sfra.auditing.rules", "RULES")),
    "scales": ("at which scale the head is audited (--scale)", _scales),
    "scores": (
        "scores that rank the probes (--score)",
        _of("sfra.attack.probes.scores", lambda registry, name: str(registry.get(name).description)),
    ),
}
"""What can be listed: what it is, and how to find it; nothing is imported for the others."""


def list_(
    kind: Annotated[str | None, argument("Options", "KIND", f"One of {', '.join(LISTS)}.")] = None,
    json: Annotated[bool, option(None, "Print a JSON array of names and descriptions.", "--json")] = False,
    debug: Annotated[bool, option(None, "Show where in the program an error arose.", "--debug")] = False,
) -> None:
    """List the names that options take.

    Without KIND, list what can be listed.
    """
    if kind is not None and kind not in LISTS:
        raise InputError(f"there is no list of {kind}", expected=", ".join(LISTS), got=kind, do=meant(kind, LISTS))
    entries = LISTS[kind][1]() if kind else {name: what for name, (what, _) in LISTS.items()}
    if json:
        print_json([{"name": name, "description": text} for name, text in entries.items()])
        return
    indent = max(map(len, entries)) + 2
    for name, text in entries.items():
        line = f"{name:<{indent}}{text}"
        if sys.stdout.isatty():  # wrapped for the eye; for other programs every entry stays one line
            line = textwrap.fill(line, shutil.get_terminal_size().columns - 1, subsequent_indent=" " * indent)
        typer.echo(line)
