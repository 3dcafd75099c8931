"""An earlier audit of the reference stands in for the reference, if it is the same audit in every respect."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from builders.audits import FORGET, SMALL, compare, hidden, never_seen
from sfra.auditing.audit import audit
from sfra.auditing.result import AuditReport
from sfra.auditing.stored import read_result
from sfra.auditing.verdict import margin
from sfra.core.errors import InputError

QUICK: dict[str, Any] = {**SMALL, "n": 400, "m": 40, "epochs": 12}
VOLATILE = ("seconds", "created")


def against(reference: object, **settings: Any) -> AuditReport:
    toy = hidden(bias=-1.0)
    return audit(toy.head, FORGET, data=toy.data, reference=reference, **{**QUICK, **settings})


def content(report: AuditReport) -> dict[str, Any]:
    kept = {name: value for name, value in report.to_dict().items() if name not in VOLATILE}
    for row in kept["probes"]:
        del row["seconds"]
    return kept


@pytest.mark.parametrize("settings", [{}, {"seeds": 2}, {"scale": "sweep"}], ids=["plain", "seeds", "sweep"])
def test_an_earlier_audit_gives_the_same_report_as_the_reference_itself(settings: dict[str, Any]) -> None:
    direct = compare(hidden(bias=-1.0), never_seen(), **{**QUICK, **settings})
    earlier = compare(never_seen(), **{**QUICK, **settings})
    assert content(against(earlier, **settings)) == content(direct)
    assert direct.delta_rs is not None


def test_an_audit_json_gives_the_same_report(tmp_path: Path) -> None:
    earlier = compare(never_seen(), **QUICK)
    assert content(against(str(earlier.save(tmp_path)))) == content(against(earlier))


def test_a_release_without_the_row_takes_a_reference_without_the_row() -> None:
    lost, other = hidden(bias=-1.0).without_row(), never_seen().without_row()
    earlier = audit(other.head, FORGET, data=other.data, missing_row=True, **QUICK)
    report = audit(lost.head, FORGET, data=lost.data, reference=earlier, missing_row=True, **QUICK)
    direct = audit(
        lost.head, FORGET, data=lost.data, reference=other.head, reference_data=other.data, missing_row=True, **QUICK
    )
    assert content(report) == content(direct)
    with pytest.raises(InputError, match="audited differently: forget row"):
        audit(lost.head, FORGET, data=lost.data, reference=compare(never_seen(), **QUICK), missing_row=True, **QUICK)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"epochs": 13}, "audited differently: epochs"),
        ({"proposal": "laplace"}, "audited differently: proposal"),
        ({"scale": "native"}, "audited differently: scale"),
    ],
)
def test_another_audit_is_refused_before_any_work(change: dict[str, Any], message: str) -> None:
    told: list[str] = []
    earlier = compare(never_seen(), **QUICK)
    with pytest.raises(InputError, match=message):
        against(earlier, progress=lambda stage, done, total: told.append(stage), **change)
    assert not told


def test_other_data_and_other_classes_are_refused() -> None:
    with pytest.raises(InputError, match="forget classes"):
        against(compare(never_seen(), forget=1, **QUICK))
    with pytest.raises(InputError, match="evaluation data"):
        against(compare(never_seen(samples=30), **QUICK))
    unmeasured = audit(never_seen().head, FORGET, **QUICK)
    with pytest.raises(InputError, match="evaluation data"):
        against(unmeasured)


def test_labels_in_another_order_are_other_data() -> None:
    toy = never_seen()
    order = torch.randperm(len(toy.data.labels), generator=torch.Generator().manual_seed(0))
    moved = type(toy.data)(features=toy.data.features[order], labels=toy.data.labels[order])
    with pytest.raises(InputError, match="evaluation data \\(labels\\)"):
        against(audit(toy.head, FORGET, data=moved, **QUICK))


def test_a_file_that_is_no_audit_is_refused(tmp_path: Path) -> None:
    (tmp_path / "other.json").write_text(json.dumps({"schema": "sfra.demo/1"}))
    with pytest.raises(InputError, match=r"other\.json is not the result of an audit"):
        against(tmp_path / "other.json")
    (tmp_path / "broken.json").write_text("{")
    with pytest.raises(InputError, match=r"cannot read .*broken\.json"):
        against(tmp_path / "broken.json")
    with pytest.raises(InputError, match=r"cannot read .*gone\.json"):
        against(tmp_path / "gone.json")


def spoil(value: Any, *path: str | int) -> Callable[[dict[str, Any]], None]:
    """Put a value in the place of another."""

    def change(content: dict[str, Any]) -> None:
        inside: Any = content
        for step in path[:-1]:
            inside = inside[step]
        inside[path[-1]] = value

    return change


@pytest.mark.parametrize(
    "change",
    [
        lambda content: content.pop("results"),
        lambda content: content["results"].pop(0),
        lambda content: content.pop("settings"),
        spoil(None, "model"),
        spoil(-5, "results", 0, "rs"),
        spoil(True, "results", 0, "rs"),
        spoil(None, "results", 0, "retain_before"),
        spoil("x", "traces"),
        lambda content: content["results"].append(content["results"][0]),
        lambda content: content["results"].append({**content["results"][0], "scale": "other"}),
        lambda content: content["results"].append({**content["results"][0], "rule": "other"}),
        lambda content: content["traces"].pop(),
        lambda content: content["traces"].append({**content["traces"][0], "seed": 9}),
        lambda content: content["traces"][0]["retain"].pop(),
        spoil(None, "traces", 0, "forget"),
        spoil([0.5] * 13, "traces", 0, "rs"),
        spoil([], "traces", 1, "loss"),
        spoil(0.123, "results", 0, "rs"),
        spoil([0.123], "results", 0, "rs_seeds"),
        spoil([99], "results", 0, "epochs"),
        spoil([], "results", 0, "epochs"),
        spoil(0.123, "results", 1, "rs"),
        spoil(0.123, "traces", 0, "retain", 0),
        spoil(0.123, "traces", 0, "forget", 1),
        spoil(0.123, "results", 0, "retain_after"),
        spoil([0.9, 0.1], "results", 0, "rs_sample_interval"),
    ],
)
def test_an_audit_that_was_tampered_with_is_refused(tmp_path: Path, change: Callable[[dict[str, Any]], None]) -> None:
    given = json.loads(compare(never_seen(), **QUICK).to_json())
    change(given)
    (tmp_path / "audit.json").write_text(json.dumps(given))
    with pytest.raises(InputError, match=r"not what its schema promises|audited differently|is incomplete|contradicts"):
        against(tmp_path / "audit.json")


@pytest.mark.parametrize("text", ["[" * 100_000, '{"schema": NaN}', "\xff"])
def test_json_that_cannot_be_parsed_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / "audit.json").write_bytes(text.encode("latin-1"))
    with pytest.raises(InputError, match="cannot read"):
        against(tmp_path / "audit.json")


def test_an_audit_of_schema_version_1_is_read_too(tmp_path: Path) -> None:
    given = json.loads(compare(never_seen(), **QUICK).to_json())
    older = given | {"schema": "sfra.audit/1", "trajectory": given.pop("traces")}
    older["results"] = [
        {name: value for name, value in score.items() if not name.endswith("interval")} for score in given["results"]
    ]
    (tmp_path / "audit.json").write_text(json.dumps({name: older[name] for name in older if name != "traces"}))
    assert read_result(tmp_path / "audit.json").traces
    assert against(tmp_path / "audit.json").delta_rs == against(compare(never_seen(), **QUICK)).delta_rs


def several(*references: Any, **settings: Any) -> AuditReport:
    toy = hidden(bias=-1.0)
    models = [one if isinstance(one, AuditReport) else one.head for one in references]
    data = [one.data for one in references if not isinstance(one, AuditReport)]
    return audit(toy.head, FORGET, data=toy.data, reference=models, reference_data=data or None, **QUICK, **settings)


def test_delta_rs_is_against_the_mean_of_several_references() -> None:
    seeds = (5, 7, 9)
    alone = [compare(hidden(bias=-1.0), never_seen(seed=seed), **QUICK) for seed in seeds]
    report = several(*(never_seen(seed=seed) for seed in seeds))
    first = report.results[0]
    assert first.reference_rs_each == tuple(one.reference_rs for one in alone)
    assert report.delta_rs == pytest.approx(sum(one.delta_rs or 0.0 for one in alone) / 3)
    assert first.margin == margin(first.reference_rs_each)
    assert len(report.references) == 3


def test_models_and_earlier_audits_stand_beside_each_other_as_references() -> None:
    earlier = compare(never_seen(seed=7), **QUICK)
    mixed = several(earlier, never_seen())
    assert mixed.results[0].reference_rs_each == several(never_seen(seed=7), never_seen()).results[0].reference_rs_each


def test_reference_data_must_pair_up_with_the_references() -> None:
    toy, other = hidden(bias=-1.0), never_seen()
    with pytest.raises(InputError, match="do not pair up"):
        audit(toy.head, FORGET, data=toy.data, reference=[other.head] * 2, reference_data=other.data, **QUICK)
