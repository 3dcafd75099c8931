"""The audit: from a released classifier to a verdict.

Config, inputs (release, data, reference), attack (place, probes, relearn), measure, score, findings, verdict, result.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from sfra.attack.grid import relearn_release, settings_of
from sfra.auditing.config import AuditConfig, chosen_config
from sfra.auditing.findings import Facts, raise_findings
from sfra.auditing.inputs import Inputs, Subject, open_inputs
from sfra.auditing.measure import Evidence, measure
from sfra.auditing.naming import Forget
from sfra.auditing.record import data_facts, forget_confusion, probe_facts, release_facts, run_traces, versions
from sfra.auditing.reference import Reference, check_earlier, earlier_reference
from sfra.auditing.result import AuditReport, AuditResult, BeforeAfter, Finding, Score
from sfra.auditing.rules import VERDICT_RULE
from sfra.auditing.score import compare, rs_at, scores, summarise_sweep
from sfra.auditing.verdict import conclude, overall_verdict
from sfra.core.metrics import is_relearned
from sfra.core.types import Progress
from sfra.data import Data

Diagnose = Callable[..., Any]
"""``sfra.diagnose``, which stands above the audit and is handed to it."""

OF_THE_SCORE = (
    *("rs", "rs_std", "rs_interval", "interval_covers", "delta_rs", "delta_rs_interval", "reference_rs", "floor"),
)
"""What the report repeats of the verdict's score; None where nothing was measured."""

ACCURACIES = ("retain_before", "retain_after", "forget_before", "forget_after")


def audit(
    model: object,
    forget: Forget,
    *,
    data: Data | None = None,
    reference: object | None = None,
    reference_data: Data | None = None,
    validation: Data | None = None,
    arch: str | None = None,
    reference_arch: str | None = None,
    missing_row: bool = False,
    cache: bool = True,
    diagnostics: Diagnose | None = None,
    progress: Progress | None = None,
    config: AuditConfig | None = None,
    **settings: Any,
) -> AuditReport:
    """Test whether a forgotten class can be brought back with nothing but the released model.

    Args:
        model: What was released: an ``nn.Module``, a model directory or id, a state dict with ``arch``, an ONNX file,
            or a head alone.
        forget: The forget class, by index or name, or several.
        data: Labelled data to measure on (see :func:`sfra.data.load_data`). Without it the head is relearned and
            nothing is measured.
        reference: A model trained without the class, for ΔRS; same forms as ``model``. Or an earlier audit of it with
            the same settings and data: a report, or the path of its ``audit.json``.
        reference_data: Features of the reference, when ``data`` holds features rather than images.
        validation: Data that the validation rule selects on; by default the data set's own validation split, or one
            half of ``data``.
        arch: Architecture of ``model`` when it is a state dict.
        reference_arch: Architecture of ``reference``; that of the model when left out.
        missing_row: The head has no output for the forget classes: restore it with fresh rows.
        cache: Keep extracted features for the next time.
        diagnostics: Pass ``sfra.diagnose`` to be told as well how the result came about, at the verdict's setting.
        progress: Called with what is going on, how many parts are done and of how many.
        config: All settings at once; or give them one by one as keyword arguments.
        **settings: Fields of :class:`sfra.AuditConfig`.

    >>> import torch
    >>> from sfra.core.head import Head
    >>> report = audit(Head(weight=torch.eye(4)), 3, n=100, m=10, epochs=1)
    >>> report.verdict
    'not-measured'
    """
    began = time.perf_counter()
    config = chosen_config(config, settings)
    progress = progress or (lambda stage, done, total: None)
    inputs = open_inputs(
        model,
        forget,
        config,
        progress,
        data=data,
        reference=reference,
        reference_data=reference_data,
        validation=validation,
        arch=arch,
        reference_arch=reference_arch,
        missing_row=missing_row,
        cache=cache,
    )
    if isinstance(inputs.reference, AuditResult):
        check_earlier(inputs.reference, inputs.model, config)
    evidence = gather(inputs.model, config, progress)
    compared = _reference(inputs, evidence, config, progress)
    theirs = compared.scores if compared else ()
    found = compare(scores(evidence.measured or ()), theirs)
    problems = compared.problems if compared else ()
    facts = Facts(evidence=evidence, scores=found, reference_scores=theirs, reference_problems=problems, config=config)
    raised = raise_findings(facts)
    diagnosed = None
    if diagnostics is not None:
        progress("diagnosing", 0, 1)
        about = diagnostics(evidence, inputs.forget, proposal=config.proposal, epsilons=config.budgets)
        diagnosed = about.to_dict()
    return _report(inputs, evidence, compared, found, raised, diagnosed, config, seconds=time.perf_counter() - began)


def gather(subject: Subject, config: AuditConfig, progress: Progress, *, fresh: bool = False) -> Evidence:
    """Relearn a subject in every setting, without data, then measure what came back, where there is data."""
    settings = settings_of(config, missing=subject.missing, fresh=fresh)
    head = subject.release.head
    runs = relearn_release(head, subject.forget, settings, config, anchor=subject.anchor, progress=progress)
    measured = None
    if subject.split is not None:
        measured = measure(runs, subject.split, subject.forget, device=config.device)
    return Evidence(subject=subject, runs=runs, measured=measured)


def _reference(inputs: Inputs, evidence: Evidence, config: AuditConfig, progress: Progress) -> Reference | None:
    """Relearn the reference as the model was, or take an earlier audit of it."""
    if inputs.reference is None:
        return None
    if isinstance(inputs.reference, AuditResult):
        return earlier_reference(inputs.reference, evidence)
    return Reference.gathered(gather(inputs.reference, config, progress, fresh=inputs.model.missing))


def _report(
    inputs: Inputs,
    evidence: Evidence,
    reference: Reference | None,
    found: Sequence[Score],
    raised: tuple[Finding, ...],
    diagnosed: dict[str, Any] | None,
    config: AuditConfig,
    *,
    seconds: float,
) -> AuditReport:
    """Put the report together; the verdict rests on the first setting under the source-free rule."""
    first, score = evidence.runs[0], found[0] if found else None
    reset = next((one for one in found if (one.variant, one.rule) == ("reset-row", VERDICT_RULE)), None)
    odd = any(one.code == "forget-row-outlier" for one in raised)
    concluded, statement = conclude(overall_verdict(score, reset, row_is_odd=odd), raised)
    measured: dict[str, Any] = {name: getattr(score, name, None) for name in OF_THE_SCORE}
    retain, forget = (
        BeforeAfter(**{field: getattr(score, f"{name}_{field}", None) for field in BeforeAfter.__struct_fields__})
        for name in ("retain", "forget")
    )
    relearned = None
    if score is not None:
        accuracies = (getattr(score, name) for name in ACCURACIES)
        relearned = is_relearned(*accuracies, epsilon_r=config.epsilon_r, delta_f=config.delta_f)
    return AuditReport(
        verdict=concluded,
        statement=statement,
        **measured,
        scale=first.setting.scale.name,
        rule=VERDICT_RULE,
        variant=first.setting.variant,
        retain=retain,
        forget=forget,
        rs_at=rs_at(evidence.measured, first.setting, config.budgets) if evidence.measured else {},
        relearned=relearned,
        findings=raised,
        results=tuple(found),
        sweep=summarise_sweep(found) if config.scale == "sweep" and found else None,
        traces=run_traces(evidence, "model") + (reference.traces if reference else ()),
        confusion=forget_confusion(evidence),
        probes=probe_facts(evidence),
        model=release_facts(inputs.model),
        reference=reference.facts if reference else None,
        data=data_facts(inputs.model),
        forget_classes=inputs.forget,
        class_names=inputs.class_names,
        settings=config.resolved(inputs.model.classes, len(inputs.forget)).to_dict(),
        versions=versions(),
        seconds=seconds,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        diagnostics=diagnosed,
        relearned_head=first.placed.released(first.path.last),
    )
