"""``audit.json``: real results fit the schema, and the documentation lists what the types hold."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import typer.main

from builders.cli import FORGET, SMALL, Files, Run
from sfra.auditing import result
from sfra.auditing.schema import json_schema
from sfra.cli.app import app

DOCS = Path(__file__).parents[2] / "docs"


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    found = json_schema()
    jsonschema.Draft202012Validator.check_schema(found)
    return found


def problems(schema: dict[str, Any], content: dict[str, Any]) -> list[str]:
    checker: Any = jsonschema.Draft202012Validator(schema)
    return [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}" for e in checker.iter_errors(content)]


@pytest.mark.parametrize("case", ["no data", "sweep", "compared", "missing row", "images"])
def test_real_audit_fits_the_schema(files: Files, run: Run, schema: dict[str, Any], case: str) -> None:
    commands: dict[str, tuple[object, ...]] = {
        "no data": ("audit", files.head, "--forget", FORGET, *SMALL),
        "sweep": (*files.measured, "--scale", "sweep", "--forget", 1),
        "compared": (*files.compared, "--scale", "sweep", "--seeds", 2, "--diagnostics"),
        "missing row": ("audit", files.headless, "--forget", 3, "--data", files.features, "--missing-row", *SMALL),
        "images": ("audit", files.state_dict, "--arch", "small-mlp", "--forget", 7, "--data", "digits", *SMALL),
    }
    content = json.loads(run(*commands[case], "--no-cache", "--json").out)
    assert problems(schema, content) == []
    expected = {"no data": None, "images": "images"}.get(case, "features")
    assert (content["data"] or {}).get("kind") == expected


def test_schema_is_strict(files: Files, run: Run, schema: dict[str, Any]) -> None:
    content = json.loads(run(*files.measured, "--json").out)
    spoiled = [
        {key: value for key, value in content.items() if key != "rs"},
        content | {"rs": 1.5},
        content | {"verdict": "fine"},
        content | {"retain": {"before": 5}},
        content | {"results": [content["results"][0] | {"rs": None}]},
    ]
    assert all(problems(schema, one) for one in spoiled)


def documented(heading: str) -> list[str]:
    """Names in the first column of the tables below a heading."""
    text = (DOCS / "audit-json.md").read_text(encoding="utf-8")
    section = re.split(r"^## ", text, flags=re.MULTILINE)
    body = next(part for part in section if part.startswith(heading))
    return re.findall(r"^\| `([a-z_]+)` \|", body, flags=re.MULTILINE)


@pytest.mark.parametrize(
    ("heading", "part"),
    [
        ("Top level", result.AuditResult),
        ("`findings`", result.Finding),
        ("`results`", result.Score),
        ("`sweep`", result.Sweep),
        ("`traces`", result.RunTrace),
        ("`confusion`", result.Confusion),
        ("`probes`", result.ProbeFacts),
        ("`model`", result.ReleaseFacts),
        ("`data`", result.DataFacts),
    ],
)
def test_documentation_lists_the_fields_of_the_types(heading: str, part: type[msgspec.Struct]) -> None:
    assert documented(heading) == list(part.__struct_fields__)


def test_documentation_lists_the_settings(files: Files, run: Run) -> None:
    assert documented("`settings`") == [*json.loads(run(*files.measured, "--json").out)["settings"]]


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """List the commands, those of a group by their full name."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def long_options(command: Any) -> list[str]:
    """List the options of a command by their long names."""
    return [option for param in command.params for option in param.opts if option.startswith("--")]


def test_documentation_lists_the_options_of_every_command_and_no_others() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    known = dict(commands(typer.main.get_command(app)))
    for name, command in known.items():
        body = re.search(rf"^## `sfra {name}`(.*?)(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL)
        assert body is not None, name
        own = re.findall(r"^\| `(--[a-z-]+)", body[1], flags=re.MULTILINE)
        shared = re.findall(r"^As in `sfra ([a-z ]+)`: (.*)$", body[1], flags=re.MULTILINE)
        borrowed = [option for _, line in shared for option in re.findall(r"`(--[a-z-]+)`", line)]
        assert sorted(own + borrowed) == sorted(long_options(command)), name
        for other, _ in shared:
            assert {*borrowed} <= {*long_options(known[other])}, name
