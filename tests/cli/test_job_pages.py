"""Job pages: ``--junit`` and ``--markdown`` of an audit, ``sfra card``, and the examples for CI systems."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as Xml

import numpy as np
import pytest
import yaml

from builders.audits import FORGET, ROWS, SMALL, Toy, hidden, knowing, never_seen
from builders.cli import Files, Run

EXAMPLES = Path(__file__).parents[2] / "examples" / "ci"


def test_junit_is_replaced_and_markdown_is_appended_before_a_gate_fails(files: Files, run: Run) -> None:
    pages = ("--junit", "new/junit.xml", "--markdown", "new/summary.md")
    Path("new").mkdir()
    Path("new/summary.md").write_text("from an earlier step")
    for _ in range(2):
        ran = run(*files.measured, "--quiet", *pages, "--fail-if", "seconds>=0", "--fail-if", "findings>99")
        assert (ran.code, ran.out) == (1, "")
    cases = Xml.parse("new/junit.xml").findall("testsuite/testcase")  # noqa: S314 - our own text
    assert [case.attrib["name"] for case in cases][1:] == ["fail-if seconds >= 0", "fail-if findings > 99"]
    assert [len(case) for case in cases][1:] == [1, 0]
    text = Path("new/summary.md").read_text()
    assert text.startswith("from an earlier step\n### Unlearning audit: ")
    assert text.count("### Unlearning audit: ") == text.count("- failed: `fail-if seconds >= 0`") == 2


@pytest.mark.parametrize("option", ["--junit", "--markdown"])
def test_a_page_that_cannot_be_written_is_refused_before_the_audit(files: Files, run: Run, option: str) -> None:
    Path("taken").mkdir()
    for place in ("taken", "head.npz/page"):
        ran = run(*files.measured, option, place)
        assert ran.code == 2
        assert "relearning" not in ran.err


def test_card_prints_metadata_and_a_section_of_kept_audits(files: Files, run: Run) -> None:
    run(*files.compared, "--out", "out", "--quiet")
    card = run("card", "out", "--name", "org/model")
    assert (card.code, card.err) == (0, "")
    assert card.out.startswith('---\nmodel-index:\n- name: "org/model"\n')
    assert "\n## Unlearning audit\n" in card.out
    run("audit", files.head, "--forget", 3, "--n", 200, "--m", 20, "--epochs", 3, "--out", "bare", "--quiet")
    refused = run("card", "bare")
    assert (refused.code, refused.out) == (2, "")
    assert "the verdict not-measured" in refused.err


# the examples


def example(name: str) -> dict[Any, Any]:
    found = yaml.safe_load((EXAMPLES / name).read_text(encoding="utf-8"))
    assert isinstance(found, dict)
    return found


def github() -> tuple[str, str]:
    """Return the command line of the audit and the place of its JUnit file."""
    workflow = example("github.yml")
    assert workflow[True].keys() == {"push", "pull_request"}  # YAML reads "on" so
    steps = workflow["jobs"]["audit"]["steps"]
    return next(step["run"] for step in steps if step.get("name") == "Audit"), "audit/junit.xml"


def gitlab() -> tuple[str, str]:
    job = example("gitlab.yml")["unlearning-audit"]
    (line,) = job["script"]
    return line, job["artifacts"]["reports"]["junit"]


def save(toy: Toy, name: str) -> None:
    np.savez(f"{name}.npz", weight=toy.head.weight.numpy(), bias=toy.head.bias.numpy())
    np.savez(f"{name}-features.npz", features=toy.data.features.numpy(), labels=toy.data.labels.numpy())


@pytest.mark.usefixtures("files")
@pytest.mark.parametrize(("system", "cleared", "code"), [(github, False, 1), (gitlab, True, 0)])
def test_the_example_gates_a_model(system: Any, cleared: bool, code: int) -> None:
    save(never_seen(seed=6).with_row(0.5 * ROWS[FORGET], -1.0) if cleared else hidden(), "model")
    save(never_seen(), "reference")
    save(knowing(seed=9), "original")
    settings = " ".join(f"--{name} {value}" for name, value in SMALL.items())
    data = "--data model-features.npz --reference reference.npz --reference-data reference-features.npz "
    data += "--control original.npz --control-data original-features.npz"
    Path("bin").mkdir()
    Path("bin/sfra").write_text(f'#!/bin/sh\nexec "{sys.executable}" -m sfra "$@"\n')
    Path("bin/sfra").chmod(0o755)
    line, junit = system()
    environment = {
        **os.environ,
        "AUDIT": f"model.npz --forget {FORGET} {data} {settings}",
        "GITHUB_STEP_SUMMARY": "audit-summary.md",
        "PATH": f"{Path('bin').absolute()}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(sys.path),
    }
    done = subprocess.run(["bash", "-e", "-c", line], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == code, done.stderr
    root = Xml.parse(junit).getroot()  # noqa: S314 - our own text
    assert root is not None
    assert (root.attrib["tests"], root.attrib["failures"]) == ("2", "0" if cleared else "2")
    summaries = [*Path().glob("*.md"), *Path("audit").glob("*.md")]
    assert [text.read_text().count("### Unlearning audit: ") for text in summaries] == [1]
    assert Path("audit/audit.json").is_file()
