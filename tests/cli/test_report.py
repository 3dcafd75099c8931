"""``sfra report``: what it writes, and what it refuses before it reads anything."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders.cli import Files, run
from builders.pages import true_audit
from sfra.report.export import Exported

Capture = pytest.CaptureFixture[str]


def write_audit(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "audit.json").write_text(json.dumps(true_audit()), encoding="utf-8")
    return folder


def test_one_audit_makes_its_page(files: Files, capfd: Capture) -> None:
    write_audit(files.folder / "results")
    ran = run(capfd, "report", "results")
    assert (ran.code, ran.out, ran.err) == (0, "Written to report.html.\n", "")
    assert "<h1>Audit of a head</h1>" in Path("report.html").read_text(encoding="utf-8")


def test_several_audits_make_one_page(files: Files, capfd: Capture) -> None:
    write_audit(files.folder / "all" / "one")
    write_audit(files.folder / "all" / "two")
    assert run(capfd, "report", "all", "--out", "sub/page.html", "--quiet").out == ""
    page = Path("sub/page.html").read_text(encoding="utf-8")
    assert "2 audits." in page
    assert '<a href="#audit-1">two</a>' in page


def test_it_says_how_many_figures_were_written(files: Files, capfd: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    write_audit(files.folder / "results")
    for count, sentence in ((1, "1 figure was written.\n"), (2, "2 figures were written.\n")):
        made = Exported(written=[Path("a.svg")] * count, left_out={})
        monkeypatch.setattr("sfra.report.page.export_audits", lambda *given, made=made: made)
        assert run(capfd, "report", "results", "--figures", "figures").err == sentence


def test_an_audit_that_no_page_can_be_made_of_leaves_no_figures_either(files: Files, capfd: Capture) -> None:
    folder = write_audit(files.folder / "results")
    audit = json.loads((folder / "audit.json").read_text(encoding="utf-8"))
    del audit["trajectory"]
    (folder / "audit.json").write_text(json.dumps(audit), encoding="utf-8")
    ran = run(capfd, "report", "results", "--figures", "figures")
    assert ran.code == 2
    assert "Traceback" not in ran.err
    assert not Path("figures").exists()
    assert not Path("report.html").exists()


def test_figures_of_a_folder_named_by_its_parent_stay_where_they_are_asked_for(files: Files, capfd: Capture) -> None:
    write_audit(files.folder / "all")
    write_audit(files.folder / "other")
    (files.folder / "all" / "sub").mkdir()
    assert run(capfd, "report", "all/sub/..", "other", "--figures", "deep/figures", "--quiet").code == 0
    assert {path.name for path in Path("deep").iterdir()} == {"figures"}
    assert {path.name for path in Path("deep/figures").iterdir()} == {"all", "other"}


def test_figures_are_written_next_to_it_and_told_as_json(files: Files, capfd: Capture) -> None:
    write_audit(files.folder / "results")
    ran = run(capfd, "report", "results/audit.json", "--figures", "figures", "--format", "svg", "--json")
    told = json.loads(ran.out)
    assert told["schema"] == "sfra.report/1"
    assert told["bytes"] == Path("report.html").stat().st_size
    assert {Path(path).name for path in told["figures"]} == {path.name for path in Path("figures").iterdir()}
    assert "trajectory.svg" in {Path(path).name for path in told["figures"]}
    assert "sweep" in " ".join(told["left_out"])


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ([], "say what to report"),
        (["results", "--bench", "digits"], "say what to report"),
        (["--bench", "digits"], "there is no benchmark store at sfra-bench"),
        (["results", "--store", "x"], "--store is of no use without --bench"),
        (["results", "--format", "pdf"], "--format is of no use without --figures"),
        (["results", "--figures", "f", "--format", "gif"], "expected: svg, pdf, png"),
        (["results", "--figures", "results/head.npz"], "expected: --figures with a folder, existing or not"),
        (["results", "--out", "report.pdf"], "a file that ends in .html"),
        (["results", "--out", "folder.html"], "a file or nothing at"),
        (["nowhere"], "there is no audit to report"),
        (["results/head.npz"], "head.npz cannot be read\n  expected: an audit.json that sfra wrote, in UTF-8"),
        (["--bench", "digits", "--store", "nowhere"], "nowhere"),
    ],
)
def test_what_cannot_be_reported_is_refused_and_nothing_written(
    files: Files, capfd: Capture, arguments: list[str], words: str
) -> None:
    (write_audit(files.folder / "results") / "head.npz").write_bytes(b"PK\x03\x04\xff\xfe")
    (files.folder / "folder.html").mkdir()
    before = sorted(files.folder.rglob("*"))
    ran = run(capfd, "report", *arguments)
    assert ran.code == 2
    assert words in ran.err
    assert ran.err.startswith("error: ")
    assert sorted(files.folder.rglob("*")) == before
