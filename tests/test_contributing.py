"""The entries that CONTRIBUTING shows: each block is run, and its entry is seen where users look."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from builders.cli import Files, run
from sfra.attack.known import NAMES
from sfra.auditing.findings import FINDINGS, Finding
from sfra.auditing.schema import json_schema

Capture = pytest.CaptureFixture[str]
TEXT = (Path(__file__).parents[1] / "CONTRIBUTING.md").read_text(encoding="utf-8")


def added(file: str, module: str) -> dict[str, Any]:
    """Run the block of code that is shown for a file in the namespace of its module; return what it defines."""
    [block] = [
        code
        for code in re.findall(r"^```python\n(.*?)^```", TEXT, re.M | re.S)
        if code.startswith(f"# src/sfra/{file}")
    ]
    names = dict(vars(import_module(module)))
    exec(block, names)  # noqa: S102
    return names


@pytest.fixture(autouse=True)
def registries() -> Iterator[None]:
    """Give every registry back as it was."""
    homes = {"sfra.auditing.rules": "RULES", "sfra.attack.scale": "SCALES", "sfra.auditing.findings": "FINDINGS"}
    found = [getattr(import_module(module), name) for module, name in homes.items()]
    found.append(NAMES["scale"])
    before = [dict(registry) for registry in found]
    yield
    for registry, entries in zip(found, before, strict=True):
        registry.clear()
        registry.update(entries)


def audited(capfd: Capture, files: Files, *options: object) -> dict[str, Any]:
    result: dict[str, Any] = json.loads(run(capfd, *files.measured, *options, "--json").out)
    return result


def listed(capfd: Capture, kind: str) -> set[str]:
    return {entry["name"] for entry in json.loads(run(capfd, "list", kind, "--json").out)}


def test_shown_rule_is_listed_scored_and_may_be_a_gate(tmp_path: Path, capfd: Capture) -> None:
    added("auditing/rules.py", "sfra.auditing.rules")
    assert "middle" in listed(capfd, "rules")
    found = audited(capfd, Files(tmp_path), "--fail-if", "canonical.released.middle.rs>2")
    assert {row["epoch"] for row in found["results"] if row["rule"] == "middle"} == {2}
    assert "middle" in json_schema()["$defs"]["Score"]["properties"]["rule"]["enum"]


def test_shown_scale_is_listed_and_audited(tmp_path: Path, capfd: Capture) -> None:
    added("attack/scale.py", "sfra.attack.scale")
    added("attack/known.py", "sfra.attack.known")
    assert "uncentred" in listed(capfd, "scales")
    assert audited(capfd, Files(tmp_path), "--scale", "uncentred")["scale"] == "uncentred"


def test_shown_finding_is_listed_and_raised(tmp_path: Path, capfd: Capture) -> None:
    high_score = added("auditing/findings/score.py", "sfra.auditing.findings.score")["high_score"]
    assert "high-score" in listed(capfd, "findings")
    assert (high_score(0.95).code, high_score(0.9)) == ("high-score", None)
    assert "high-score" in json_schema()["$defs"]["Finding"]["properties"]["code"]["enum"]
    FINDINGS["high-score"] = lambda rs: Finding("high-score", "info", rs, None, "Any.")
    found = audited(capfd, Files(tmp_path))["findings"]
    assert "high-score" in [one["code"] for one in found]
