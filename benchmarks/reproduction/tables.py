"""Tables of a group's main audits, models and controls, alone and beside the paper or another group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean, stdev

import polars as pl

from reproduction.rows import (
    METHOD_LIST,
    PUBLISHED,
    READINGS,
    VERDICT,
    Group,
    Side,
    Values,
    arrange,
    averages,
    means,
    paper_rows,
    side_of,
)
from sfra.attack.scale import KAPPA
from sfra.bench.tables import Column, Table
from sfra.bench.tables.names import METHODS, method_name
from sfra.report import numbers
from sfra.report.classes import label_name

Text = str | None
Cells = tuple[str, str, Mapping[str, Text]]
"""A column: its name in CSV, its heading, and its text by row."""

METHOD_ROWS = {name: method_name(name) for name in METHOD_LIST}
WITH_CONTROL = METHOD_ROWS | {"masked": method_name("masked")}


def table(
    label: str,
    title: str,
    rows: Mapping[str, str],
    columns: Sequence[Cells],
    notes: Sequence[str] = (),
    first: tuple[str, str] = ("method", "Method"),
) -> Table:
    """Make a table of columns; ``rows`` names the rows, and a cell that a column lacks is missing."""
    headings = [Column(names=(first[0],), heading=first[1], numeric=False)]
    headings += [Column(names=(name,), heading=heading) for name, heading, _ in columns]
    cells = tuple(((text,), *((values.get(key),) for _, _, values in columns)) for key, text in rows.items())
    return Table(title=title, label=label, columns=tuple(headings), rows=cells, notes=tuple(notes))


def score(value: float | None, digits: int = 2) -> Text:
    """Write a score."""
    return None if value is None else numbers.number(value, digits)


def signed(value: float | None, digits: int = 2) -> Text:
    """Write a difference with its sign, and zero without one."""
    return None if value is None else numbers.signed(value, digits)


def percent(value: float | None, digits: int = 1) -> Text:
    """Write a fraction in percent, without the sign."""
    return None if value is None else score(100 * value, digits)


def shown(values: Values, write: Callable[..., Text] = score, digits: int = 2) -> dict[str, Text]:
    """Write every value of a column."""
    return {name: write(value, digits) for name, value in values.items()}


def class_rows(group: Group, forget: Sequence[str]) -> dict[str, str]:
    """Name forget classes."""
    names = group.class_names()
    return {c: label_name(int(c), names) for c in sorted(forget, key=int)}


def of_methods(values: Mapping[str, Values]) -> dict[str, float]:
    """Average over forget classes, without the control."""
    found = means(values)
    return {name: found[name] for name in METHOD_LIST if name in found}


def unlearned(group: Group, paper: Side) -> Table:
    """Show the accuracies of the released models."""
    columns: list[Cells] = []
    for side, key, start in ((side_of(group), "", ""), (paper, "paper_", "Paper: ")):
        kept, gone = ({m: [*some.values()] for m, some in one.items() if some} for one in (side.retain, side.forget))
        retain = {
            m: f"{percent(fmean(some), 2)}{f' ± {percent(stdev(some), 2)}' if len(some) > 1 else ''}"
            for m, some in kept.items()
        }
        forget = {m: ", ".join(percent(f(some)) or "" for f in (min, fmean, max)) for m, some in gone.items()}
        columns += [(f"{key}retain", f"{start}retain (%)", retain), (f"{key}forget", f"{start}forget (%)", forget)]
    notes = ("Test split; retain: mean ± standard deviation over forget classes; forget: min, mean, max.",)
    rows = {"original": METHODS["original"]} | METHOD_ROWS
    return table("unlearned-beside-paper", "Accuracies of the unlearned models", rows, columns, notes)


def models(group: Group) -> Table:
    """Show what making a model took, and how it did on the validation split that chose its epoch."""
    numbers = group.rows("models").group_by("method").agg(pl.mean("epoch", "aus", "seconds"), pl.first("epochs"))
    found = {row["method"]: row for row in numbers.iter_rows(named=True)}
    digits = {"epoch": ("Kept epoch", 1), "epochs": ("Epochs", 0), "aus": ("AUS", 3), "seconds": ("Seconds", 0)}
    columns = [
        (name, heading, {m: score(row[name] or None, places) for m, row in found.items()})
        for name, (heading, places) in digits.items()
    ]
    notes = ("Means over forget classes; AUS on the validation split; seconds while other cells were computed.",)
    return table("models", "Making the models", {m: METHODS[m] for m in METHODS if m in found}, columns, notes)


def controls(group: Group, paper: Side) -> Table:
    """Show the two audits that see real samples, and SFRA."""
    ours = side_of(group)
    l2 = arrange(group.rows("pra").filter(variant="l2"), "rs")
    both = {m: list(ours.pra[m]) for m in ours.pra}
    columns: list[Cells] = [
        ("both", "Classes", {m: str(len(some)) for m, some in both.items()}),
        ("sfra", "SFRA", shown(averages(ours.rs[PUBLISHED], both))),
        ("sfra_paper", "Paper", shown(averages(paper.rs[PUBLISHED], both))),
        ("pra", "PRA", shown(means(ours.pra))),
        ("pra_l2", "PRA, l2", shown(means(l2))),
        ("pra_paper", "Paper", shown(means(paper.pra))),
        ("probe", "Linear probe (%)", shown(means(ours.probe), percent, 1)),
        ("probes", "Classes", {m: str(len(ours.probe.get(m, {}))) for m in METHOD_LIST}),
        ("probe_paper", "Paper", shown(means(paper.probe), percent, 1)),
    ]
    notes = (
        "Mean RS (SFRA: native scale, worst-case; PRA: five supports of five real samples) over the forget classes "
        "with both; linear probe: mean forget accuracy of a fresh linear classifier, over those counted beside it.",
    )
    rows = METHOD_ROWS if ours.pra or ours.probe else {}
    return table("controls-beside-paper", "Audits with real samples", rows, columns, notes)


def multi(group: Group) -> Table:
    """Show two classes forgotten at once beside the paper's."""
    ours, verdict = (group.audits(one, ending="-multi").filter(forget="1+6") for one in (PUBLISHED, VERDICT))
    paper = paper_rows("summary_multi_class").filter(dataset="CIFAR-10", num_forget=2)

    def column(rows: pl.DataFrame, value: str) -> dict[str, float]:
        return dict(rows.drop_nulls(value).select("method", value).iter_rows())

    audited, released = paper.filter(variant="sfra"), paper.filter(variant="unlearned")
    columns = [
        ("forget", "Forget (%)", shown(column(ours, "forget_before"), percent, 1)),
        ("paper_forget", "Paper", shown(column(released, "forget_acc"), digits=1)),
        ("rs", "RS", shown(column(ours, "rs"))),
        ("paper_rs", "Paper", shown(column(audited, "rs"))),
        ("delta_rs", "ΔRS", shown(column(ours, "delta_rs"), signed)),
        ("paper_delta_rs", "Paper", shown(column(audited, "delta_rs"), signed)),
        ("canonical", "RS, canonical, source-free", shown(column(verdict, "rs"))),
    ]
    notes = ("Forget accuracy before relearning; RS and ΔRS at native scale, worst-case.",)
    rows = WITH_CONTROL if len(ours) else {}
    return table("multi-beside-paper", "Classes 1 and 6 forgotten at once", rows, columns, notes)


def native_kappas(group: Group) -> dict[str, float]:
    """Compute the scale of the released heads, on average over forget classes."""
    return {method: KAPPA / gain for method, gain in means(group.diagnosed("gain", "canonical")).items()}


def alignment(group: Group, paper: Side) -> Table:
    """Show the alignment of probes with real features, and the scale of the released heads."""
    ours = side_of(group)
    columns: list[Cells] = []
    for name, heading in {"inner": "Inner product", "cosine": "Cosine"}.items():
        columns.append((name, heading, shown(means(getattr(ours, name)), signed)))
        if paper.inner:
            columns.append((f"{name}_paper", "Paper", shown(means(getattr(paper, name)), signed)))
    columns.append(("kappa", "Native κ", shown(native_kappas(group))))
    notes = (
        "Mean forget probe against mean real feature of the forget class, native scale; native κ: median norm of "
        "the centred retain rows as released.",
    )
    return table("alignment", "Alignment", METHOD_ROWS if ours.inner else {}, columns, notes)


def rs_beside_paper(group: Group, paper: Side) -> Table:
    """Show the mean RS of every reading beside the paper's one."""
    ours = {reading: means(group.rs(reading)) for reading in READINGS}
    theirs = means(paper.rs[PUBLISHED])
    gaps = {m: value - theirs[m] for m, value in ours[PUBLISHED].items() if m in theirs}
    columns = [("paper", "Paper", shown(theirs)), ("difference", "Difference", shown(gaps, signed))]
    columns += [(_key(*one), ", ".join(one), shown(some)) for one, some in ours.items()]
    notes = (
        "Mean over the forget classes; the paper's rule is worst-case at native scale, and the difference is to it.",
    )
    return table("rs-beside-paper", "Mean RS beside the paper's", WITH_CONTROL, columns, notes)


def delta(group: Group, paper: Side) -> Table:
    """Show the mean ΔRS in the reading of the paper, beside the paper's, and in that of a verdict."""
    ours = {reading: group.rs(reading, "delta_rs") for reading in (PUBLISHED, VERDICT)}
    columns: list[Cells] = [("classes", "Classes", {m: str(len(some)) for m, some in ours[VERDICT].items()})]
    columns += [(_key(*reading), ", ".join(reading), shown(means(some), signed)) for reading, some in ours.items()]
    columns.insert(2, ("paper", "Paper", shown(means(paper.delta[PUBLISHED]), signed)))
    notes = ("RS minus that of the retrained model of the same class; mean over the forget classes.",)
    rows = {key: text for key, text in WITH_CONTROL.items() if key != "retrained"}
    return table("delta-beside-paper", "Mean ΔRS beside the paper's", rows, columns, notes)


def _key(*parts: str) -> str:
    return "_".join(parts).replace("-", "_")


def classes_beside_paper(group: Group, paper: Side) -> Table:
    """Show RS of every model over the paper's."""
    ours = group.rs(PUBLISHED)
    rows, lines = {}, {}
    for method, name in WITH_CONTROL.items():
        for key, text, values in ((method, name, ours), (f"{method}*", f"{name}, paper", paper.rs[PUBLISHED])):
            if values is ours or method in values:
                rows[key], lines[key] = text, values.get(method, {})
    title = "RS of every model over the paper's (native, worst-case)"
    return table("classes-beside-paper", title, rows, _class_columns(group, lines))


def classes(group: Group) -> Table:
    """Show RS of every model in the reading of a verdict."""
    title = f"RS of every model ({VERDICT[0]} scale, {VERDICT[1]})"
    return table(f"classes-{VERDICT[0]}", title, WITH_CONTROL, _class_columns(group, group.rs(VERDICT)))


def _class_columns(group: Group, lines: Mapping[str, Values]) -> list[Cells]:
    forget = class_rows(group, list({c for some in lines.values() for c in some}))
    return [
        (f"class_{c}", name, {key: score(some.get(c)) for key, some in lines.items()}) for c, name in forget.items()
    ]


def selection_parts(group: Group, scale: str) -> dict[str, dict[str, float]]:
    """Average what choosing an epoch adds, by part and method.

    ``shared``: a better epoch that the other seeds have too; ``single``: what only the chosen seed has there;
    ``test``: what choosing on the test split adds to choosing on a validation split.
    """
    rows = group.rows("selection").filter(scale=scale)
    last, best, moved = (means(arrange(rows, name)) for name in ("last", "best", "transferred"))
    validation = means(group.rs((scale, "validation")))
    return {
        "last": last,
        "best": best,
        "shared": {name: moved[name] - last[name] for name in moved},
        "single": {name: best[name] - moved[name] for name in moved},
        "test": {name: best[name] - validation[name] for name in best if name in validation},
    }


def selection(group: Group) -> Table:
    """Show what the best of all epochs adds to the last, and where that comes from."""
    headings = {"last": "last epoch", "shared": "+ shared", "single": "+ one seed's", "test": "of it test"}
    parts = {scale: selection_parts(group, scale) for scale in ("native", "canonical")}
    columns = [
        (f"{scale}_{name}", f"{scale}: {text}", shown(part[name], score if name == "last" else signed))
        for scale, part in parts.items()
        for name, text in headings.items()
    ]
    notes = (
        "Last epoch: source-free. Shared: the best epoch of one seed, read from the other seeds. One seed's: what is "
        "left to worst-case, found in the chosen seed alone. Of it test: worst-case minus the choice on a validation "
        "split, which has no floor for retain accuracy and can come out higher.",
    )
    rows = {key: text for key, text in WITH_CONTROL.items() if key in parts["native"]["last"]}
    return table("selection", "What choosing the epoch adds to RS", rows, columns, notes)


def verdicts(group: Group) -> Table:
    """Count the verdicts of every method in four readings."""
    columns = []
    for reading in (VERDICT, ("canonical", "worst-case"), ("native", "source-free"), PUBLISHED):
        counts = group.audits(reading).group_by("method", "verdict", maintain_order=True).len()
        told: dict[str, Text] = {}
        for method, verdict, n in counts.sort("len", descending=True, maintain_order=True).iter_rows():
            told[method] = f"{told[method]}, {n} {verdict}" if method in told else f"{n} {verdict}"
        columns.append((_key(*reading), ", ".join(reading), told))
    notes = (
        "A retrained model is audited without a reference: no-reference says that something came back and nothing "
        "tells whether a model that never saw the class would give as much. Here it is such a model: a false alarm.",
    )
    rows = {key: text for key, text in WITH_CONTROL.items() if any(key in some for _, _, some in columns)}
    return table("verdicts", "Verdicts", rows, columns, notes)


def reset(group: Group) -> Table:
    """Show what drawing the forget row anew changes at canonical scale, with the last epoch and with the best."""
    columns = []
    for rule in ("source-free", "worst-case"):
        key, reading = _key(rule), ("canonical", rule)
        anew = arrange(group.audits(reading, variant="reset-row"), "rs")
        columns.append((f"released_{key}", f"as released, {rule}", shown(means(group.rs(reading)))))
        columns.append((f"reset_{key}", f"drawn anew, {rule}", shown(means(anew))))
    notes = ("Mean RS at canonical scale; drawn anew: forget row and bias as a new layer has them.",)
    return table("reset-row", "The forget row drawn anew", WITH_CONTROL, columns, notes)


def sweep_outcomes(group: Group) -> pl.DataFrame:
    """Count the verdicts of the group's protocol of scales, and average what they cost, by κ."""
    masked, retrained = pl.col("method") == "masked", pl.col("method") == "retrained"
    return (
        group.swept(ending="-scales")
        .group_by("kappa", maintain_order=True)
        .agg(
            recovered=(masked & (pl.col("verdict") == "recovered")).sum(),
            masked=masked.sum(),
            alarms=(retrained & (pl.col("verdict") != "not-recovered")).sum(),
            retrained=retrained.sum(),
            degenerate=(pl.col("verdict") == "degenerate").sum(),
            audits=pl.len(),
            lost=(pl.col("retain_before") - pl.col("retain_after")).mean(),
        )
    )


def every_scale(group: Group) -> Table:
    """Show the mean RS of every method at every scale, what the scale costs in retain accuracy, and the verdicts."""
    found = sweep_outcomes(group)
    swept = group.swept(ending="-scales").group_by("method", "kappa", maintain_order=True).agg(pl.mean("rs"))
    columns: list[Cells] = [
        (m.replace("-", "_"), name, {f"{k:.2f}": score(rs) for _, k, rs in swept.filter(method=m).iter_rows()})
        for m, name in WITH_CONTROL.items()
        if len(swept.filter(method=m))
    ]
    lost = found.select("kappa", "lost").iter_rows()
    columns.append(("lost", "Retain points lost", {f"{k:.2f}": percent(value) for k, value in lost}))
    counts = {"degenerate": ("Degenerate", "audits")}
    if group.swept(ending="-scales")["delta_rs"].count():
        counts |= {"recovered": ("Recovered", "masked"), "alarms": ("Alarms", "retrained")}
    for part, (heading, whole) in counts.items():
        texts = {f"{k:.2f}": f"{n} of {every}" for k, n, every in found.select("kappa", part, whole).rows()}
        columns.append((part, heading, texts))
    notes = (
        f"Mean RS over the forget classes that are there, source-free. The canonical scale is κ = {KAPPA:.2f}.",
        "Retain points lost: mean over all models of the sweep. Degenerate and, where there are references, recovered: "
        "models, and masked ones, with that verdict. Alarms: retrained models with another one than not-recovered.",
    )
    rows = {key: key for key in (f"{kappa:.2f}" for kappa in found["kappa"])}
    return table("every-scale", "Mean RS at every scale", rows, columns, notes, ("kappa", "κ"))
