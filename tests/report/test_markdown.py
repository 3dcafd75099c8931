"""An audit in Markdown: the summary of a job, and the block of a model card as Hugging Face reads it."""

from __future__ import annotations

import re

import msgspec
import pytest
import yaml
from huggingface_hub.repocard_data import model_index_to_eval_results

from builders.audits import FORGET, QUICK, compare, hidden, never_seen
from sfra.auditing.result import AuditResult
from sfra.core.errors import InputError
from sfra.report.markdown import job_summary, model_card


@pytest.fixture(scope="module")
def audit() -> AuditResult:
    return compare(hidden(), never_seen(), **QUICK)


def test_a_summary_has_verdict_numbers_gates_and_findings(audit: AuditResult) -> None:
    text = job_summary(audit, {"rs > 0.5": "gate failed: …", "rs > 0.9": None})
    assert text.startswith(f"### Unlearning audit: {audit.verdict}\n\n{audit.statement}\n")
    assert f"| RS | {audit.rs:.2f} |" in text
    assert "- failed: `fail-if rs > 0.5`\n- passed: `fail-if rs > 0.9`\n" in text
    assert all(f"`{finding.code}`" in text for finding in audit.findings)
    assert "forgotten: class 2; data: features in memory; references: 1; N = 300, M = 30, epochs: 6" in text
    assert "\n\n\n" not in text


def test_an_unusable_audit_shows_no_numbers_and_has_no_card(audit: AuditResult) -> None:
    unusable = msgspec.structs.replace(audit, verdict="unusable")
    assert "| RS |" not in job_summary(unusable, {})
    with pytest.raises(InputError, match="the verdict unusable"):
        model_card([audit, unusable])


def test_of_a_class_that_never_went_accuracies_are_told_and_no_score(audit: AuditResult) -> None:
    kept = msgspec.structs.replace(audit, verdict="not-unlearned", findings=())
    for text in (job_summary(kept, {}), model_card([kept])):
        assert "accuracy, forgotten class" in text
        assert "RS" not in text
        assert "sfra_rs" not in text


def test_several_classes_have_a_row_each_and_names_cannot_break_the_table() -> None:
    names = tuple(f"<img src=x>|`{k}\n# title" for k in range(6))
    audit = msgspec.structs.replace(compare(hidden(), None, (1, FORGET), **QUICK), class_names=names)
    text = job_summary(audit, {})
    rows = [line for line in text.splitlines() if re.match(r"\| .* \| (not-unlearned|blind|no-reference) \|", line)]
    assert len(rows) == 2
    assert all(len(re.findall(r"(?<!\\)\|", row)) == 7 for row in rows)
    assert not re.search(r"(?<!\\)<img|^# title", text, flags=re.MULTILINE)


def test_the_metadata_of_a_card_is_what_hugging_face_reads(audit: AuditResult) -> None:
    named = msgspec.structs.replace(audit, class_names=tuple(f'"{k}": [' for k in range(6)))
    text = model_card([named, audit], name="org/model: 1")
    _, metadata, body = text.split("---\n", 2)
    name, results = model_index_to_eval_results(yaml.safe_load(metadata)["model-index"])
    assert name == "org/model: 1"
    told = {(one.metric_type, one.metric_value) for one in results}
    assert audit.rs is not None
    assert audit.delta_rs is not None
    assert audit.forget.after is not None
    assert told == {
        ("sfra_rs", round(audit.rs, 4)),
        ("sfra_delta_rs", round(audit.delta_rs, 4)),
        ("sfra_forget_accuracy_after", round(audit.forget.after, 4)),
    }
    reset = next(one for one in audit.results if one.variant == "reset-row")
    card = model_card([msgspec.structs.replace(audit, verdict="recovered-after-reset")])
    assert f"value: {round(reset.rs, 4)}\n" in card
    assert {one.task_type for one in results} == {"image-classification"}
    assert body.startswith("\n## Unlearning audit\n\n")
    assert body.count(f"**{audit.verdict}.** ") == 2


def test_a_card_tells_each_of_several_classes_for_itself() -> None:
    audit = compare(hidden(), forget=(1, FORGET), **QUICK)
    card = model_card([audit])
    _, metadata, _ = card.split("---\n", 2)
    _, results = model_index_to_eval_results(yaml.safe_load(metadata)["model-index"])
    told = {(one.metric_type, one.metric_name, one.metric_value) for one in results}
    kept, gone = ({one.label: one for one in audit.classes}[label] for label in (1, FORGET))
    assert kept.verdict == "not-unlearned"
    assert {name for kind, name, _ in told if "class 1" in name} == {"Accuracy on class 1 after relearning"}
    shown = next(value for kind, name, value in told if kind == "sfra_rs" and f"class {FORGET}" in name)
    assert shown in [round(score.rs, 4) for score in gone.scores]
