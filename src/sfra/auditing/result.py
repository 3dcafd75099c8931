"""The result of an audit: numbers, verdict and findings, as data that can be kept and quoted."""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from sfra.auditing.findings import Finding
from sfra.auditing.verdict import VERDICTS
from sfra.core.errors import InputError
from sfra.core.files import to_bytes, write_together
from sfra.core.head import Head
from sfra.core.text import parse_json

SCHEMA = "sfra.audit/1"
"""Name and version of the layout of ``audit.json``; ``docs/audit-json.md`` describes it."""


@dataclass(frozen=True, kw_only=True, eq=False)
class AuditReport:
    """What an audit found. Accuracies are in [0, 1]; None stands for what was not measured."""

    verdict: str
    """A key of ``sfra.auditing.verdict.VERDICTS``."""
    rs: float | None
    """Relearning score at the scale, rule and variant named below, mean over seeds."""
    rs_std: float | None
    """Sample standard deviation over seeds; None for one seed."""
    rs_interval: tuple[float, float] | None
    """RS at the ends of the 95 % Wilson interval of the forget accuracy after, retain accuracy held."""
    delta_rs: float | None
    """RS minus the reference's RS in the same audit."""
    delta_rs_interval: tuple[float, float] | None
    """95 % interval of ΔRS from the sampling errors of the two forget accuracies."""
    reference_rs: float | None
    scale: str
    rule: str
    variant: str
    floor: float | None
    """RS of a head that always answers the forget class."""
    retain: dict[str, float | None]
    """Retain accuracy ``before`` and ``after`` relearning."""
    forget: dict[str, float | None]
    """Forget accuracy ``before`` and ``after`` relearning."""
    rs_at: dict[str, float]
    """RS@ε: best RS on the trajectory among epochs that lose at most ε of retain accuracy."""
    relearned: bool | None
    """(ε, δ)-relearning holds, with the ε and δ of the settings."""
    findings: tuple[Finding, ...]
    results: list[dict[str, Any]]
    """One row per scale, variant and rule."""
    sweep: dict[str, Any] | None
    """The curve over scales, where asked for."""
    trajectory: list[dict[str, Any]]
    """Accuracies and loss of every epoch, per scale, variant and seed, of model and reference."""
    confusion: dict[str, Any] | None
    """What forget samples are taken for, before and after: counts per class."""
    probes: list[dict[str, Any]]
    """How the probes came about, per scale, variant and seed."""
    model: dict[str, Any]
    reference: dict[str, Any] | None
    data: dict[str, Any] | None
    forget_classes: list[int]
    class_names: list[str] | None
    settings: dict[str, Any]
    versions: dict[str, str]
    seconds: float
    created: str
    relearned_head: Head
    """The relearned head of the verdict, in the coordinates of the released features; not part of the JSON."""
    diagnostics: dict[str, Any] | None = None
    """What :func:`sfra.diagnostics.diagnose` says of the verdict's setting, where asked for."""

    def __repr__(self) -> str:
        """Show the verdict and its numbers; :meth:`to_dict` has all of it."""
        shown = {"rs": self.rs, "delta_rs": self.delta_rs}
        numbers = [f"{name}={'None' if value is None else f'{value:.3f}'}" for name, value in shown.items()]
        moves = [
            f"{name} {row['before']:.1%} to {row['after']:.1%}"
            for name, row in (("retain", self.retain), ("forget", self.forget))
            if row["before"] is not None
        ]
        codes = ", ".join(finding.code for finding in self.findings) or "none"
        parts = [repr(self.verdict), *numbers, *moves, f"forget_classes={self.forget_classes}", f"findings: {codes}"]
        return f"AuditReport({', '.join(parts)})"

    @property
    def statement(self) -> str:
        """The verdict in words."""
        return VERDICTS[self.verdict]

    def to_dict(self) -> dict[str, Any]:
        """Return the content of ``audit.json``."""
        plain = {f.name: getattr(self, f.name) for f in fields(self) if f.name != "relearned_head"}
        plain["findings"] = [finding.to_dict() for finding in self.findings]
        for name in ("rs_interval", "delta_rs_interval"):
            plain[name] = None if plain[name] is None else list(plain[name])
        return {"schema": SCHEMA, "verdict": self.verdict, "statement": self.statement} | plain

    def to_json(self) -> str:
        """Return the text of ``audit.json``."""
        return json.dumps(self.to_dict(), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    def save(self, folder: str | Path) -> Path:
        """Write ``audit.json`` and ``relearned_head.safetensors`` to a folder, both or none."""
        out = Path(folder)
        if out.exists() and not out.is_dir():
            raise InputError("the results cannot be written there", expected="a folder", got=f"the file {out}")
        head, audit = out / "relearned_head.safetensors", out / "audit.json"
        write_together({head: self.relearned_head.to_safetensors(), audit: to_bytes(self.to_json())})
        return audit

    def value(self, path: str) -> float | None:
        """Return a scalar of the result by its dotted name, such as ``rs``, ``forget.after`` or ``rs_at.0.02``.

        Raises:
            InputError: There is no such scalar.
        """
        scalars = self.scalars()
        if path not in scalars:
            raise InputError(f"the result has no scalar named {path!r}", expected=", ".join(sorted(scalars)), got=path)
        return scalars[path]

    def scalars(self) -> dict[str, float | None]:
        """Return every number of the result that a gate can test, by dotted name."""
        found: dict[str, float | None] = {
            name: getattr(self, name) for name in ("rs", "rs_std", "delta_rs", "reference_rs", "floor", "seconds")
        }
        found["relearned"] = None if self.relearned is None else float(self.relearned)
        found["findings"] = float(len(self.findings))
        for name in ("retain", "forget", "rs_at"):
            found |= {f"{name}.{key}": value for key, value in getattr(self, name).items()}
        if self.sweep is not None:
            found |= {f"sweep.{key}": self.sweep.get(key) for key in ("best_rs", "area", "rs_at_reference")}
        for row in self.results:
            prefix = f"{row['scale']}.{row['variant']}.{row['rule']}"
            found |= {f"{prefix}.{key}": row[key] for key in ("rs", "delta_rs", "retain_after", "forget_after")}
        return found


def read_result(file: Path) -> dict[str, Any]:
    """Read an ``audit.json``, which may be a stranger's: its schema is checked here, what is in it by whoever uses it.

    Raises:
        InputError: There is none, or it is not the result of an audit.
    """
    if not file.is_file():
        raise InputError(f"{file} cannot be read", expected="an audit.json that sfra wrote", got="no such file")
    try:
        found = parse_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError) as problem:  # also text that is not UTF-8
        do = "it may be truncated or changed by hand: copy it again, or repeat the audit"
        raise InputError(
            f"{file} cannot be read", expected="an audit.json that sfra wrote, in UTF-8", got=problem, do=do
        ) from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        got = found.get("schema") if isinstance(found, dict) else type(found).__name__
        raise InputError(f"{file} is not the result of an audit", expected=f'"schema": "{SCHEMA}"', got=repr(got)[:80])
    return found
