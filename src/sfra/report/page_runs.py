"""The curves of an audit, small enough to carry a hundred of them in one file, and exact where a reader asks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfra.report.figures_tradeoff import efficient_epochs

MOST_POINTS = 120
"""Points that a curve keeps at most, but for the epochs that a retain budget may ask for."""

UNIT = 1_000_000
"""Accuracies travel as whole millionths, as exact as ``audit.json`` holds them."""


def audit_data(audit: Mapping[str, Any], *, all_runs: bool = True) -> dict[str, Any]:
    """Return what the script of a page needs of an audit: runs, epochs that the rules chose, the sweep.

    Args:
        audit: The content of an ``audit.json``.
        all_runs: Every scale and variant; else only those of the verdict.
    """
    main = (audit["scale"], audit["variant"])
    runs = [run for run in audit["trajectory"] if run["retain"] is not None and run["forget"] is not None]
    chosen = [run for run in runs if all_runs or (run["scale"], run["variant"]) == main]
    marks = [
        {"scale": row["scale"], "variant": row["variant"], "rule": row["rule"], "epochs": row["epochs"]}
        for row in audit["results"]
        if all_runs or (row["scale"], row["variant"]) == main
    ]
    keep = {epoch for mark in marks for epoch in mark["epochs"]}
    sweep = audit["sweep"]["points"] if audit["sweep"] else []
    return {
        "main": list(main),
        "runs": [compact(run, keep) for run in chosen],
        "marks": marks,
        "sweep": [[point["kappa"], point["rs"], point["reference_rs"]] for point in sweep],
    }


def compact(run: Mapping[str, Any], keep: set[int]) -> dict[str, Any]:
    """Thin a run; what it keeps holds every efficient epoch, so that RS at any budget stays what it was."""
    last = len(run["retain"]) - 1
    epochs = kept_epochs(run["retain"], run["rs"], {epoch for epoch in keep if epoch <= last})
    return {
        **{name: run[name] for name in ("subject", "scale", "variant", "seed")},
        "epochs": None if len(epochs) == last + 1 else epochs,
        **{name: [round(UNIT * run[name][epoch]) for epoch in epochs] for name in ("retain", "forget")},
    }


def kept_epochs(retain: Sequence[float], rs: Sequence[float], keep: set[int]) -> list[int]:
    """Choose epochs: all of a short run; of a long one those in `keep`, the efficient ones, and evenly spaced ones.

    >>> kept_epochs([0.9] * 5, [0.0] * 5, set())
    [0, 1, 2, 3, 4]
    """
    last = len(retain) - 1
    if last < MOST_POINTS:
        return list(range(last + 1))
    needed = {0, last} | keep | set(efficient_epochs(retain, rs))
    room = max(MOST_POINTS - len(needed), 2)
    return sorted(needed | {round(last * i / (room - 1)) for i in range(room)})
