"""The demonstration: one real run, and what it does with its folder and its listener."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

import sfra.demo.story as story
from builders.pages import Parsed
from sfra import unlearn
from sfra.auditing.audit import audit
from sfra.auditing.result import SCHEMA, AuditReport
from sfra.core.head import Head
from sfra.demo.models import ARCH, NamedModel
from sfra.demo.story import FORGET, run_demo
from sfra.models.backbones import build

RELEASES = ["masked", "delete", "bad-teacher", "finetune", "retrained"]
COLUMNS = ["retain_before", "forget_before", "retain_after", "forget_after", "rs", "delta_rs"]


def test_the_demo_finds_what_is_hidden_and_accuses_no_honest_release(demo_folder: Path) -> None:
    content = json.loads((demo_folder / "demo.json").read_text(encoding="utf-8"))
    rows = {row["model"]: row for row in content["rows"]}
    assert list(rows) == ["reference", *RELEASES]

    for name in ("masked", "delete", "bad-teacher"):  # approximate methods, and one that hides the class by design
        assert rows[name]["forget_before"] < 0.1, name
        assert rows[name]["delta_rs"] > 0.1, name
        assert rows[name]["verdict"] in ("recovered", "recovered-after-reset"), name
    assert rows["bad-teacher"]["rs"] > 0.8
    assert rows["retrained"]["verdict"] not in ("recovered", "recovered-after-reset")
    assert rows["retrained"]["delta_rs"] < min(rows[name]["delta_rs"] for name in ("masked", "delete", "bad-teacher"))

    assert rows["reference"]["rs"] == content["reference_rs"]
    assert rows["reference"]["forget_before"] == 0.0
    for name, report in content["audits"].items():
        assert report["reference_rs"] == content["reference_rs"], name
        assert rows[name]["delta_rs"] == pytest.approx(rows[name]["rs"] - content["reference_rs"])
        assert rows[name]["verdict"] == report["verdict"]
        assert "reference-saw-class" not in {finding["code"] for finding in report["findings"]}


def test_the_folder_of_the_demo_holds_models_audits_and_a_page(demo_folder: Path) -> None:
    assert {path.name for path in demo_folder.iterdir()} == {"models", "demo.json", "report.html", *RELEASES}
    assert {path.stem for path in (demo_folder / "models").iterdir()} == {"original", "reference", *RELEASES}
    content = json.loads((demo_folder / "demo.json").read_text(encoding="utf-8"))
    assert (content["schema"], content["forget"]) == ("sfra.demo/1", FORGET)
    page = Parsed((demo_folder / "report.html").read_text(encoding="utf-8"))
    assert f"Digits that forgot the {FORGET}" in page.text
    assert f"gets an RS of {content['reference_rs']:.2f} in the same audit" in page.text
    assert list(content["recipes"]) == list(content["audits"]) == RELEASES
    for name in RELEASES:
        kept = json.loads((demo_folder / name / "audit.json").read_text(encoding="utf-8"))
        assert kept == content["audits"][name]
        assert kept["schema"] == SCHEMA
        row = next(row for row in content["rows"] if row["model"] == name)
        assert {column: row[column] for column in COLUMNS} == {column: kept["results"][0][column] for column in COLUMNS}
        assert f"{name} {row['story']}, forgot class {FORGET} {row['verdict']}" in page.text
        assert Head.load(demo_folder / name / "relearned_head.safetensors").classes == 10


def toys(forget: tuple[int, ...], *, seed: int, progress: Any) -> list[NamedModel]:
    """Make untrained networks in the place of the demo's."""
    roles: dict[str, Any] = {"original": "original", "reference": "reference", "one": "release", "two": "release"}
    made = []
    for number, (name, role) in enumerate(roles.items()):
        progress(name)
        model = build(ARCH, classes=10, seed=seed + number).eval()
        quality = unlearn.Quality(retain=0.1, forget=0.0, aus=0.1)
        made.append(
            NamedModel(name=name, role=role, story=f"{name} of {forget}", model=model, recipe={}, validation=quality)
        )
    return made


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Shrink the demo; collect how it calls the audit."""
    calls: list[dict[str, Any]] = []

    def quick(*arguments: Any, **settings: Any) -> AuditReport:
        calls.append(settings | {"model": arguments[0], "forget": arguments[1]})
        return audit(*arguments, **settings, n=100, m=10, epochs=1, threads=1)

    monkeypatch.setattr(story, "digits_models", toys)
    monkeypatch.setattr(story, "audit", quick)
    return calls


def test_without_the_packages_of_a_page_everything_else_is_written(
    small: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "report.html").write_text("of an earlier run")
    monkeypatch.setitem(sys.modules, "vl_convert", None)
    result = run_demo(tmp_path)
    assert result.page is None
    assert {path.name for path in tmp_path.iterdir()} == {"models", "demo.json", "one", "two"}
    assert small


def test_without_a_folder_nothing_is_kept_and_every_model_and_audit_is_told(
    small: list[dict[str, Any]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    told: list[tuple[str, int, int]] = []
    monkeypatch.chdir(tmp_path)
    result = run_demo(seed=5, progress=lambda *news: told.append(news))
    assert (result.out, result.page) == (None, None)
    assert list(tmp_path.iterdir()) == []
    assert not Path(small[0]["model"]).exists()
    assert told == [
        *((f"making the model {name}", done, 7) for done, name in enumerate(["original", "reference", "one", "two"])),
        ("auditing one", 0, 2),
        ("auditing two", 1, 2),
    ]
    trained = build(ARCH, classes=10, seed=5 + 2).state_dict()  # the seed is that of the trainings, not of the audits
    assert all(torch.equal(trained[name], part) for name, part in result.audited[0].model.model.state_dict().items())
    assert [(call.get("seed"), call["cache"]) for call in small] == [(None, False)] * 2
