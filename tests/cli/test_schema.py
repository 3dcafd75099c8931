"""``audit.json``: real results, the schema in the package and the documentation agree."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jsonschema
import msgspec
import pytest
import typer.main

import sfra
from builders.cli import FORGET, Files
from sfra.auditing import result
from sfra.auditing.result import AuditReport
from sfra.auditing.schema import json_schema
from sfra.auditing.verdict import VERDICTS
from sfra.cli.app import app

DOCS = Path(__file__).parents[2] / "docs"
SMALL: dict[str, Any] = {"n": 200, "m": 20, "epochs": 3}


@pytest.fixture(scope="module")
def schema() -> dict[str, Any]:
    found = json_schema()
    jsonschema.Draft202012Validator.check_schema(found)
    return found


def without_data(files: Files) -> AuditReport:
    return sfra.audit(str(files.head), FORGET, **SMALL)


def with_data(files: Files) -> AuditReport:
    return sfra.audit(str(files.head), FORGET, data=str(files.features), **SMALL)


def compared(files: Files, **settings: Any) -> AuditReport:
    return sfra.audit(
        str(files.head),
        FORGET,
        data=str(files.features),
        reference=str(files.reference),
        reference_data=str(files.reference_features),
        **SMALL,
        **settings,
    )


def missing_row(files: Files) -> AuditReport:
    return sfra.audit(str(files.headless), FORGET, data=str(files.features), missing_row=True, **SMALL)


CASES: dict[str, Callable[[Files], AuditReport]] = {
    "without data": without_data,
    "with data": with_data,
    "with a reference": compared,
    "native": lambda files: compared(files, scale="native"),
    "a number for a scale": lambda files: compared(files, scale=3.0),
    "a sweep": lambda files: compared(files, scale="sweep"),
    "a sweep without a reference": lambda files: sfra.audit(
        str(files.head), FORGET, data=str(files.features), scale="sweep", **SMALL
    ),
    "several seeds": lambda files: compared(files, seeds=2),
    "a missing row": missing_row,
    "two classes": lambda files: sfra.audit(str(files.head), [1, 3], data=str(files.features), **SMALL),
    "images with class names": lambda files: sfra.audit(
        str(files.state_dict), "7", arch="small-mlp", data="digits", cache=False, **SMALL
    ),
}


def test_the_data_say_whether_they_are_features_or_images(files: Files, schema: dict[str, Any]) -> None:
    kinds = {
        name: json.loads(CASES[name](files).to_json())
        for name in ("with data", "images with class names", "without data")
    }
    assert [(one["data"] or {}).get("kind") for one in kinds.values()] == ["features", "images", None]
    older = kinds["with data"]
    del older["data"]["kind"]
    assert problems(schema, older) == []
    assert problems(schema, older | {"data": older["data"] | {"kind": "sounds"}}) != []


def problems(schema: dict[str, Any], content: dict[str, Any]) -> list[str]:
    checker: Any = jsonschema.Draft202012Validator(schema)
    return [f"{'/'.join(map(str, e.absolute_path))}: {e.message[:200]}" for e in checker.iter_errors(content)]


@pytest.mark.parametrize("case", CASES)
def test_a_real_audit_fits_the_schema(files: Files, schema: dict[str, Any], case: str) -> None:
    content = json.loads(CASES[case](files).to_json())
    assert problems(schema, content) == []


def test_the_schema_is_strict(files: Files, schema: dict[str, Any]) -> None:
    content = json.loads(with_data(files).to_json())
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
def test_the_documentation_lists_the_fields_of_the_types(heading: str, part: type[msgspec.Struct]) -> None:
    assert documented(heading) == list(part.__struct_fields__)


def test_the_documentation_lists_the_settings(files: Files) -> None:
    assert documented("`settings`") == [*with_data(files).settings]


def test_every_verdict_is_documented() -> None:
    text = (DOCS / "audit-json.md").read_text(encoding="utf-8")
    assert all(f"`{verdict}`" in text for verdict in VERDICTS)


def commands(group: Any, prefix: str = "") -> Iterator[tuple[str, Any]]:
    """List the commands, those of a group by their full name."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{prefix}{name} ")
        else:
            yield f"{prefix}{name}", command


def test_the_commands_and_their_options_are_documented_and_no_others() -> None:
    text = (DOCS / "cli.md").read_text(encoding="utf-8")
    for name, command in commands(typer.main.get_command(app)):
        body = re.search(rf"^## `sfra {name}`(.*?)(?=^## |\Z)", text, flags=re.MULTILINE | re.DOTALL)
        assert body is not None, name
        options = {option for param in command.params for option in param.opts if option.startswith("--")}
        assert {*re.findall(r"^\| `(--[a-z-]+)", body[1], flags=re.MULTILINE)} == options
