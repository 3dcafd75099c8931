"""Records as JSON, and what importing the diagnostics loads."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import dataclass

from sfra.diagnostics.record import Record


@dataclass(frozen=True, kw_only=True)
class Inner(Record):
    value: float


@dataclass(frozen=True, kw_only=True)
class Outer(Record):
    inner: tuple[Inner, ...]
    named: dict[int, bool]
    text: str | None = None


def test_nested_records_become_plain_values_with_seven_digits() -> None:
    record = Outer(inner=(Inner(value=1 / 3), Inner(value=float("nan")), Inner(value=-2.5e-9)), named={3: True})
    assert record.to_dict() == {
        "inner": [{"value": 0.3333333}, {"value": None}, {"value": -2.5e-9}],
        "named": {"3": True},
        "text": None,
    }


def test_importing_the_diagnostics_does_not_load_scikit_learn() -> None:
    script = "import sys, sfra.diagnostics; print([m for m in sys.modules if m.split('.')[0] == 'sklearn'])"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout.strip()) == (0, "[]")
