"""An earlier audit of the reference, used again: one reference serves many models without being relearned each time."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from sfra.config import AuditConfig
from sfra.errors import InputError
from sfra.evidence import Control, data_facts
from sfra.measure import Outcome
from sfra.result import SCHEMA, AuditReport
from sfra.runs import Setting
from sfra.subject import Subject

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
    path = Path(str(reference))
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:
        raise InputError(f"{path} cannot be read", expected="an audit.json that sfra wrote", got=problem) from None
    if not isinstance(content, dict) or content.get("schema") != SCHEMA:
        got = content.get("schema") if isinstance(content, dict) else type(content).__name__
        raise InputError(f"{path} is not an audit", expected=f"a file of the schema {SCHEMA}", got=got)
    return content


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
    _same("forget classes", list(forget), earlier["forget_classes"])
    own = json.loads(json.dumps(config.resolved(subject.classes(forget), len(forget)).to_dict()))
    for name in own:
        if name not in FREE:
            _same(name, own[name], earlier["settings"].get(name))
    here, there = data_facts(subject, forget) or {}, earlier["data"] or {}
    for name in ("samples", "labels", "validation"):
        _same(f"evaluation data ({name})", here.get(name), there.get(name))
    _same("forget row", "missing" if subject.missing else "present", earlier["model"]["forget_row"])
    return Control(
        outcomes=[_outcome(row) for row in earlier["results"]],
        curves=[curve | {"subject": "reference"} for curve in earlier["trajectory"] if curve["subject"] == "model"],
        facts=dict(earlier["model"]),
    )


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
        rs=row["rs"],
        rs_std=row["rs_std"],
        rs_seeds=tuple(row["rs_seeds"]),
        retain_before=row["retain_before"],
        retain_after=row["retain_after"],
        forget_before=row["forget_before"],
        forget_after=row["forget_after"],
        epochs=tuple(row["epochs"]),
        forget_count=row["forget_samples"],
    )
