"""A whole protocol, from nothing to tables, on real digits: short models and audits, but every kind of cell."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest
import torch
from msgspec.structs import replace

from builders.bench import in_this_process
from sfra.auditing.audit import audit
from sfra.bench.engine.store import Store
from sfra.bench.grid import protocol_status, retry_failed, run_protocol
from sfra.bench.plan import plan
from sfra.bench.protocol import Protocol
from sfra.bench.report import make_report
from sfra.bench.rows import accuracy, collect
from sfra.bench.tasks.measurements import read_features
from sfra.core.errors import InputError
from sfra.core.metrics import relearning_score
from sfra.data import ImageSet, load_data
from sfra.models.backbones.checkpoint import load_model

PROTOCOL = Protocol(
    name="short",
    dataset="digits",
    backbone="small-mlp",
    forget=((3,), (1, 6)),
    methods=("retrained", "delete"),
    audit={"n": 400, "m": 20, "epochs": 5},
    pra={"supports": 2},
    limits={"default": 300},
)


def digits() -> ImageSet:
    images = load_data("digits")
    assert isinstance(images, ImageSet)
    return images


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("bench") / "store"
    with in_this_process():
        summary = run_protocol(PROTOCOL, folder)
    assert summary.complete, [failure.message for failure in summary.failed]
    return folder


def test_the_reference_never_saw_the_class_and_the_original_did(store: Path) -> None:
    rows = collect(plan(PROTOCOL), Store(store, read_only=True))
    reference = next(r for r in rows.audits if r["method"] == "retrained" and r["forget"] == "3")
    assert reference["forget_before"] == 0.0
    assert reference["retain_before"] > 0.9
    assert reference["forget_original"] > 0.9
    assert reference["delta_rs"] == 0.0


def test_stored_models_are_ordinary_model_directories(store: Path) -> None:
    opened = Store(store, read_only=True)
    records = [record for kind in ("train", "unlearn", "mask") for record in opened.records(kind)]
    assert len(records) == 1 + 2 + 2 + 2  # the original, two references, delete twice, masked twice
    images = next(digits().batches(16))
    for record in records:
        model = load_model(opened.folder(record.key) / "model").model
        assert model(images).shape == (16, 10)


def test_features_are_those_of_the_model(store: Path) -> None:
    opened = Store(store, read_only=True)
    goal = next(g for g in plan(PROTOCOL) if g.identity["method"] == "delete" and g.what == "audit")
    cell = goal.cell.needs["test"]
    head, features = read_features(opened.folder(cell))
    model = load_model(opened.folder(cell.needs["model"]) / "model").model
    test = digits()
    with torch.no_grad():
        logits = model(next(test.batches(len(test))))
    assert torch.equal(features.labels, test.labels)
    torch.testing.assert_close(head(features.features), logits, rtol=1e-4, atol=1e-4)
    found = opened.result(cell)
    right = logits.argmax(1) == test.labels
    assert found["hits"] == [int(right[test.labels == k].sum()) for k in range(10)]
    assert found["samples"] == [int((test.labels == k).sum()) for k in range(10)]


def test_an_audit_of_the_grid_is_the_audit_of_its_model(store: Path) -> None:
    opened = Store(store, read_only=True)
    goal = next(g for g in plan(PROTOCOL) if g.identity["method"] == "delete" and g.what == "audit")
    stored = json.loads((opened.folder(goal.cell) / "audit.json").read_text())
    model = opened.folder(goal.cell.needs["test"].needs["model"]) / "model"
    reference = opened.folder(goal.cell.needs["reference"].needs["test"].needs["model"]) / "model"
    direct = audit(str(model), 3, data="digits", reference=str(reference), cache=False, n=400, m=20, epochs=5)
    assert tuple(stored["class_names"]) == direct.class_names == tuple("0123456789")
    assert stored["verdict"] == direct.verdict
    assert stored["rs"] == pytest.approx(direct.rs, abs=0.05)  # features are encoded in other batches there
    assert stored["delta_rs"] == pytest.approx(direct.delta_rs, abs=0.05)


def test_rows_hold_every_audit_control_and_probe_with_consistent_scores(store: Path) -> None:
    rows = collect(plan(PROTOCOL), Store(store, read_only=True))
    assert rows.missing == 0
    assert len({row["cell"] for row in rows.audits}) == 3 * 2
    assert len(rows.pra) == 3 * 2 * 2 * 2
    assert len(rows.probes) == 3 * 2
    for row in [r for r in rows.audits if r["rule"] == "source-free"] + rows.pra:
        ends = (row["retain_before"], row["retain_after"], row["forget_before"], row["forget_after"])
        assert row["rs"] == pytest.approx(relearning_score(*ends))
    for row in rows.pra:
        twin = next(
            other["rs"]
            for other in rows.pra
            if other["method"] == "retrained"
            and all(other[name] == row[name] for name in ("forget", "variant", "support"))
        )
        assert row["delta_rs"] == pytest.approx(row["rs"] - twin)
    original = rows.originals[0]
    assert original["accuracy"] == accuracy(original["hits"], original["samples"], range(10))


def test_the_report_has_the_tables_and_the_rows_in_every_format(store: Path, tmp_path: Path) -> None:
    report = make_report(PROTOCOL, store)
    report.save(tmp_path)
    make_report(PROTOCOL, store).save(tmp_path / "again")
    labels = {table.label for table in report.tables}
    assert {"summary", "per-class", "multi-class", "unlearning-quality", "probe-cost", "settings"} <= labels
    assert {"summary-native-worst-case", "per-class-native-worst-case"} <= labels
    for name in ("bench.json", *(f"tables/{label}{ending}" for label in labels for ending in (".md", ".csv", ".tex"))):
        assert b"" != (tmp_path / name).read_bytes() == (tmp_path / "again" / name).read_bytes()
    with (tmp_path / "rows" / "audits.csv").open(encoding="utf-8") as file:
        assert len(list(csv.DictReader(file))) == len(report.rows.audits)
    assert json.loads((tmp_path / "bench.json").read_text())["missing"] == 0
    assert "Recovery over single forget classes" in report.text()


def test_another_data_set_under_the_same_name_is_refused(
    store: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sfra.bench.engine.task import Context
    from sfra.bench.tasks import models

    goal = next(g for g in plan(PROTOCOL) if g.identity["method"] == "delete" and g.what == "audit")
    cell = goal.cell.needs["test"]
    inputs = {"model": Store(store, read_only=True).folder(cell.needs["model"])}
    smaller = digits().select(torch.arange(100))
    monkeypatch.setattr(models, "_images", lambda data, split: smaller)
    with pytest.raises(InputError, match="not the one that the model was trained on"):
        models.features(cell.settings, inputs, tmp_path, Context())


def test_a_method_that_never_ends_is_reported_and_the_rest_goes_on(store: Path) -> None:
    """The other methods of the grid are done: it is the same store, and only what the new method needs is computed."""
    endless, limits = "builders.bad_methods:Endless", {"default": 300, "unlearn": 2}
    mixed = replace(PROTOCOL, methods=(endless, "retrained", "delete"), forget=((3,),), limits=limits)
    summary = run_protocol(mixed, store)
    assert [failure.reason for failure in summary.failed] == ["time-limit"]
    assert {one.cell.kind for one in summary.blocked} == {"features", "audit", "pra", "linear-probe"}
    assert len(summary.done) == 1 + 3 * 3
    report = make_report(mixed, store)
    assert "time-limit" in next(table for table in report.tables if table.label == "failures").records[0].values()
    assert len(retry_failed(mixed, store)) == 1
    assert not protocol_status(mixed, store).failed
