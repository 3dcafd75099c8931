"""The size of the head at which an audit of this very network sees something.

The constant κ was chosen on networks with batch norm. Where it does not fit, everything relearns at it, or nothing. So
retain classes of the released model are hidden, one group at a time, and audited at one size after another. The forget
classes have no part in the choice, nor has a reference; labelled retain data has, as in every control.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from statistics import median

from sfra.attack.grid import expect_jobs
from sfra.attack.outlook import Outlook
from sfra.attack.scale import CALIBRATED, KAPPA
from sfra.auditing.config import AuditConfig
from sfra.auditing.control import HiddenSubject, audit_hidden, hide_retain_classes
from sfra.auditing.result import Calibration, ScaleStep
from sfra.auditing.subject import Subject
from sfra.auditing.verdict import RETAIN_LIMIT
from sfra.core.errors import InputError
from sfra.core.types import Progress

GRID = tuple(KAPPA * 2.0 ** (step / 4) for step in range(-10, 5))
"""From a sixth of the canonical size to twice it: fifteen sizes, of which a bisection looks at four. Above it models
that never saw a class give it back as well."""

COMES_BACK = 0.7
"""Median RS of hidden classes that counts as back; ``docs/scale.md`` has the measurements behind it."""


def settle_scale(
    model: Subject, controls: int, config: AuditConfig, progress: Progress | None
) -> tuple[AuditConfig, list[HiddenSubject], Calibration | None]:
    """Hide retain classes as controls, and if the scale is to be calibrated as many more, to find it on them."""
    if config.scale != CALIBRATED:
        return config, hide_retain_classes(model, controls), None
    hidden = hide_retain_classes(model, 2 * controls)
    calibration = calibrate(hidden[::2], config, progress)
    return replace(config, scale=calibration.kappa), hidden[1::2] or hidden, calibration


def calibrate(hidden: Sequence[HiddenSubject], config: AuditConfig, progress: Progress | None) -> Calibration:
    """Find the smallest size of ``GRID`` at which hidden classes come back, by bisection.

    Their RS rises with the size, until relearning breaks the other classes: a size is too small where the median RS is
    below ``COMES_BACK``, and too large where the median retain accuracy falls by more than ten points.
    """
    if not hidden:
        raise InputError(
            "the scale cannot be calibrated",
            expected="labelled data with retain classes that the model recognises, and leave to hide them",
            got="none that may be hidden",
            do="pass such data (--data) and do not pass --self-controls 0, or name another scale (--scale)",
        )
    outlook, looks = Outlook(progress), len(GRID).bit_length()
    _, first = hidden[0]
    expect_jobs(outlook, looks * len(hidden) * config.seeds, first.classes, first.width, len(first.forget), config)
    outlook.announce(f"calibrating the scale: {len(hidden)} hidden classes at {looks} sizes")
    steps, chosen, low, high = list[ScaleStep](), None, 0, len(GRID)
    while low < high:
        middle = (low + high) // 2
        step = _look(hidden, GRID[middle], config, outlook)
        steps.append(step)
        broken, back = step.retain_drop > RETAIN_LIMIT, median(step.rs) >= COMES_BACK
        if back and not broken:
            chosen = GRID[middle]
        low, high = (low, middle) if back or broken else (middle + 1, high)
    return Calibration(
        kappa=KAPPA if chosen is None else chosen,
        found=chosen is not None,
        classes=tuple(classes for classes, _ in hidden),
        steps=tuple(sorted(steps, key=lambda one: one.kappa)),
    )


def _look(hidden: Sequence[HiddenSubject], kappa: float, config: AuditConfig, outlook: Outlook) -> ScaleStep:
    """Audit the hidden classes at one size."""
    scores = [one.score for one in audit_hidden(hidden, replace(config, scale=kappa), (), outlook)]
    drop = median(one.retain_before - one.retain_after for one in scores)
    return ScaleStep(kappa=kappa, rs=tuple(one.rs for one in scores), retain_drop=drop)
