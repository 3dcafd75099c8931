"""How much of the best epoch's RS is there in other seeds too, and how much was picked from their noise."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean
from typing import Any

FLOOR = 0.9
"""Share of the released retain accuracy that an epoch must keep, as in the rule ``worst-case``."""

EARLY = 100
"""An epoch on the way: the length of an audit with default settings."""


def best_epoch(retain: Sequence[float], rs: Sequence[float]) -> int:
    """Return the epoch of highest RS among those that keep the retain accuracy, the earliest of equals.

    >>> best_epoch([0.9, 0.89, 0.5], [0.0, 0.3, 0.9])
    1
    """
    allowed = [epoch for epoch, kept in enumerate(retain) if kept >= FLOOR * retain[0]]
    return max(allowed, key=lambda epoch: (rs[epoch], -epoch))


def parts(runs: Sequence[Mapping[str, Any]]) -> dict[str, float | None]:
    """Split what choosing an epoch on the test data adds, for the runs of one setting, one for each seed.

    ``last`` is the mean RS of the last epochs, ``best`` that of the best epochs. ``transferred`` applies the best epoch
    of each seed to every other seed: ``transferred - last`` is a better epoch that all seeds share, ``best -
    transferred`` is what choosing took from the noise of the single seed. None with fewer than two seeds.
    """
    best = [best_epoch(run["retain"], run["rs"]) for run in runs]
    pairs = [(epoch, run) for i, epoch in enumerate(best) for j, run in enumerate(runs) if i != j]
    return {
        "early": fmean(run["rs"][min(EARLY, len(run["rs"]) - 1)] for run in runs),
        "last": fmean(run["rs"][-1] for run in runs),
        "best": fmean(run["rs"][epoch] for run, epoch in zip(runs, best, strict=True)),
        "transferred": fmean(run["rs"][epoch] for epoch, run in pairs) if pairs else None,
    }


def selection_rows(audit: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Read an ``audit.json``: a row for the native and for the canonical scale, where they were measured."""
    found = []
    for scale in ("native", "canonical"):
        runs = [
            run
            for run in audit["trajectory"]
            if (run["subject"], run["scale"], run["variant"]) == ("model", scale, "released") and run["rs"] is not None
        ]
        if runs:
            found.append({"scale": scale, "seeds": len(runs), **parts(runs)})
    return found
