"""Gates: ``--fail-if "delta_rs>0.1"`` turns a number of the result into an exit code."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sfra.attack.grid import settings_of
from sfra.auditing.config import AuditConfig
from sfra.auditing.result import ROW_SCALARS, WITH_INTERVAL
from sfra.auditing.rules import RULES
from sfra.core.errors import InputError

OPERATORS = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
ALWAYS = ("seconds", "findings")
"""Numbers that need no evaluation data."""

MEASURED = ("rs", "rs_std", "floor", "relearned", "retain.before", "retain.after", "forget.before", "forget.after")
ENDS = tuple(f"{name}.{end}" for name in WITH_INTERVAL for end in ("low", "high"))
COMPARED = ("delta_rs", "delta_rs.low", "delta_rs.high", "reference_rs", "sweep.area", "sweep.rs_at_reference")
"""Numbers that need a reference as well."""


@dataclass(frozen=True, kw_only=True)
class Gate:
    """A condition under which a run fails.

    >>> parse("delta_rs > 0.1").holds(0.3)
    True
    """

    text: str
    name: str
    symbol: str
    bound: float

    def holds(self, value: float | bool) -> bool:
        """Say whether the run fails."""
        return bool(OPERATORS[self.symbol](float(value), self.bound))


def parse(text: str) -> Gate:
    """Read ``NAME OPERATOR NUMBER``."""
    found = re.fullmatch(r"\s*([^\s<>!]*?[^\s<>!=])\s*(>=|<=|==|!=|>|<)\s*(\S+)\s*", text)
    try:
        bound = float({"true": "1", "false": "0"}.get(found[3].lower(), found[3])) if found else math.nan
    except ValueError:
        bound = math.nan
    if found is None or not math.isfinite(bound):
        raise InputError(
            "cannot read the gate",
            expected=f"NAME OPERATOR NUMBER with one of {' '.join(OPERATORS)}, for example delta_rs>0.1",
            got=text,
            do="put it in quotes, or the shell takes > for a redirection",
        )
    return Gate(text=text, name=found[1], symbol=found[2], bound=bound)


def scalar_names(config: AuditConfig, *, missing: bool) -> tuple[str, ...]:
    """List the numbers that an audit with these settings can have, by dotted name."""
    names = [
        *ALWAYS,
        *MEASURED,
        *ENDS,
        "delta_rs",
        "reference_rs",
        *(f"rs_at.{epsilon:g}" for epsilon in config.budgets),
    ]
    if config.scale == "sweep":
        names += ["sweep.best_rs", "sweep.area", "sweep.rs_at_reference"]
    for setting in settings_of(config, missing=missing):
        names += [f"{setting.scale.name}.{setting.variant}.{rule}.{name}" for rule in RULES for name in ROW_SCALARS]
    return tuple(names)


def check_gates(
    gates: Sequence[Gate], config: AuditConfig, *, data: bool, reference: bool, missing: bool = False
) -> None:
    """Refuse, before the audit runs, a gate on a number that it will not measure."""
    known = scalar_names(config, missing=missing)
    for gate in gates:
        if gate.name not in known:
            raise InputError(
                f"the result has no number named {gate.name}",
                expected=", ".join(name for name in known if name.count(".") < 3),
                got=gate.text,
                do="for one of the other readings write SCALE.VARIANT.RULE.rs, such as native.released.worst-case.rs",
            )
        if gate.name not in ALWAYS and not data:
            raise _unmeasured(gate, "pass --data with labelled test data")
        if (gate.name in COMPARED or gate.name.endswith(".delta_rs")) and not reference:
            raise _unmeasured(gate, "pass --reference with a model that was trained without the class")
        if gate.name == "rs_std" and config.seeds < 2:
            raise _unmeasured(gate, "pass --seeds 2 or more: one seed has no spread")


def failures(gates: Sequence[Gate], scalars: Mapping[str, float | bool | None]) -> list[str]:
    """Return a sentence for every gate that fails."""
    sentences = []
    for gate in gates:
        value = scalars.get(gate.name)
        if value is None:
            raise _unmeasured(gate, "pass more evaluation data (--data, --validation), or leave the gate out")
        if gate.holds(value):
            about = f"{gate.name} {gate.symbol} {gate.bound:g}"
            sentences.append(f"gate failed: {about} ({gate.name} is {float(value):.6g})")
    return sentences


def _unmeasured(gate: Gate, remedy: str) -> InputError:
    return InputError(f"this audit does not measure {gate.name}", got=gate.text, do=remedy)
