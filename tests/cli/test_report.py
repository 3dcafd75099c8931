"""``sfra report``: what it writes, and what it refuses before it reads anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders.cli import Files, Run
from builders.pages import true_audit


def write_audit(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "audit.json").write_text(json.dumps(true_audit()), encoding="utf-8")
    return folder


def test_one_audit_makes_its_page(files: Files, run: Run) -> None:
    write_audit(files.folder / "results")
    ran = run("report", "results")
    assert (ran.code, ran.out, ran.err) == (0, "Written to report.html. Open it in a browser.\n", "")
    assert "<h1>Has class 2 been forgotten?</h1>" in Path("report.html").read_text(encoding="utf-8")


def test_several_audits_make_one_page_and_figures_in_folders_of_their_names(files: Files, run: Run) -> None:
    write_audit(files.folder / "all")
    write_audit(files.folder / "other")
    (files.folder / "all" / "sub").mkdir()
    ran = run("report", "all/sub/..", "other", "--figures", "deep/figures", "--out", "sub/page.html", "--quiet")
    assert (ran.code, ran.out) == (0, "")
    page = Path("sub/page.html").read_text(encoding="utf-8")
    assert "All 2 audits" in page
    assert '<a href="#audit-1">other</a>' in page
    assert {path.name for path in Path("deep").iterdir()} == {"figures"}
    assert {path.name for path in Path("deep/figures").iterdir()} == {"all", "other", "overview.svg"}


def test_broken_audit_leaves_neither_page_nor_figures(files: Files, run: Run) -> None:
    folder = write_audit(files.folder / "results")
    audit = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
    del audit["results"]
    (folder / "audit.json").write_text(json.dumps(audit), encoding="utf-8")
    ran = run("report", "results", "--figures", "figures")
    assert ran.code == 2
    assert "Traceback" not in ran.err
    assert not Path("figures").exists()
    assert not Path("report.html").exists()


def test_figures_are_written_and_told_in_words_and_as_json(files: Files, run: Run) -> None:
    write_audit(files.folder / "results")
    command = ("report", "results/audit.json", "--figures", "figures", "--format", "svg")
    told = json.loads(run(*command, "--json").out)
    written = {path.name for path in Path("figures").iterdir()}
    assert told["schema"] == "sfra.report/1"
    assert told["bytes"] == Path("report.html").stat().st_size
    assert {Path(path).name for path in told["figures"]} == written
    assert "sweep" in " ".join(told["left_out"])
    lines = run(*command).err.splitlines()
    assert lines[0] == f"{len(written)} figures were written."
    assert len(lines) == 1 + len(told["left_out"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "say what to report"),
        (["--bench", "digits"], "sfra-bench"),
        (["results", "--store", "x"], "--store needs --bench"),
        (["results", "--format", "pdf"], "--format needs --figures"),
        (["results", "--figures", "f", "--format", "gif"], "cannot write figures as gif"),
        (["results", "--out", "report.pdf"], "a file that ends in .html"),
        (["results/head.npz"], "head.npz"),
    ],
)
def test_report_refuses_bad_input_and_writes_nothing(files: Files, run: Run, arguments: list[str], words: str) -> None:
    (write_audit(files.folder / "results") / "head.npz").write_bytes(b"PK\x03\x04\xff\xfe")
    (files.folder / "folder.html").mkdir()
    before = sorted(files.folder.rglob("*"))
    ran = run("report", *arguments)
    assert ran.code == 2
    assert words in ran.err
    assert ran.err.startswith("error: ")
    assert sorted(files.folder.rglob("*")) == before
