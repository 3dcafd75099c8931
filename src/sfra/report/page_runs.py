"""The curves of an audit, small enough to carry a hundred of them in one file, and exact where a reader asks."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

from sfra.report.figures_tradeoff import efficient_epochs

MOST_POINTS, MANY_POINTS = 64, 120
"""Points that a curve keeps at most, but for the epochs that a retain budget may ask for: beside others, and alone."""

UNIT = 100_000
"""Accuracies travel as whole hundred-thousandths."""


def audit_data(audit: Mapping[str, Any], *, all_runs: bool = True) -> dict[str, Any]:
    """Return what the script of a page needs of an audit: runs, epochs that the rules chose, the sweep.

    Args:
        audit: The content of an ``audit.json``.
        all_runs: Every scale and variant; else only those of the verdict.
    """
    main = (audit["scale"], audit["variant"])
    chosen = [run for run in measured(audit) if all_runs or (run["scale"], run["variant"]) == main]
    marks = [
        {"scale": row["scale"], "variant": row["variant"], "rule": row["rule"], "epochs": row["epochs"]}
        for row in audit["results"]
        if all_runs or (row["scale"], row["variant"]) == main
    ]
    keep = {epoch for mark in marks for epoch in mark["epochs"]}
    sweep = audit["sweep"]["points"] if audit["sweep"] else []
    return {
        "main": list(main),
        "runs": [compact(run, keep, MANY_POINTS if all_runs else MOST_POINTS) for run in chosen],
        "marks": marks,
        "sweep": [[point["kappa"], point["rs"], point["reference_rs"]] for point in sweep],
    }


def measured(audit: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """List the runs of an audit whose accuracies are known."""
    return [run for run in audit["traces"] if run["retain"] is not None and run["forget"] is not None]


def page_runs(audits: Mapping[str, Mapping[str, Any]]) -> dict[str, Any]:
    """Write the curves of several audits once each, and by their differences.

    Models that share a reference share its curves, and a difference has fewer digits than an accuracy: ``audits`` then
    name their runs as pairs of subject and position in ``runs``.

    Args:
        audits: What :func:`audit_data` returns, by the audit's name in the page.
    """
    places: dict[str, int] = {}
    told = {}
    for key, audit in audits.items():
        mine = []
        for run in audit["runs"]:
            text = json.dumps(_differences({name: value for name, value in run.items() if name != "subject"}))
            mine.append([run["subject"], places.setdefault(text, len(places))])
        told[key] = {**audit, "runs": mine}
    return {"audits": told, "runs": [json.loads(text) for text in places]}


def _differences(run: Mapping[str, Any]) -> dict[str, Any]:
    curves = {name: run[name] for name in ("epochs", "retain", "forget") if run[name] is not None}
    return {**run, **{name: [*values[:1], *(b - a for a, b in pairwise(values))] for name, values in curves.items()}}


def compact(run: Mapping[str, Any], keep: set[int], most: int = MANY_POINTS) -> dict[str, Any]:
    """Thin a run; what it keeps holds every efficient epoch, so that RS at any budget stays what it was."""
    last = len(run["retain"]) - 1
    epochs = kept_epochs(run["retain"], run["rs"], {epoch for epoch in keep if epoch <= last}, most)
    return {
        **{name: run[name] for name in ("subject", "scale", "variant", "seed")},
        "epochs": None if len(epochs) == last + 1 else epochs,
        **{name: [round(UNIT * run[name][epoch]) for epoch in epochs] for name in ("retain", "forget")},
    }


def kept_epochs(retain: Sequence[float], rs: Sequence[float], keep: set[int], most: int = MANY_POINTS) -> list[int]:
    """Choose epochs: all of a short run; of a long one those in `keep`, the efficient ones, and evenly spaced ones.

    >>> kept_epochs([0.9] * 5, [0.0] * 5, set())
    [0, 1, 2, 3, 4]
    """
    last = len(retain) - 1
    if last < MANY_POINTS:
        return list(range(last + 1))
    needed = {0, last} | keep | set(efficient_epochs(retain, rs))
    room = max(most - len(needed), 2)
    return sorted(needed | {round(last * i / (room - 1)) for i in range(room)})
