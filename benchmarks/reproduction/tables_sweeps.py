"""Tables of some models of a group at every scale: the control beside its references, and the means of all methods."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean

from reproduction.beside import class_names
from reproduction.simple import percent, score, simple_table
from reproduction.stored import METHOD_LIST, Kept
from reproduction.sweeps import Outcome, broken_from, outcomes, read_sweep
from sfra.attack.scale import KAPPA
from sfra.bench.tables import Table
from sfra.bench.tables.names import method_name
from sfra.report.classes import label_name


def every_scale_table(kept: Kept) -> Table:
    """Show RS of the control and of its references at every scale, class by class, and what their verdicts are."""
    sweep, found, names = read_sweep(kept), outcomes(kept), class_names(kept)
    single = [m for m in ("masked", "retrained") if m in sweep.rs]
    rows = [
        (
            f"{kappa:.2f}",
            *(score(sweep.rs[m].get(forget, {}).get(kappa)) for m in single for forget in sweep.classes),
            f"{len(here.recovered)} of {here.controls}" if here.controls else None,
            f"{here.alarms} of {here.references}" if here.references else None,
        )
        for kappa, here in found.items()
    ]
    columns = {"kappa": "κ"}
    for method in single:
        columns |= {f"{method}_{c}": f"{method.title()}: {label_name(int(c), names)}" for c in sweep.classes}
    columns |= {"recovered": "Recovered", "alarms": "Alarms"}
    notes = (
        f"RS, source-free. The canonical scale is κ = {KAPPA:.2f}.",
        "Recovered: masked models with that verdict. Alarms: retrained models with another verdict than not-recovered, "
        "degenerate ones among them.",
        *_broken(found),
    )
    return simple_table("every-scale", "The control and its references at every scale", columns, rows, notes)


def every_scale_means_table(kept: Kept) -> Table:
    """Show the mean RS of every method at every scale, and what the scale costs in retain accuracy."""
    sweep, found = read_sweep(kept), outcomes(kept)
    methods = [m for m in (*METHOD_LIST, "masked") if m in sweep.rs]
    rows = [
        (
            f"{kappa:.2f}",
            *(score(sweep.mean(method, kappa)) for method in methods),
            percent(fmean(here.lost)),
            f"{here.degenerate} of {here.audits}",
        )
        for kappa, here in found.items()
    ]
    columns = {"kappa": "κ"} | {method.replace("-", "_"): method_name(method) for method in methods}
    columns |= {"lost": "Retain points lost", "degenerate": "Degenerate"}
    notes = (
        f"Mean RS over the forget classes that are there, source-free. The canonical scale is κ = {KAPPA:.2f}.",
        "Retain points lost: mean over all models of the sweep. Degenerate: models of the sweep with that verdict.",
        *_broken(found),
    )
    return simple_table("every-scale-means", "Mean RS at every scale", columns, rows, notes)


def _broken(found: Mapping[float, Outcome]) -> tuple[str, ...]:
    least = broken_from(found)
    return () if least is None else (f"From κ = {least:.2f} on every audit is degenerate.",)
