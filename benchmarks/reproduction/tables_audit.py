"""What the audit itself does: its positive control, the choice of epoch and of scale, and its verdicts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from statistics import fmean

from reproduction.agreement import means
from reproduction.beside import class_names
from reproduction.simple import Text, score, signed, simple_table
from reproduction.stored import METHOD_LIST, PUBLISHED, VERDICT, Kept, arrange, count_alarms, own
from sfra.bench.tables import Table
from sfra.bench.tables.names import method_name
from sfra.report.classes import label_name

READINGS = (VERDICT, ("canonical", "worst-case"), ("native", "source-free"), PUBLISHED)
"""Readings whose verdicts are counted."""


def control_table(kept: Kept) -> Table:
    """Show, class by class, what comes back of a class that is hidden by construction, beside one never seen."""
    here, names = kept.by_class(*VERDICT), class_names(kept)
    native, reference_native = (kept.by_class(*PUBLISHED).get(name, {}) for name in ("masked", "retrained"))
    best = best_of_sweep(kept, "masked") if len(swept_scales(kept)) > 1 else None
    rows = [
        (
            label_name(int(forget), names),
            score(value),
            score(here.get("retrained", {}).get(forget)),
            *(_best_cells(kept, best, forget) if best is not None else ()),
            score(native.get(forget)),
            score(reference_native.get(forget)),
        )
        for forget, value in here.get("masked", {}).items()
    ]
    columns = {"forget_class": "Forget class", "masked": "Masked", "retrained": "Retrained"}
    if best is not None:
        columns |= {"masked_best": "Masked, best of sweep", "kappa": "at κ", "retrained_there": "Retrained there"}
    columns |= {"masked_native": "Masked, native, worst-case", "retrained_native": "Retrained, native, worst-case"}
    notes = ("RS at canonical scale, source-free, unless said otherwise.",)
    return simple_table("positive-control", "Positive control: the original with its row masked", columns, rows, notes)


def _best_cells(kept: Kept, best: Mapping[str, tuple[float, float]], forget: str) -> tuple[Text, ...]:
    """Give the best RS of a sweep, its scale, and what a retrained model gives at that scale."""
    if forget not in best:
        return None, None, None
    rs, kappa = best[forget]
    beside = [
        row["rs"]
        for row in own(kept.audits, kept)
        if (row["method"], row["forget"], row["rule"], row["variant"], row["kappa"])
        == ("retrained", forget, "source-free", "released", kappa)
    ]
    return score(rs), score(kappa), score(fmean(beside)) if beside else None


def swept_scales(kept: Kept) -> list[float]:
    """List the scales κ of the main audits; without a sweep there is one, the canonical."""
    return sorted({row["kappa"] for row in own(kept.audits, kept) if row["kappa"] is not None})


def best_of_sweep(kept: Kept, method: str, rule: str = "source-free") -> dict[str, tuple[float, float]]:
    """Find, for each forget class, the highest RS over the scales of the sweep, and its scale."""
    found: dict[str, tuple[float, float]] = {}
    for row in own(kept.audits, kept):
        if (row["method"], row["rule"], row["variant"]) == (method, rule, "released") and row["kappa"] is not None:
            found[row["forget"]] = max(found.get(row["forget"], (-1.0, 0.0)), (row["rs"], row["kappa"]))
    return found


def selection_parts(kept: Kept, scale: str) -> dict[str, Mapping[str, float]]:
    """Average what choosing an epoch adds, by part and method.

    ``shared``: a better epoch that the other seeds have too; ``single``: what only the chosen seed has there;
    ``test``: what choosing on the test split adds to choosing on a validation split.
    """
    rows = [row for row in own(kept.selection, kept) if row["scale"] == scale]
    early, last, best, transferred = (means(arrange(rows, n)) for n in ("early", "last", "best", "transferred"))
    validation = means(kept.by_class(scale, "validation"))
    return {
        "early": early,
        "last": last,
        "best": best,
        "shared": {name: transferred[name] - last[name] for name in transferred},
        "single": {name: best[name] - transferred[name] for name in transferred},
        "test": {name: best[name] - validation[name] for name in best if name in validation},
    }


def selection_table(kept: Kept) -> Table:
    """Show what the best of all epochs adds to the last, and where that comes from."""
    parts = {scale: selection_parts(kept, scale) for scale in ("native", "canonical")}
    names = [name for name in (*METHOD_LIST, "masked") if name in parts["native"]["last"]]
    rows = [_selection_row(name, parts) for name in names]
    headings = {"last": "last epoch", "shared": "+ shared", "single": "+ one seed's", "test": "of it test"}
    columns = {"method": "Method"}
    columns |= {f"{scale}_{name}": f"{scale}: {text}" for scale in parts for name, text in headings.items()}
    notes = (
        "Last epoch: source-free. Shared: the best epoch of one seed, read from the other seeds. One seed's: what is "
        "left to worst-case, found in the chosen seed alone. Of it test: worst-case minus the choice on a validation "
        "split, which has no floor for retain accuracy and can come out higher.",
    )
    return simple_table("selection", "What choosing the epoch adds to RS", columns, rows, notes)


def _selection_row(name: str, parts: Mapping[str, Mapping[str, Mapping[str, float]]]) -> tuple[str | None, ...]:
    cells: list[str | None] = [method_name(name)]
    for part in parts.values():
        cells += [score(part["last"].get(name)), *(signed(part[one].get(name)) for one in ("shared", "single", "test"))]
    return tuple(cells)


def scale_table(kept: Kept) -> Table:
    """Show what the canonical scale changes: RS, ΔRS and rank at either scale, last epoch."""
    rows = []
    readings = (("native", "source-free"), VERDICT)
    rs, delta = ([means(kept.by_class(*r, value)) for r in readings] for value in ("rs", "delta_rs"))
    order = [sorted((m for m in METHOD_LIST if m in some), key=some.__getitem__, reverse=True) for some in rs]
    for method in METHOD_LIST:
        places = [str(some.index(method) + 1) if method in some else None for some in order]
        scores, deltas = [score(some.get(method)) for some in rs], [signed(some.get(method)) for some in delta]
        rows.append((method_name(method), *scores, *deltas, *places))
    columns = {"method": "Method", "rs_native": "RS native", "rs_canonical": "RS canonical"}
    columns |= {"delta_native": "ΔRS native", "delta_canonical": "ΔRS canonical"}
    columns |= {"rank_native": "Rank native", "rank_canonical": "Rank canonical"}
    return simple_table("scales", "What the canonical scale changes (last epoch)", columns, rows)


def verdict_table(kept: Kept) -> Table:
    """Count the verdicts of every method in four readings."""
    rows = []
    for method in (*METHOD_LIST, "masked"):
        counts = [Counter(row["verdict"] for row in kept.main(*r) if row["method"] == method) for r in READINGS]
        if any(counts):
            rows.append((method_name(method), *(_counted(count) for count in counts)))
    columns = {"method": "Method"} | {f"{s}_{r}".replace("-", "_"): f"{s}, {r}" for s, r in READINGS}
    notes = (
        "A retrained model is audited without a reference: no-reference says that something came back and nothing "
        "tells whether a model that never saw the class would give as much. Here it is such a model: a false alarm.",
    )
    return simple_table("verdicts", "Verdicts", columns, rows, notes)


def false_alarms(kept: Kept, scale: str, rule: str) -> tuple[int, int]:
    """Count the retrained models of the main audits for which something came back, and all of them."""
    return count_alarms(kept.main(scale, rule))


def mean_of(values: Mapping[str, float], names: tuple[str, ...] = METHOD_LIST) -> float:
    """Average over the methods of the paper."""
    return fmean(values[name] for name in names if name in values)


def _counted(count: Counter[str]) -> str:
    return ", ".join(f"{n} {name}" for name, n in count.most_common())
