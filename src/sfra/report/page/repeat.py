"""The command line that repeats an audit, as far as its file knows it."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

from sfra.auditing.config import LATER, AuditConfig
from sfra.auditing.control import default_self_controls
from sfra.auditing.naming import typed
from sfra.auditing.result import AuditResult
from sfra.bench.tables.names import DATASETS

Part = list[str]

OPTIONS = (
    *("n", "m", "proposal", "score", "assignment", "scale"),
    *("forget_weight", "epochs", "seeds", "seed", "max_draws"),
)
"""Settings that have an option of the same name."""

PER_LINE = 4
"""Options on a line of a command."""

WITHOUT_OPTION = ("learning_rate", "weight_decay", "batch_size", "budgets", "epsilon_r", "delta_f")
"""Settings that only the Python interface changes."""

PLACEHOLDER = re.compile(r"[A-Z][A-Z_]+(_\d+)?")
"""Words that stand for paths, which an audit does not record."""

HEADS = re.compile(r"head file .*|a head", re.DOTALL)
"""What a head without an encoder is called."""

FILES = (".npz", ".safetensors")
"""Data that are one file; it may hold features, and has no validation part of its own."""

_STATE_DICT = re.compile(r"state dict .* \((.+)\)")
_KEY = re.compile(r"(?:state dict|head file) .* \[(.+)\](?: \(.*\))?")
_LAYER = re.compile(r"head file .* \(layer (.+)\)")
_NAMED = re.compile(r"(.+) \(test\)")


def command(audit: AuditResult) -> str:
    """Write the command line that repeats the audit; names in capitals stand for paths that the file does not hold."""
    settings = LATER | audit.settings | ({"scale": "calibrated"} if audit.calibration else {})
    parts = [["sfra", "audit", "MODEL", "--forget", typed(audit.forget_classes, audit.class_names)]]
    parts += [*_data(audit), *_architectures(audit)]
    prepared = audit.model.preprocess  # a model that says so itself does not mind being told
    if prepared is not None and not isinstance(prepared, str):
        parts += [[f"--{name}", text] for name, text in prepared.options().items()]
    parts += [[f"--{name.replace('_', '-')}", str(settings[name])] for name in OPTIONS]
    parts += [] if settings["reset_row"] else [["--no-reset-row"]]
    expected = settings.get("expect_accuracy")
    parts += [] if expected is None else [["--expect-accuracy", str(expected)]]
    parts += [["--missing-row"]] if audit.model.forget_row == "missing" else []
    parts += [["--diagnostics"]] if audit.diagnostics else []
    parts += [["--device", str(settings["device"])]] if settings.get("device") not in (None, "cpu") else []
    lines = [" ".join(map(shlex.join, parts[i : i + PER_LINE])) for i in range(0, len(parts), PER_LINE)]
    return " \\\n    ".join(lines)


def command_notes(audit: AuditResult) -> list[str]:
    """Say what the placeholders of the command stand for, and what no option of it can say."""
    words = shlex.split(command(audit).replace("\\\n", ""))
    used = list(dict.fromkeys(word for word in words if PLACEHOLDER.fullmatch(word)))
    *first, last = used
    many = f"{', '.join(first)} and {last} stand for your own files; audit.json has their fingerprints."
    notes = [many if first else f"{last} stands for your own file; audit.json has its fingerprint."]
    if audit.references and audit.data and not _features(audit) and audit.data.source.endswith(FILES):
        notes.append("If DATA holds features, the reference needs its own: --reference-data REFERENCE_DATA.")
    return notes


def unusual(settings: Mapping[str, Any]) -> list[str]:
    """List the settings that only the Python interface can have changed.

    >>> unusual({"batch_size": 64, "budgets": [0.01, 0.02, 0.05]})
    ['batch_size=64']
    """
    usual = json.loads(json.dumps({name: getattr(AuditConfig(), name) for name in WITHOUT_OPTION}))
    return [f"{name}={settings[name]}" for name in usual if settings.get(name, usual[name]) != usual[name]]


def _data(audit: AuditResult) -> list[Part]:
    """Say what is measured on, and compared with."""
    if audit.data is None:
        return []
    source = audit.data.source
    own = re.fullmatch(r"\d+ samples", audit.data.validation)
    named = _NAMED.fullmatch(source) if own else None
    parts = [["--data", named[1] if named and named[1] in DATASETS else "DATA"]]
    if own and (source.endswith(FILES) or source.startswith("the given ")):
        parts.append(["--validation", "VALIDATION"])
    many = len(audit.references) > 1
    for i in range(len(audit.references)):
        number = f"_{i + 1}" if many else ""
        parts.append(["--reference", f"REFERENCE{number}"])
        parts += [["--reference-data", f"REFERENCE_DATA{number}"]] if _features(audit) else []
    if any(control.kind == "original" for control in audit.controls):
        parts.append(["--control", "ORIGINAL"])
        parts += [["--control-data", "ORIGINAL_DATA"]] if _features(audit) else []
    hidden = next((len(control.hidden) for control in audit.controls if control.kind == "self"), 0)
    usual = default_self_controls(audit.model.outputs)
    return parts if hidden in (0, usual) else [*parts, ["--self-controls", str(hidden)]]


def _sources(audit: AuditResult) -> tuple[str, str]:
    return audit.model.source, audit.references[0].source if audit.references else ""


def _architectures(audit: AuditResult) -> list[Part]:
    """Name the architectures of state dicts; a reference without one of its own takes that of the model."""
    mine, other = map(_STATE_DICT.fullmatch, _sources(audit))
    parts = [["--arch", mine[1]]] if mine else []
    for option, pattern in (("--key", _KEY), ("--head-key", _LAYER)):
        named = pattern.fullmatch(audit.model.source)
        parts += [[option, named[1]]] if named else []
    return parts + ([["--reference-arch", other[1]]] if other and (not mine or mine[1] != other[1]) else [])


def _features(audit: AuditResult) -> bool:
    """Say whether the data must have been features: a head alone is measured on nothing else."""
    return any(map(HEADS.fullmatch, _sources(audit)))
