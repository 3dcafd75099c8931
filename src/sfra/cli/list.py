"""``sfra list``: the names that options take, one line each, read from the registries."""

from __future__ import annotations

import re
import shutil
import sys
import textwrap
from collections.abc import Callable, Mapping
from importlib import import_module
from typing import Annotated, Any

import typer

from sfra.cli.command import print_json
from sfra.cli.options import argument, group
from sfra.core.errors import InputError, meant

option = group("Options")
NUMBER = {"NUMBER": "centred rows with this median norm"}


def _from(module: str, describe: Callable[[Any], Mapping[str, str]]) -> Callable[[], Mapping[str, str]]:
    """Describe the names of a registry; its module is imported only when it is asked for."""
    return lambda: describe(import_module(module))


def _described(registry: Any) -> dict[str, str]:
    return {name: registry.describe(name) for name in registry.names()}


def _sentence(documentation: str | None) -> str:
    """Return the first line of a documentation without its markup."""
    line = (documentation or "").strip().partition("\n")[0].rstrip(".").partition(";")[0]
    return re.sub(r":\w+:(?=`)|`", "", line).replace("Fire when", "raised when", 1)


LISTS: dict[str, tuple[str, Callable[[], Mapping[str, str]]]] = {
    "assignments": (
        "how several forget classes share the probes (--assignment)",
        _from("sfra.attack.known", lambda found: found.NAMES["assignment"]),
    ),
    "backbones": (
        "architectures that can be built by name (--backbone, --arch)",
        _from("sfra.models.backbones", _described),
    ),
    "datasets": ("data sets that can be loaded by name (--data)", _from("sfra.data", lambda data: data.datasets())),
    "figures": (
        "figures that pages show and sfra report --figures writes, of an audit or of a benchmark",
        _from("sfra.report", lambda found: {"/".join(key): one.title for key, one in found.FIGURES.items()}),
    ),
    "findings": (
        "what an audit may say about its own score (sfra explain CODE)",
        _from("sfra.auditing.findings", lambda found: {k: _sentence(f.__doc__) for k, f in found.FINDINGS.items()}),
    ),
    "loaders": (
        "what a released model may be (sfra audit MODEL)",
        _from("sfra.release", lambda release: {one.name: one.description for one in release.LOADERS}),
    ),
    "methods": (
        "unlearning methods (--method)",
        _from("sfra.unlearn", lambda found: {k: _sentence(found.describe(k).summary) for k in found.names()}),
    ),
    "proposals": (
        "distributions that probes are drawn from (--proposal)",
        _from("sfra.attack.known", lambda found: found.NAMES["proposal"]),
    ),
    "protocols": (
        "benchmarks that can be run by name (sfra bench run)",
        _from(
            "sfra.bench.protocol",
            lambda found: {name: found.load_protocol(name).description for name in found.protocol_names()},
        ),
    ),
    "recipes": (
        "how a backbone is trained on a data set and made to forget (--recipe; DATA-BACKBONE is the usual one)",
        _from("sfra.models.recipes", _described),
    ),
    "rules": (
        "which epoch of the relearning counts",
        _from("sfra.auditing.rules", lambda found: {name: rule.sentence for name, rule in found.RULES.items()}),
    ),
    "scales": (
        "at which scale the head is audited (--scale)",
        _from("sfra.attack.known", lambda found: found.NAMES["scale"] | NUMBER),
    ),
    "scores": ("scores that rank the probes (--score)", _from("sfra.attack.known", lambda found: found.NAMES["score"])),
    "verdicts": (
        "what an audit may conclude, gravest first (sfra explain CODE)",
        _from("sfra.auditing.verdicts", lambda found: {k: one.meaning for k, one in found.VERDICTS.items()}),
    ),
    "weights": (
        "how much forget probes count in the loss (--forget-weight)",
        _from("sfra.attack.known", lambda found: found.NAMES["forget_weight"]),
    ),
}
"""What can be listed: what it is, and how to find it; nothing is imported for the others."""


def names(kind: str) -> list[str]:
    """Return the names of a list that can be typed as they stand."""
    if kind == "findings":
        from sfra.auditing.explain import explanations

        return [*explanations()]  # the same names, without an import of the findings: a shell completes at once
    return [name for name in LISTS[kind][1]() if not name.isupper()]


def list_(
    kind: Annotated[
        str | None, argument("Options", "KIND", f"One of {', '.join(LISTS)}.", autocompletion=lambda: [*LISTS])
    ] = None,
    json: Annotated[bool, option(None, "Print a JSON array of names and descriptions.", "--json")] = False,
    debug: Annotated[bool, option(None, "Add the traceback to an error.", "--debug")] = False,
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
    print_names(entries)


def print_names(entries: Mapping[str, str]) -> None:
    """Print a line for each name."""
    indent = max(map(len, entries)) + 2
    for name, text in entries.items():
        print_entry(f"{name:<{indent}}{text}", indent)


def print_entry(line: str, indent: int) -> None:
    """Print a name and what is said of it; for the eye wrapped, for other programs in one line."""
    if sys.stdout.isatty():
        width = shutil.get_terminal_size().columns - 1
        line = textwrap.fill(line, width, subsequent_indent=" " * indent, break_on_hyphens=False)
    typer.echo(line)
