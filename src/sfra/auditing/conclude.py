"""Raise the findings of an audit: which rules look at which numbers."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from torch import nn

from sfra.attack.scale import KAPPA, place
from sfra.auditing import findings
from sfra.auditing.config import AuditConfig
from sfra.auditing.findings import Finding
from sfra.auditing.verdict import verdict
from sfra.core.head import Head
from sfra.release import Release

if TYPE_CHECKING:
    from sfra.auditing.evidence import Control, Evidence
    from sfra.auditing.score import Scored

NORMS = re.compile(r"norm|running_(mean|var)|(^|[._])(bn|ln|gn)\d*[._]", re.IGNORECASE)
"""What tensors of a normalisation are called."""

OF_WEIGHTS = ("weightnorm", "spectralnorm")
"""Layers that say "norm" and leave the features alone."""


def conclude(
    evidence: Evidence,
    control: Control | None,
    rows: Sequence[Scored],
    forget: Sequence[int],
    config: AuditConfig,
) -> tuple[Finding, ...]:
    """Return what a reader must know before quoting the score, gravest first."""
    found = [*_about_the_release(evidence, forget, config)]
    if rows:
        found += [*_about_the_score(evidence, rows), *_about_the_reference(control, rows)]
    else:
        found.append(findings.nothing_measured(0))
    order = ("critical", "warning", "info")
    return tuple(sorted((f for f in found if f is not None), key=lambda finding: order.index(finding.severity)))


def _about_the_release(evidence: Evidence, forget: Sequence[int], config: AuditConfig) -> Iterator[Finding | None]:
    subject = evidence.subject
    if subject.missing:
        yield findings.forget_row_missing(len(forget))
    else:
        yield from _odd_rows(evidence, forget)
    probes = evidence.runs[0].probes
    yield findings.rare_class({label: float(probes.acceptance[label]) for label in probes.conditional})
    classes = subject.classes(forget)
    yield findings.small_m(config.probe_settings(classes, len(forget)).m, classes - len(forget))


def _odd_rows(evidence: Evidence, forget: Sequence[int]) -> Iterator[Finding | None]:
    """Look at the rows centred and as released: a row added to all of them changes nothing, but hides an odd one."""
    released = evidence.subject.release.head
    centred = place(released, forget, kappa=KAPPA).head
    for k in forget:
        yield _odd_row(centred, k, forget) or _odd_row(released, k, forget)


def _odd_row(head: Head, label: int, forget: Sequence[int]) -> Finding | None:
    norms, biases = head.weight.norm(dim=1).tolist(), head.bias.tolist()
    retain = [k for k in range(head.classes) if k not in forget]
    return findings.forget_row_outlier(
        label, norms[label], biases[label], [norms[k] for k in retain], [biases[k] for k in retain]
    )


def _about_the_score(evidence: Evidence, rows: Sequence[Scored]) -> Iterator[Finding | None]:
    outcome = rows[0].model
    yield findings.retain_low(outcome.retain_before, outcome.retain_after)
    yield findings.forget_not_low(outcome.forget_before)
    yield findings.retain_drop(outcome.retain_before, outcome.retain_after)
    yield findings.degenerate(outcome.rs, outcome.retain_before, outcome.retain_after)
    yield findings.seed_spread(outcome.rs_seeds)
    native, canonical = (
        next(row for row in rows if row.model.setting.kappa == kappa and row.model.rule == outcome.rule)
        for kappa in (None, KAPPA)
    )
    yield findings.scale_disagreement(
        verdict(native.reading), verdict(canonical.reading), native.model.rs, canonical.model.rs
    )
    assert evidence.measured is not None
    test = evidence.measured[0].test
    yield findings.few_eval_samples(test.forget_count)
    yield findings.late_recovery(test.rs.tolist())
    yield _passing_recovery(rows)
    yield findings.no_normalisation(normalises(evidence.subject.release), outcome.rs)


def _passing_recovery(rows: Sequence[Scored]) -> Finding | None:
    last = rows[0]
    best = next(row for row in rows if row.model.setting == last.model.setting and row.model.rule == "worst-case")
    return findings.passing_recovery(
        verdict(last.reading), verdict(best.reading), last.model.rs, best.model.rs, best.model.epochs
    )


def normalises(release: Release) -> bool | None:
    """Say whether a network has a layer that normalises its features; None where its layers cannot be seen.

    Layers of that kind are many, and anyone may write one: "norm" in the name of its class makes a layer one of them,
    unless it is weights that it normalises. What calls functions instead may be known by the names of its tensors, such
    as ``bn1.weight`` or ``running_mean``. In doubt a network counts as normalised.
    """
    network = getattr(release.encoder, "model", None)
    if not isinstance(network, nn.Module):
        return None
    kinds = (type(part).__name__.lower() for part in network.modules() if part is not network)
    if any("norm" in kind and not kind.endswith(OF_WEIGHTS) for kind in kinds):
        return True
    return any(NORMS.search(name) is not None for name in network.state_dict())


def _about_the_reference(control: Control | None, rows: Sequence[Scored]) -> Iterator[Finding | None]:
    first = rows[0]
    yield findings.reference_missing(first.reference.rs if first.reference else None)
    if control is None or first.reference is None or first.delta_rs is None:
        return
    for own in control.outcomes:  # what a fresh row answers is chance, and says nothing about the reference
        if own.setting == replace(first.model.setting, variant="released") and own.rule == first.model.rule:
            yield findings.reference_saw_class(own.forget_before)
    yield findings.reference_differs(first.model.retain_before, first.reference.retain_before)
    yield findings.generic_relearnability(first.model.rs, first.delta_rs)
    yield findings.negative_delta(first.delta_rs)
