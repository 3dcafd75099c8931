"""Score what was measured: RS, ΔRS, RS@ε, findings and the verdict, put together into a report."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from sfra._version import __version__
from sfra.attack.scale import SWEEP, scale_curve
from sfra.auditing.conclude import conclude
from sfra.auditing.config import AuditConfig
from sfra.auditing.evaluate import confusion
from sfra.auditing.evidence import Control, Evidence, data_facts
from sfra.auditing.inputs import known_names
from sfra.auditing.measure import Outcome, budgets
from sfra.auditing.result import AuditReport
from sfra.auditing.verdict import Reading, overall_verdict, verdict
from sfra.core.metrics import degenerate_floor, is_relearned

RULE = "source-free"
"""Rule of the verdict: no real data has a say in which epoch counts."""


@dataclass(frozen=True, kw_only=True)
class Scored:
    """An outcome beside that of the reference in the same setting and under the same rule."""

    model: Outcome
    reference: Outcome | None

    @property
    def delta_rs(self) -> float | None:
        """RS minus the reference's."""
        return None if self.reference is None else self.model.rs - self.reference.rs

    @property
    def delta_rs_interval(self) -> tuple[float, float] | None:
        """95 % interval of ΔRS from the two intervals of RS (Newcombe's hybrid score method)."""
        if self.reference is None:
            return None
        rs, other = self.model.rs, self.reference.rs
        (low, high), (other_low, other_high) = self.model.interval, self.reference.interval
        return rs - other - math.hypot(rs - low, other_high - other), rs - other + math.hypot(
            high - rs, other - other_low
        )

    @property
    def reading(self) -> Reading:
        """The numbers that a verdict rests on."""
        return Reading(
            rs=self.model.rs,
            delta_rs=self.delta_rs,
            delta_rs_low=None if self.delta_rs_interval is None else self.delta_rs_interval[0],
            retain_before=self.model.retain_before,
            retain_after=self.model.retain_after,
            forget_before=self.model.forget_before,
        )

    def row(self) -> dict[str, Any]:
        """Return the row of ``results``."""
        model, reference = self.model, self.reference
        return {
            "scale": model.setting.scale,
            "kappa": model.setting.kappa,
            "variant": model.setting.variant,
            "rule": model.rule,
            "rs": model.rs,
            "rs_std": model.rs_std,
            "rs_seeds": list(model.rs_seeds),
            "delta_rs": self.delta_rs,
            "reference_rs": None if reference is None else reference.rs,
            "reference_retain_before": None if reference is None else reference.retain_before,
            "reference_retain_after": None if reference is None else reference.retain_after,
            "reference_forget_before": None if reference is None else reference.forget_before,
            "reference_forget_after": None if reference is None else reference.forget_after,
            "retain_before": model.retain_before,
            "retain_after": model.retain_after,
            "forget_before": model.forget_before,
            "forget_after": model.forget_after,
            "floor": degenerate_floor(model.retain_before),
            "verdict": verdict(self.reading),
            "forget_samples": model.forget_count,
            "epoch": model.epochs[0],
            "epochs": list(model.epochs),
        }


def score(
    evidence: Evidence, control: Control | None, forget: tuple[int, ...], config: AuditConfig, *, seconds: float
) -> AuditReport:
    """Put the report together; the verdict rests on the first setting under the source-free rule."""
    rows = _pair(evidence.outcomes, control.outcomes if control is not None else ())
    head = rows[0] if rows else None
    assert head is None or head.model.rule == RULE
    first = evidence.runs[0]
    subject = evidence.subject
    names = known_names(subject.release, subject.test, missing=subject.missing)
    outcome = head.model if head else None
    found = conclude(evidence, control, rows, forget, config)
    odd = any(finding.code == "forget-row-outlier" for finding in found)
    return AuditReport(
        verdict=overall_verdict(head.reading if head else None, _reset_reading(rows), row_is_odd=odd),
        rs=outcome.rs if outcome else None,
        rs_std=outcome.rs_std if outcome else None,
        rs_interval=outcome.interval if outcome else None,
        delta_rs=head.delta_rs if head else None,
        delta_rs_interval=head.delta_rs_interval if head else None,
        reference_rs=head.reference.rs if head and head.reference else None,
        scale=first.setting.scale,
        rule=RULE,
        variant=first.setting.variant,
        floor=degenerate_floor(outcome.retain_before) if outcome else None,
        retain=_before_after(outcome, "retain"),
        forget=_before_after(outcome, "forget"),
        rs_at=budgets(evidence.measured, first.setting, config.budgets) if evidence.measured else {},
        relearned=_relearned(outcome, config),
        findings=found,
        results=[row.row() for row in rows],
        sweep=_sweep(rows) if config.scale == "sweep" and rows else None,
        trajectory=evidence.curves("model") + (control.curves if control else []),
        confusion=_confusion(evidence, forget),
        probes=evidence.probe_facts(),
        model=evidence.facts(),
        reference=control.facts if control else None,
        data=data_facts(subject, forget),
        forget_classes=list(forget),
        class_names=list(names) if names else None,
        settings=config.resolved(subject.classes(forget), len(forget)).to_dict(),
        versions=_versions(),
        seconds=seconds,
        created=datetime.now(UTC).isoformat(timespec="seconds"),
        relearned_head=first.placed.released(first.path.last),
    )


def _pair(model: Sequence[Outcome], reference: Sequence[Outcome]) -> list[Scored]:
    """Put every outcome beside the reference's: same scale and rule, and a fresh row beside a fresh row.

    A reference without the forget row has nothing but fresh rows, so it is compared by scale and rule.
    """

    def twin(outcome: Outcome) -> Outcome | None:
        same = [r for r in reference if (r.setting.scale, r.rule) == (outcome.setting.scale, outcome.rule)]
        fresh = outcome.setting.variant != "released"
        return next((r for r in same if (r.setting.variant != "released") == fresh), same[0] if same else None)

    return [Scored(model=outcome, reference=twin(outcome)) for outcome in model]


def _reset_reading(rows: Sequence[Scored]) -> Reading | None:
    reset = (row for row in rows if row.model.setting.variant == "reset-row" and row.model.rule == RULE)
    return next((row.reading for row in reset), None)


def _before_after(outcome: Outcome | None, which: str) -> dict[str, float | None]:
    return {when: getattr(outcome, f"{which}_{when}", None) for when in ("before", "after")}


def _relearned(outcome: Outcome | None, config: AuditConfig) -> bool | None:
    if outcome is None:
        return None
    return is_relearned(
        outcome.retain_before,
        outcome.retain_after,
        outcome.forget_before,
        outcome.forget_after,
        epsilon_r=config.epsilon_r,
        delta_f=config.delta_f,
    )


def _sweep(rows: Sequence[Scored]) -> dict[str, Any]:
    """Summarise the verdict's rule over the scales of the sweep, in ascending order."""
    curve = sorted(
        (
            row
            for row in rows
            if row.model.rule == RULE and row.model.setting.kappa in SWEEP and row.model.setting.variant != "reset-row"
        ),
        key=lambda row: row.model.setting.kappa or 0.0,
    )
    points = [row.row() for row in curve]
    kept = ("kappa", "scale", "rs", "reference_rs", "delta_rs", "retain_before", "retain_after", "forget_after")
    summary: dict[str, Any] = {
        "points": [{key: point[key] for key in kept} for point in points],
        "best_rs": max(point["rs"] for point in points),
        "area": None,
        "rs_at_reference": None,
    }
    if all(row.reference is not None for row in curve):
        found = scale_curve([point["rs"] for point in points], [point["reference_rs"] for point in points])
        summary |= asdict(found)
    return summary


def _confusion(evidence: Evidence, forget: Sequence[int]) -> dict[str, Any] | None:
    """Count what the samples of each forget class are taken for, before and after, in the verdict's run."""
    test, run = evidence.subject.test, evidence.runs[0]
    if test is None:
        return None
    features = run.placed.features(test.features)
    before, after = (confusion(h, features, test.labels)[list(forget)] for h in (run.path.head(0), run.path.last))
    return {"classes": list(forget), "before": before.tolist(), "after": after.tolist()}


def _versions() -> dict[str, str]:
    found = {"sfra": __version__, "python": platform.python_version(), "platform": platform.platform(terse=True)}
    for package in ("torch", "numpy", "scipy", "numba"):
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            found[package] = "not installed"
    return found
