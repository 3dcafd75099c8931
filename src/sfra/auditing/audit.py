"""The audit: from a released classifier to a verdict.

Config, inputs (release, data, reference), attack (place, probes, relearn), measure, score, findings, verdict, result.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import chain
from typing import Any

from sfra.attack.grid import jobs_of, relearn_jobs, settings_of
from sfra.attack.outlook import Outlook
from sfra.auditing.calibrate import settle_scale
from sfra.auditing.config import AuditConfig, chosen_config
from sfra.auditing.control import (
    HiddenSubject,
    default_self_controls,
    original_control,
    self_control,
)
from sfra.auditing.findings import facts_of, odd_rows, raise_findings
from sfra.auditing.findings.fit import expected_of_reference, set_up_problems
from sfra.auditing.findings.reference import reference_unusable
from sfra.auditing.findings.registry import critical
from sfra.auditing.foresee import MEASURING, foresee
from sfra.auditing.inputs import Inputs, open_inputs
from sfra.auditing.measure import Evidence, Measured, measure
from sfra.auditing.naming import Forget
from sfra.auditing.record import data_facts, forget_confusion, probe_facts, release_facts, run_traces, versions
from sfra.auditing.reference import Reference, check_earlier, earlier_problems, earlier_reference
from sfra.auditing.result import (
    AuditReport,
    AuditResult,
    BeforeAfter,
    ClassResult,
    Control,
    Finding,
    Score,
)
from sfra.auditing.rules import VERDICT_RULE
from sfra.auditing.score import ACCURACIES, class_scores, compare, rs_at, scores, summarise_sweep
from sfra.auditing.subject import Subject
from sfra.auditing.verdict import REMEDY, Sight, conclude, fitting, overall_verdict, worst
from sfra.core.cpu import one_thread
from sfra.core.errors import InputError
from sfra.core.metrics import is_relearned
from sfra.core.progress import shows_progress
from sfra.core.types import Progress
from sfra.data import Data
from sfra.release.base import Arch
from sfra.release.preprocess import Preprocess

_log = logging.getLogger(__name__)

Diagnose = Callable[..., Any]
"""``sfra.diagnose``, which stands above the audit and is handed to it."""

OF_THE_SCORE = (
    *("rs", "rs_std", "rs_interval", "interval_covers", "delta_rs", "delta_rs_interval", "reference_rs", "floor"),
)
"""What the report repeats of the verdict's score; None where nothing was measured."""


@shows_progress
def audit(
    model: object,
    forget: Forget,
    *,
    data: Data | None = None,
    reference: object | list[Any] | None = None,
    reference_data: Data | list[Any] | None = None,
    control: object | None = None,
    control_data: Data | None = None,
    self_controls: int | None = None,
    validation: Data | None = None,
    arch: Arch | None = None,
    reference_arch: Arch | None = None,
    key: str | None = None,
    head_key: str | None = None,
    preprocess: Preprocess | Callable[..., Any] | None = None,
    missing_row: bool = False,
    cache: bool = True,
    diagnostics: Diagnose | None = None,
    progress: Progress | bool | None = None,
    config: AuditConfig | None = None,
    **settings: Any,
) -> AuditReport:
    """Test whether a forgotten class can be brought back with nothing but the released model.

    Args:
        model: The released model: an ``nn.Module``, a model directory or id, a state dict with ``arch``, an ONNX file,
            or a head alone.
        forget: The forget class, by index or name, or several.
        data: Labelled data to measure on (see :func:`sfra.data.load_data`). Without it the head is relearned, but
            nothing is measured.
        reference: A model trained without the class, for ΔRS; same forms as ``model``. Or an earlier audit of it with
            the same settings and data: a report, or the path of its ``audit.json``. Or a list of several.
        reference_data: Features of the reference, when ``data`` holds features rather than images; a list for several.
        control: The original, before the class was forgotten. With a fresh row for the class, the same audit must
            bring the class back; otherwise it would not have seen it in the model either.
        control_data: Features of the control, when ``data`` holds features.
        self_controls: How many retain classes of the model to hide in the same way, one at a time; by default 4, and 2
            from 200 classes on.
        validation: Data that the validation rule selects on; by default the data set's own validation split, or one
            half of ``data``.
        arch: Architecture of ``model`` when it is a state dict: a name, or a class or function that builds it.
        reference_arch: Architecture of ``reference``; that of the model when left out.
        key: Which state dict to take if a file holds several that fit; also of a reference and a control.
        head_key: Name of the head in a state dict without ``arch``; the last linear layer when left out.
        preprocess: How to prepare images for ``model``, instead of what it says itself: a :class:`sfra.Preprocess`, a
            transform of torchvision, or any function of a Pillow image or of a batch ``[n, c, h, w]`` in [0, 1]. A
            reference or control that says nothing gets its images as ``model`` does.
        missing_row: The head has no output for the forget classes: restore it with fresh rows.
        cache: Keep extracted features for the next time.
        diagnostics: Pass ``sfra.diagnose`` to learn how the result came about, at the verdict's setting.
        progress: True shows a bar, in a notebook too; a function is called with the name of the stage, the parts done
            and the number of parts.
        config: All settings at once; or pass them one by one as keyword arguments.
        **settings: Fields of :class:`sfra.AuditConfig`.

    >>> import torch
    >>> from sfra.core.head import Head
    >>> report = audit(Head(weight=torch.eye(4)), 3, n=100, m=10, epochs=1)
    >>> report.verdict
    'not-measured'
    """
    began = time.perf_counter()
    config = chosen_config(config, settings)
    if self_controls is not None and self_controls < 0:
        raise InputError("self_controls (--self-controls) is out of range", expected="0 or more", got=self_controls)
    progress = progress if callable(progress) else (lambda stage, done, total: None)
    inputs = open_inputs(
        model,
        forget,
        config,
        progress,
        data=data,
        reference=reference,
        reference_data=reference_data,
        control=control,
        control_data=control_data,
        validation=validation,
        arch=arch,
        reference_arch=reference_arch,
        key=key,
        head_key=head_key,
        preprocess=preprocess,
        missing_row=missing_row,
        cache=cache,
    )
    for problem in _early_problems(inputs, config.expect_accuracy)[:1]:
        _log.warning("this audit will be unusable: %s%s %s", problem.message, REMEDY, problem.remedy)
    count = default_self_controls(inputs.model.classes) if self_controls is None else self_controls
    config, hidden, calibration = settle_scale(inputs.model, count, config, progress)
    for one in inputs.references:
        if isinstance(one, AuditResult):
            check_earlier(one, inputs.model, config)
    outlook = foresee(inputs, len(hidden), config, progress)
    evidence = gather(inputs.model, config, outlook)
    references = [_reference(one, evidence, config, outlook) for one in inputs.references]
    theirs = [one.scores for one in references]
    found = compare(scores(evidence.measured or ()), theirs)
    problems = [problem for one in references for problem in one.problems]
    facts = facts_of(evidence, found, theirs, config, calibration=calibration, reference_problems=problems)
    raised = raise_findings(facts)
    usable = evidence.measured is not None and not critical(raised)
    controls = _controls(inputs, hidden, config, theirs, outlook) if usable else ()
    judgement = _judge(evidence, references, found, controls, raised, calibrated=calibration is not None)
    diagnosed = None
    if diagnostics is not None:
        progress("diagnosing", 0, 1)
        about = diagnostics(evidence, inputs.forget, proposal=config.proposal, epsilons=config.budgets)
        diagnosed = about.to_dict()
    return _report(
        inputs,
        evidence,
        references,
        found,
        judgement,
        config,
        controls=controls,
        calibration=calibration,
        diagnostics=diagnosed,
        seconds=time.perf_counter() - began,
    )


def _early_problems(inputs: Inputs, expect_accuracy: float | None) -> list[Finding]:
    """Return what is critical before anything is relearned, of the model first and then of its references."""
    problems = [*critical(set_up_problems(inputs.model, expect_accuracy))]
    for one in inputs.references:
        if isinstance(one, AuditResult):
            found = earlier_problems(one)
        else:
            found = critical(set_up_problems(one, expected_of_reference(one.answers, expect_accuracy)))
        told = reference_unusable(found)
        problems += [] if told is None else [told]
    return problems


def gather(subject: Subject, config: AuditConfig, outlook: Outlook, *, fresh: bool = False) -> Evidence:
    """Relearn a subject in every setting, without data, then measure what came back, where there is data."""
    settings = settings_of(config, missing=subject.missing, fresh=fresh)
    jobs = jobs_of(subject.release.head, subject.forget, settings, config, subject.anchor)
    if (split := subject.split) is None:
        runs = [*chain.from_iterable(relearn_jobs(jobs, config, record="last", outlook=outlook))]
        return Evidence(subject=subject, runs=runs, measured=None)
    measured = list[Measured]()
    for group in relearn_jobs(jobs, config, outlook=outlook):
        with outlook.step(MEASURING, len(group), "runs") as tell:
            measured += measure(group, split, subject.forget, device=config.device, progress=tell)
        del group  # all its epochs, before the next ones come
    return Evidence(subject=subject, runs=[one.run for one in measured], measured=measured)


def _reference(given: Subject | AuditResult, evidence: Evidence, config: AuditConfig, outlook: Outlook) -> Reference:
    """Relearn a reference as the model was, or take an earlier audit of it."""
    if isinstance(given, AuditResult):
        return earlier_reference(given, evidence)
    own = gather(given, config, outlook, fresh=evidence.subject.missing)
    return Reference.gathered(own, config.expect_accuracy)


def _controls(
    inputs: Inputs,
    hidden: Sequence[HiddenSubject],
    config: AuditConfig,
    references: Sequence[Sequence[Score]],
    outlook: Outlook,
) -> tuple[Control, ...]:
    """Audit what is hidden by construction: the class in the original, and retain classes of the model."""
    controls = []
    if inputs.control is not None:
        controls.append(original_control(inputs.control, config, references, outlook))
    if hidden:
        controls.append(self_control(inputs.model, hidden, config, references, outlook))
    return tuple(controls)


def _class_results(
    evidence: Evidence, references: Sequence[Reference], *, odd: frozenset[int], sight: Sight
) -> tuple[ClassResult, ...]:
    """Conclude for each of several forget classes; one without samples is not measured."""
    forget = evidence.subject.forget
    mine = class_scores(evidence.measured or (), forget)
    results = []
    for label in forget if mine else ():
        theirs = [one.class_scores[label] for one in references if label in one.class_scores]
        found = compare(mine.get(label, []), theirs if len(theirs) == len(references) else [])
        concluded = overall_verdict(found, row_is_odd=label in odd, sight=sight)
        results.append(ClassResult(label=label, verdict=concluded, scores=tuple(found)))
    return tuple(results)


@dataclass(frozen=True, kw_only=True)
class Judgement:
    """What an audit concludes: the verdict is the gravest of that on all forget classes together and on each."""

    verdict: str
    statement: str
    classes: tuple[ClassResult, ...]
    findings: tuple[Finding, ...]


def _judge(
    evidence: Evidence,
    references: Sequence[Reference],
    found: Sequence[Score],
    controls: Sequence[Control],
    raised: Sequence[Finding],
    *,
    calibrated: bool,
) -> Judgement:
    """Conclude from the scores, the findings and what the controls show."""
    model = evidence.subject
    sight = Sight.of(controls, model.classes, calibrated=calibrated)
    odd = frozenset() if model.missing else frozenset(odd_rows(model.release.head, model.forget))
    classes = _class_results(evidence, references, odd=odd, sight=sight)
    together = overall_verdict(found, row_is_odd=bool(odd), sight=sight)
    gravest = worst([together, *(one.verdict for one in classes)])
    own = [one for one in classes if one.verdict == gravest]
    if len(own) == len(classes):  # there is nothing to tell apart
        own = []
    raised = fitting(raised, gravest)
    concluded, statement = conclude(gravest, own[0].scores if own else found, raised)
    if own and concluded == gravest:
        statement = f"Class {', '.join(str(one.label) for one in own)}: {statement}"
    return Judgement(verdict=concluded, statement=statement, classes=classes, findings=raised)


@one_thread()
def _report(
    inputs: Inputs,
    evidence: Evidence,
    references: Sequence[Reference],
    found: Sequence[Score],
    judgement: Judgement,
    config: AuditConfig,
    **rest: Any,
) -> AuditReport:
    """Put the report together; the verdict rests on the first setting under the source-free rule."""
    first, score = evidence.runs[0], found[0] if found else None
    head = first.placed.released(first.path.last)
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
        verdict=judgement.verdict,
        statement=judgement.statement,
        classes=judgement.classes,
        findings=judgement.findings,
        **measured,
        scale=first.setting.scale.name,
        rule=VERDICT_RULE,
        variant=first.setting.variant,
        retain=retain,
        forget=forget,
        rs_at=rs_at(evidence.measured, first.setting, config.budgets) if evidence.measured else {},
        relearned=relearned,
        results=tuple(found),
        sweep=summarise_sweep(found) if config.scale == "sweep" and found else None,
        traces=run_traces(evidence, "model") + (references[0].traces if references else ()),
        confusion=forget_confusion(evidence),
        probes=probe_facts(evidence),
        model=release_facts(inputs.model),
        references=tuple(one.facts for one in references),
        data=data_facts(inputs.model),
        forget_classes=inputs.forget,
        class_names=inputs.class_names,
        settings=config.resolved(inputs.model.classes, len(inputs.forget)).to_dict(),
        versions=versions(),
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        relearned_head=head,
        relearned_head_digest=hashlib.sha256(head.to_safetensors()).hexdigest(),
        **rest,
    )
