"""An audit in Markdown: a summary for the page of a job, and a block for a model card."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from sfra.auditing.result import AuditResult, Score
from sfra.auditing.verdict import carrying
from sfra.auditing.verdicts import VERDICTS
from sfra.bench.tables.table import escape_markdown
from sfra.core.errors import InputError, printable
from sfra.report.classes import class_name, label_name
from sfra.report.numbers import class_rows, numbers


def job_summary(audit: AuditResult, judged: Mapping[str, str | None]) -> str:
    """Summarise an audit; ``judged`` holds the gates, with what is to be said of one that failed."""
    parts = [f"### Unlearning audit: {audit.verdict}", _text(audit.statement), *_measured(audit)]
    if judged:
        lines = [f"- {'failed' if said else 'passed'}: `fail-if {gate}`" for gate, said in judged.items()]
        parts += ["Gates:", "\n".join(lines)]
    if audit.findings:
        found = [f"- {one.severity}: `{one.code}`: {_text(one.message)}" for one in audit.findings]
        parts += ["Findings (`sfra explain CODE` says more):", "\n".join(found)]
    return "\n\n".join([*parts, _about(audit)]) + "\n"


def model_card(audits: Sequence[AuditResult], *, name: str | None = None) -> str:
    """Write the block for the README of a model: ``model-index`` metadata, and a section for readers.

    Raises:
        InputError: One of the audits measured nothing that could be published.
    """
    for audit in audits:
        if audit.rs is None or VERDICTS[audit.verdict].kind == "unusable":
            do = VERDICTS[audit.verdict].do
            raise InputError("this audit has no numbers for a model card", got=f"the verdict {audit.verdict}", do=do)
    metadata = ["---", "model-index:", f"- name: {_quoted(name or audits[0].model.source)}", "  results:"]
    metadata += [line for audit in audits for line in _metadata(audit)]
    sections = ["\n\n".join([f"**{audit.verdict}.** {_text(audit.statement)}", *_measured(audit)]) for audit in audits]
    about = [_about(audit) for audit in audits]
    body = [text for pair in zip(sections, about, strict=True) for text in pair]
    return "\n".join([*metadata, "---", "", "\n\n".join(["## Unlearning audit", *body])]) + "\n"


def _measured(audit: AuditResult) -> Iterator[str]:
    """Yield the tables: numbers, then each class for itself; none where the verdict says that they carry nothing."""
    if audit.rs is None or VERDICTS[audit.verdict].kind == "unusable":
        return
    rows = [f"| {_text(label)} | {value} | {_text(meaning)} |" for label, value, meaning in numbers(audit)]
    yield "\n".join(["| | | |", "|:--|:--|:--|", *rows])
    lines = [
        f"| {' | '.join((_text(label_name(label, audit.class_names)), *shown))} |"
        for label, *shown in class_rows(audit)
    ]
    if lines:
        yield "\n".join(["| class | verdict | before | after | RS | ΔRS |", "|:--|:--|--:|--:|--:|--:|", *lines])


def _about(audit: AuditResult) -> str:
    """Say in a line what was audited, on what, against what, and with what."""
    lost = ", ".join(class_name(label, audit.class_names) for label in audit.forget_classes)
    settings = audit.settings
    facts = [
        f"Model: {audit.model.source}",
        f"forgotten: {lost}",
        f"data: {_data(audit)}",
        f"references: {len(audit.references) or 'none'}",
        f"N = {settings['n']:,}, M = {settings['m']:,}, epochs: {settings['epochs']}, seeds: {settings['seeds']}",
        f"sfra {audit.versions.get('sfra', '')}",
    ]
    return f"{_text('; '.join(facts))}."


def _metadata(audit: AuditResult) -> Iterator[str]:
    """Yield an entry of ``model-index``, or one for each of several classes; texts are quoted as in JSON."""
    names = [class_name(label, audit.class_names) for label in audit.forget_classes]
    each = [(class_name(one.label, audit.class_names), one.verdict, one.scores) for one in audit.classes if one.scores]
    for lost, verdict, scores in each or [(", ".join(names), audit.verdict, audit.results)]:
        yield from _entry(audit, lost, verdict, scores)


def _entry(audit: AuditResult, lost: str, verdict: str, scores: Sequence[Score]) -> Iterator[str]:
    """Yield the entry of a class; where it comes back, with the numbers that say so."""
    score = (carrying(verdict, scores) if VERDICTS[verdict].kind == "back" else None) or scores[0]
    row = ", its row drawn anew" if score.variant == "reset-row" else ""
    values = {
        "sfra_rs": (score.rs, f"Relearning score (RS) of {lost}{row}"),
        "sfra_delta_rs": (score.delta_rs, f"ΔRS of {lost}{row}, against a model trained without it"),
        "sfra_forget_accuracy_after": (score.forget_after, f"Accuracy on {lost} after relearning{row}"),
    }
    yield "  - task:"
    yield "      type: image-classification"
    yield "    dataset:"
    yield f"      type: {_quoted(_data(audit))}"
    yield f"      name: {_quoted(_data(audit))}"
    yield "    metrics:"
    for kind, (value, words) in values.items():
        if value is not None and (verdict != "not-unlearned" or "accuracy" in kind):
            yield f"    - type: {kind}"
            yield f"      value: {round(value, 4)}"
            yield f"      name: {_quoted(words)}"


def _data(audit: AuditResult) -> str:
    return Path(audit.data.source).name if audit.data is not None else "none"


def _quoted(text: str) -> str:
    return json.dumps(printable(text), ensure_ascii=False)


def _text(text: str) -> str:
    return escape_markdown(printable(text))
