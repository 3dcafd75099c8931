"""An earlier audit of the reference, used again: one reference serves many models without being relearned each time."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfra.attack.grid import Setting, settings_of
from sfra.auditing.config import AuditConfig
from sfra.auditing.evidence import Control, data_facts
from sfra.auditing.inputs import Subject
from sfra.auditing.measure import Outcome
from sfra.auditing.result import AuditReport, read_result
from sfra.auditing.trace import RULES
from sfra.core.errors import InputError

FREE = ("device", "threads", "budgets", "epsilon_r", "delta_f")
"""Settings in which the two audits may differ: they do not touch the reference's score."""


def is_audit(reference: object) -> bool:
    """Say whether a reference is an audit rather than a model: a report, or the path of an ``audit.json``."""
    if isinstance(reference, AuditReport):
        return True
    return isinstance(reference, str | os.PathLike) and Path(reference).suffix == ".json"


def read_audit(reference: object) -> dict[str, Any]:
    """Return the content of an earlier audit."""
    if isinstance(reference, AuditReport):
        return reference.to_dict()
    return read_result(Path(str(reference)))


def control_from(
    earlier: Mapping[str, Any], subject: Subject, *, forget: tuple[int, ...], config: AuditConfig
) -> Control:
    """Turn an earlier audit of the reference into the control of another, if it is the same audit in every respect.

    Args:
        earlier: The content of its ``audit.json``.
        subject: The model at hand with its data.
        forget: Forget classes of the audit at hand.
        config: Its settings.
    """
    try:
        return _control(earlier, subject, forget, config)
    except InputError:
        raise
    except (KeyError, TypeError, AttributeError, ValueError) as problem:  # a stranger's file
        raise _false(f"{type(problem).__name__}: {problem}") from None


def _control(earlier: Mapping[str, Any], subject: Subject, forget: tuple[int, ...], config: AuditConfig) -> Control:
    _same("forget classes", list(forget), earlier["forget_classes"])
    own = json.loads(json.dumps(config.resolved(subject.classes(forget), len(forget)).to_dict()))
    for name in own:
        if name not in FREE:
            _same(name, own[name], earlier["settings"].get(name))
    here, there = data_facts(subject, forget) or {}, earlier["data"] or {}
    for name in ("samples", "labels", "validation"):
        _same(f"evaluation data ({name})", here.get(name), there.get(name))
    _same("forget row", "missing" if subject.missing else "present", earlier["model"]["forget_row"])
    outcomes = [_outcome(row) for row in earlier["results"]]
    read = [(one.setting, one.rule) for one in outcomes]
    wanted = [] if subject.test is None else settings_of(config, missing=subject.missing)
    always = {(setting, rule) for setting in wanted for rule in RULES if rule != "validation"}
    if len(set(read)) < len(read) or not always <= set(read):
        raise _false("results that are missing or there twice")
    return Control(
        outcomes=outcomes,
        curves=[curve | {"subject": "reference"} for curve in earlier["trajectory"] if curve["subject"] == "model"],
        facts=dict(earlier["model"]),
    )


def _false(got: str) -> InputError:
    return InputError(
        "the audit of the reference is not what its schema promises",
        expected="an audit.json as sfra wrote it",
        got=got,
        do="audit the reference again, or pass the reference model itself",
    )


def _share(row: Mapping[str, Any], name: str) -> float:
    """Read a score or an accuracy."""
    value = row[name]
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= 1:
        raise ValueError(f"{name} is {value!r:.40}")
    return float(value)


def _same(what: str, here: object, there: object) -> None:
    if here != there:
        raise InputError(
            f"the reference was audited differently: {what}",
            expected=here,
            got=there,
            do="audit the reference again with these settings, or pass the reference model itself",
        )


def _outcome(row: Mapping[str, Any]) -> Outcome:
    return Outcome(
        setting=Setting(kappa=row["kappa"], variant=row["variant"]),
        rule=row["rule"],
        rs=_share(row, "rs"),
        rs_std=row["rs_std"],
        rs_seeds=tuple(row["rs_seeds"]),
        retain_before=_share(row, "retain_before"),
        retain_after=_share(row, "retain_after"),
        forget_before=_share(row, "forget_before"),
        forget_after=_share(row, "forget_after"),
        epochs=tuple(row["epochs"]),
        forget_count=row["forget_samples"],
    )
