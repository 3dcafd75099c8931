"""RS beside the paper's: method by method, class by class, how far they agree, and what that hangs on."""

from __future__ import annotations

from collections.abc import Sequence

from reproduction.agreement import (
    Agreement,
    ByClass,
    Scores,
    agree,
    leave_one_out,
    means,
    pairs,
    shift_correlation,
    spearman,
    without,
)
from reproduction.beside import Side, class_names, paper_side
from reproduction.simple import score, signed, simple_table
from reproduction.stored import METHOD_LIST, PUBLISHED, READINGS, VERDICT, Kept, arrange, printed
from sfra.bench.tables import Table
from sfra.bench.tables.names import method_name
from sfra.report.classes import label_name

LEFT_OUT = (
    ("negative-gradient", "learn-to-unlearn"),
    ("retrained", "negative-gradient", "learn-to-unlearn"),
    ("finetune", "retrained", "negative-gradient", "learn-to-unlearn"),
)
"""Methods whose recipes are known to differ from the paper's; at last the one that costs the correlation most."""


def scores(kept: Kept, scale: str, rule: str) -> dict[str, float]:
    """Average RS over the forget classes, for the methods of the paper."""
    return of_methods(kept.by_class(scale, rule))


def paper_scores() -> dict[str, float]:
    """Average the printed RS over the forget classes."""
    return means(printed("sfra", "rs"))


def rs_table(kept: Kept) -> Table:
    """Show the mean RS of every method, scale and rule beside the paper's."""
    ours = {reading: scores(kept, *reading) for reading in READINGS}
    paper = paper_scores()
    rows = [
        (
            method_name(method),
            score(paper.get(method)),
            signed(ours[PUBLISHED][method] - paper[method]) if method in ours[PUBLISHED] else None,
            *(score(some.get(method)) for some in ours.values()),
        )
        for method in METHOD_LIST
    ]
    columns = {"method": "Method", "paper": "Paper", "difference": "Difference"}
    columns |= {f"{scale}_{rule}".replace("-", "_"): f"{scale}, {rule}" for scale, rule in ours}
    notes = (
        "Mean over the forget classes; the paper's rule is worst-case at native scale, and the difference is to it.",
    )
    return simple_table("rs-beside-paper", "Mean RS beside the paper's", columns, rows, notes)


def agreement_table(kept: Kept, beside: Side | None = None) -> Table:
    """Show how far each reading agrees with the other's, by default the paper's; of its rule, every scale of the sweep.

    Args:
        kept: Ours.
        beside: The other's; the same reading is compared. Without it, the paper's one with each of ours.
    """
    other, whose = beside or paper_side(), f"that of {beside.name}" if beside else "the paper's"
    rows = [(", ".join(one), *_numbers(compared(scores(kept, *one), of_methods(other.rs[one])))) for one in READINGS]
    for kappa, some in over_scales(kept).items() if beside is None else ():
        rows.append((f"κ = {kappa:.2f}, worst-case", *_numbers(compared(some, of_methods(other.rs[PUBLISHED])))))
    columns = {"reading": "Reading", "spearman": "Spearman", "pearson": "Pearson"}
    columns |= {"difference": "Mean |difference|", "bias": "Mean difference"}
    return simple_table("agreement", f"Agreement of mean RS with {whose}, over methods", columns, rows)


def of_methods(values: ByClass) -> dict[str, float]:
    """Average over the forget classes, for the methods of the paper."""
    found = means(values)
    return {method: found[method] for method in METHOD_LIST if method in found}


def compared(ours: Scores, theirs: Scores) -> Agreement | None:
    """Compare the scores of what both have; None if they have nothing in common."""
    return agree(ours, theirs) if set(ours) & set(theirs) else None


def over_scales(kept: Kept, rule: str = "worst-case") -> dict[float, dict[str, float]]:
    """Average RS at every scale of the sweep."""
    rows = [
        row
        for row in kept.audits
        if (row["protocol"], row["audit"], row["variant"], row["rule"]) == (kept.group, "main", "released", rule)
        and row["kappa"] is not None
        and row["method"] in METHOD_LIST
    ]
    return {
        kappa: means(arrange([row for row in rows if row["kappa"] == kappa], "rs"))
        for kappa in sorted({row["kappa"] for row in rows})
    }


def left_out_table(kept: Kept) -> Table:
    """Show what the rank correlation hangs on: without each method, and without groups of them."""
    ours, paper = scores(kept, *PUBLISHED), paper_scores()
    rows = [("nothing", *_numbers(agree(ours, paper)))]
    rows += [(method_name(name), *_numbers(one)) for name, one in leave_one_out(ours, paper).items()]
    for group in LEFT_OUT:
        rows.append((", ".join(map(method_name, group)), *_numbers(without(ours, paper, group))))
    columns = {"left_out": "Left out", "spearman": "Spearman", "pearson": "Pearson"}
    columns |= {"difference": "Mean |difference|", "bias": "Mean difference"}
    return simple_table("left-out", "Agreement without some methods (native scale, worst-case)", columns, rows)


def per_class_table(kept: Kept) -> Table:
    """Show ours and the paper's of every method and class."""
    ours, paper = kept.by_class(*PUBLISHED), printed("sfra", "rs")
    verdict = kept.by_class(*VERDICT)
    rows = [
        (
            method_name(method),
            forget,
            score(paper.get(method, {}).get(forget)),
            score(value, 3),
            score(verdict[method].get(forget), 3),
        )
        for method in METHOD_LIST
        for forget, value in ours.get(method, {}).items()
    ]
    columns = {"method": "Method", "forget_class": "Forget class", "paper": "Paper", "native_worst_case": "Ours"}
    columns |= {"canonical_source_free": "Ours, canonical, source-free"}
    notes = ("Ours: native scale, worst-case, as the paper's.",)
    return simple_table("per-class-beside-paper", "RS of every model beside the paper's", columns, rows, notes)


def classes_beside_table(kept: Kept) -> Table:
    """Show RS of every model over the paper's, methods down and forget classes across."""
    ours, paper, names = kept.by_class(*PUBLISHED), printed("sfra", "rs"), class_names(kept)
    classes = sorted({forget for some in ours.values() for forget in some}, key=int)
    rows = [
        (label, *(score(some.get(method, {}).get(forget)) for forget in classes))
        for method in METHOD_LIST
        for label, some in ((method_name(method), ours), (f"{method_name(method)}, paper", paper))
    ]
    columns = {"method": "Method"} | {f"class_{c}": label_name(int(c), names) for c in classes}
    return simple_table(
        "classes-beside-paper", "RS of every model over the paper's (native, worst-case)", columns, rows
    )


def class_correlations(kept: Kept) -> dict[str, float | None]:
    """Correlate ours with the paper's over methods, class by class."""
    ours, paper = kept.by_class(*PUBLISHED), printed("sfra", "rs")
    classes = list(dict.fromkeys(forget for method in METHOD_LIST for forget in ours.get(method, {})))
    found = {}
    for forget in classes:
        both = [m for m in METHOD_LIST if forget in ours.get(m, {}) and forget in paper.get(m, {})]
        found[forget] = spearman([ours[m][forget] for m in both], [paper[m][forget] for m in both])
    return found


def method_correlations(kept: Kept) -> dict[str, float | None]:
    """Correlate ours with the paper's over classes, method by method."""
    ours, paper = kept.by_class(*PUBLISHED), printed("sfra", "rs")
    found = {}
    for method in METHOD_LIST:
        both = [forget for forget in ours.get(method, {}) if forget in paper.get(method, {})]
        found[method] = spearman([ours[method][f] for f in both], [paper[method][f] for f in both])
    return found


def explained_by(kept: Kept) -> dict[str, tuple[int, float | None]]:
    """Correlate the size of the difference in RS with that in the unlearned accuracies, over models."""
    ours = {method: some for method, some in kept.by_class(*PUBLISHED).items() if method in METHOD_LIST}
    differences = pairs(ours, printed("sfra", "rs"))
    return {
        what: shift_correlation(
            differences, pairs(kept.by_class(*PUBLISHED, f"{what}_before"), printed("unlearned", f"{what}_acc"))
        )
        for what in ("retain", "forget")
    }


def correlation(value: float | None) -> str | None:
    """Write a correlation.

    >>> correlation(-0.126), correlation(0.5)
    ('−0.13', '0.50')
    """
    return None if value is None else f"{value:.2f}".replace("-", "−")


def _numbers(found: Agreement | None) -> Sequence[str | None]:
    if found is None:
        return (None,) * 4
    return correlation(found.spearman), correlation(found.pearson), score(found.difference), signed(found.bias)
