"""The digits benchmark from nothing to tables, and whether its models are what they should be.

    python benchmarks/digits.py                      # in a temporary store
    python benchmarks/digits.py --store sfra-bench   # in this one, continued if it is there

Checks that every goal of the protocol is done, and that every approximate method ended with a forget accuracy below
15 % and lost at most 10 points of the original's retain accuracy per forgotten class, on the test split. Exits with 1
if not.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

from sfra.bench.grid import run_protocol
from sfra.bench.report import BenchReport, make_report

FORGET, RETAIN = 0.15, 0.10
"""Highest forget accuracy, and largest loss of retain accuracy per forgotten class."""


def main() -> int:
    """Run, check, print, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--store", type=Path)
    parser.add_argument("--protocol", default="digits")
    parser.add_argument("--workers", type=int)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="sfra-digits-") as folder:
        store = asked.store or Path(folder) / "store"
        began = time.monotonic()
        summary = run_protocol(asked.protocol, store, workers=asked.workers)
        report = make_report(asked.protocol, store)
        seconds = time.monotonic() - began
    print(report.text())
    problems = [f"{failure.label}: {failure.message}" for failure in summary.failed] + check(report)
    problems += [] if summary.complete else [f"{summary.goals - len(summary.done)} goals are not done"]
    print(f"\n{len(summary.computed)} cells computed; from nothing to tables {seconds:.0f} s")
    for problem in problems:
        print(f"PROBLEM  {problem}")
    return 1 if problems else 0


def check(report: BenchReport) -> list[str]:
    """Compare every unlearned model with the original."""
    mains = [row for row in report.rows.audits if row["audit"] == "main" and row["rule"] == "source-free"]
    models = {(row["method"], row["forget"], row["seed"]): row for row in mains}
    found = []
    for (method, forget, _), row in models.items():
        if row["forget_before"] >= FORGET:
            found.append(f"{method} {forget}: forget accuracy {row['forget_before']:.1%}, expected below {FORGET:.0%}")
        lost, limit = row["retain_original"] - row["retain_before"], RETAIN * len(row["forget_classes"])
        if lost > limit:
            found.append(f"{method} {forget}: {lost:.1%} of retain accuracy lost, expected at most {limit:.0%}")
    return found or ([] if models else ["no model was audited"])


if __name__ == "__main__":
    sys.exit(main())
