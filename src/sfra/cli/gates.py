"""Gates: ``--fail-if "delta_rs>0.1"`` or ``"verdict==recovered"`` turns a result into an exit code."""

from __future__ import annotations

import math
import operator
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from sfra.auditing.config import AuditConfig
from sfra.auditing.verdicts import VERDICTS
from sfra.core.errors import InputError, meant

if TYPE_CHECKING:
    from sfra.auditing.result import AuditResult

OPERATORS = {
    ">=": operator.ge,
    "<=": operator.le,
    "==": operator.eq,
    "!=": operator.ne,
    ">": operator.gt,
    "<": operator.lt,
}
AFTER_RESET = "recovered-after-reset"
"""A verdict that rests on a fresh row; a gate that names ``recovered`` means it too."""

ALWAYS = ("seconds", "findings")
"""Numbers that need no evaluation data."""

ACCURACIES = ("retain.before", "retain.after", "forget.before", "forget.after")
MEASURED = ("verdict", "clear", "rs", "rs_std", "floor", "relearned", *ACCURACIES)
COMPARED = ("delta_rs", "delta_rs.low", "delta_rs.high", "reference_rs", "sweep.area", "sweep.rs_at_reference")
"""Numbers that need a reference as well."""


@dataclass(frozen=True, kw_only=True)
class Gate:
    """A condition under which a run fails.

    >>> parse("delta_rs > 0.1").holds(0.3), parse("verdict in (recovered, inconclusive)").holds("generic")
    (True, False)
    """

    text: str
    name: str
    symbol: str
    bound: float | tuple[str, ...]

    def __str__(self) -> str:
        """Write it as it was understood."""
        bound = ", ".join(self.bound) if isinstance(self.bound, tuple) else f"{self.bound:g}"
        bound = f"({bound})" if self.symbol in ("in", "not in") else bound
        if self.name == "clear":
            bound = "true" if self.bound else "false"
        return f"{self.name} {self.symbol} {bound}"

    def holds(self, value: float | bool | str) -> bool:
        """Say whether the run fails."""
        if isinstance(self.bound, tuple):
            named = value in self.bound or (value == AFTER_RESET and "recovered" in self.bound)
            return named == (self.symbol in ("==", "in"))
        return bool(OPERATORS[self.symbol](float(value), self.bound))


def parse(text: str) -> Gate:
    """Read ``NAME OPERATOR NUMBER``, ``verdict == NAME`` or ``verdict in (NAME, NAME)``."""
    worded = re.fullmatch(r"\s*verdict\s*(==|!=|\bnot in\b|\bin\b)\s*\(?([\w\s,-]+)\)?\s*", text)
    if worded is not None:
        names = tuple(name.strip() for name in worded[2].split(","))
        unknown = [name for name in names if name not in VERDICTS]
        if not unknown:
            return Gate(text=text, name="verdict", symbol=worded[1], bound=names)
        do = meant(unknown[0], list(VERDICTS))
        raise InputError("there is no such verdict", expected=", ".join(VERDICTS), got=unknown[0], do=do)
    found = re.fullmatch(r"\s*([^\s<>!]*?[^\s<>!=])\s*(>=|<=|==|!=|>|<)\s*(\S+)\s*", text)
    try:
        bound = float({"true": "1", "false": "0"}.get(found[3].lower(), found[3])) if found else math.nan
    except ValueError:
        bound = math.nan
    if found is None or not math.isfinite(bound) or found[1] == "verdict":
        raise InputError(
            "cannot read the gate",
            expected=f"NAME OPERATOR NUMBER with one of {' '.join(OPERATORS)}, for example delta_rs>0.1; or "
            "clear==false; or verdict==recovered; or verdict in (recovered, inconclusive)",
            got=text,
            do="write == for equal"
            if re.fullmatch(r"[^<>!=]+=[^=]+", text)
            else (found and found[1] != "verdict" and meant(found[1], ["verdict"]))
            or "put it in quotes, or the shell takes > for a redirection",
        )
    return Gate(text=text, name=found[1], symbol=found[2], bound=bound)


def scalar_names(config: AuditConfig, *, missing: bool) -> tuple[str, ...]:
    """List the numbers that an audit with these settings can have, by dotted name."""
    from sfra.attack.grid import settings_of  # slow to import, and of no use where a gate cannot even be read
    from sfra.auditing.result import ROW_SCALARS, WITH_INTERVAL
    from sfra.auditing.rules import RULES

    names = [
        *ALWAYS,
        *MEASURED,
        *(f"{name}.{end}" for name in WITH_INTERVAL for end in ("low", "high")),
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
                do=meant(gate.name, known)
                or "for one of the other readings write SCALE.VARIANT.RULE.rs, such as native.released.worst-case.rs",
            )
        if gate.name not in ALWAYS and not data:
            raise _unmeasured(gate, "pass --data with labelled test data")
        if (gate.name in COMPARED or gate.name.endswith(".delta_rs")) and not reference:
            raise _unmeasured(gate, "pass --reference with a model that was trained without the class")
        if gate.name == "rs_std" and config.seeds < 2:
            raise _unmeasured(gate, "pass --seeds 2 or more: one seed has no spread")


def judge(gates: Sequence[Gate], report: AuditResult) -> dict[str, str | None]:
    """Return the gates, each with a sentence if it fails.

    An audit that cannot carry a verdict passes no gate. One that would not have seen the class passes none on numbers:
    a low number there shows nothing. Nor does one in which the class comes back in another reading, with a fresh row or
    as one of several, for the numbers are those of all classes and the head as released; nor one in which it never
    went, for nothing comes back there.
    """
    kind = VERDICTS[report.verdict].kind
    elsewhere = kind == "back" and VERDICTS[report.results[0].verdict].kind != "back"
    values = {**report.scalars(), "verdict": report.verdict, "clear": kind == "clear"}
    judged: dict[str, str | None] = {}
    for gate in gates:
        value = values.get(gate.name)
        if value is None:
            raise _unmeasured(gate, "pass more evaluation data (--data, --validation), or leave the gate out")
        judged[str(gate)] = None
        shown = value if isinstance(value, str) else f"{float(value):.6g}"
        if gate.holds(value):
            about = f"the verdict is {report.verdict}" if gate.name == "clear" else f"{gate.name} is {shown}"
            judged[str(gate)] = f"gate failed: {gate} ({about})"
        elif gate.name not in ALWAYS and kind == "unusable":
            judged[str(gate)] = f"gate failed: {gate} cannot be judged: {report.statement}"
        elif gate.name not in (*ALWAYS, "verdict") and (
            kind == "blind" or elsewhere or report.verdict in (AFTER_RESET, "not-unlearned")
        ):
            judged[str(gate)] = (
                f"gate failed: {gate} cannot be judged: {gate.name} is {shown}, but the verdict is {report.verdict}. "
                f"{report.statement}"
            )
    return judged


def _unmeasured(gate: Gate, remedy: str) -> InputError:
    return InputError(f"this audit does not measure {gate.name}", got=gate.text, do=remedy)
