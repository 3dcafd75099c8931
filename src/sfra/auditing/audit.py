"""The audit: from a released classifier to a verdict.

The story is five calls: a release is split into encoder and head, probes are sampled from the head, the head is
relearned on them, what came back is measured on real data, and the measurements are scored against a reference.
"""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from sfra.attack.grid import Progress, Run, relearn_release, settings_of
from sfra.auditing.config import AuditConfig, chosen_config
from sfra.auditing.evidence import Control, Evidence
from sfra.auditing.inputs import (
    Subject,
    check_distinct,
    check_needs,
    lacks_rows,
    load_parts,
    open_subject,
    reference_parts,
    refuse_same,
    resolve_forget,
    shared_arch,
)
from sfra.auditing.measure import Measured, measure, split_features
from sfra.auditing.naming import Forget
from sfra.auditing.reference import control_from, is_audit, read_audit
from sfra.auditing.result import AuditReport
from sfra.auditing.score import score
from sfra.data import Data
from sfra.release import Release, load
from sfra.release.base import usable_device


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
    diagnostics: bool = False,
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
        diagnostics: Also say how the result came about (:mod:`sfra.diagnostics`), at the verdict's setting.
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
    check_needs(data=data, validation=validation, reference=reference, reference_data=reference_data)
    usable_device(config.device)
    tell = progress or (lambda stage, done, total: None)

    test, held = load_parts(data, validation)
    release = load(model, arch=arch, device=config.device)
    twin = _open_reference(reference, reference_arch or shared_arch(arch, reference), config)
    parts = reference_parts(test, held, reference_data) if isinstance(twin, Release) else (None, None)
    measured_on = {"data": test, "validation data": held, "reference data": parts[0]}
    classes = resolve_forget(forget, release, twin, measured_on, missing=missing_row)
    check_distinct(release, twin)
    subject = open_subject(release, classes, test, held, missing=missing_row, cache=cache, progress=tell)
    subject.check(classes, config)
    control: Control | None = None
    other: Subject | None = None
    if isinstance(twin, Release):
        lost = lacks_rows(twin, classes, subject.classes(classes))
        other = open_subject(twin, classes, *parts, missing=lost, cache=cache, progress=tell)
        other.check_against(subject, classes)
        other.check(classes, config)
    elif twin is not None:
        control = control_from(twin, subject, forget=classes, config=config)

    evidence = _gather(subject, classes, config, tell)
    if control is not None:
        _check_other(evidence, control)
    if other is not None:
        control = Control.gathered(_gather(other, classes, config, tell, fresh=subject.missing))
    found = _diagnose(evidence, classes, config, tell) if diagnostics else None
    report = score(evidence, control, classes, config, seconds=time.perf_counter() - began)
    return replace(report, diagnostics=found)


def _open_reference(reference: object | None, arch: str | None, config: AuditConfig) -> Release | dict[str, Any] | None:
    """Load a reference, or read an earlier audit of it; a wrong path shows before features are extracted."""
    if is_audit(reference):
        return read_audit(reference)
    return None if reference is None else load(reference, arch=arch, device=config.device)


def _check_other(evidence: Evidence, control: Control) -> None:
    """Refuse an earlier audit of the very same head on the very same features, which only the curves show."""
    same = control.facts.get("fingerprint") == evidence.subject.release.fingerprint
    if same and control.curves == evidence.curves("reference"):
        refuse_same()


def _diagnose(evidence: Evidence, forget: tuple[int, ...], config: AuditConfig, tell: Progress) -> dict[str, Any]:
    from sfra.diagnostics import diagnose

    tell("diagnosing", 0, 1)
    return diagnose(evidence, forget, proposal=config.proposal, epsilons=config.budgets).to_dict()


def _gather(
    subject: Subject, forget: tuple[int, ...], config: AuditConfig, tell: Progress, *, fresh: bool = False
) -> Evidence:
    """Relearn a subject in every setting, without data, then measure what came back, where there is data."""
    settings = settings_of(config, missing=subject.missing, fresh=fresh)
    runs: list[Run] = relearn_release(subject.release.head, forget, settings, config, progress=tell)
    measured: list[Measured] | None = None
    if subject.test is not None:
        split = split_features(subject.test, subject.validation, forget)
        measured = measure(runs, split, forget, device=config.device)
    return Evidence(subject=subject, runs=runs, measured=measured)
