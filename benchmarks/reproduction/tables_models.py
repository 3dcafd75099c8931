"""Models, controls and diagnostics beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import fmean, stdev
from typing import Any

from reproduction.agreement import means
from reproduction.beside import CONFIDENCE, Side, paper_side, side_of
from reproduction.simple import Text, percent, score, signed, simple_table
from reproduction.stored import METHOD_LIST, METHOD_OF, PUBLISHED, VERDICT, Kept, arrange, diagnosed, own, paper_rows
from sfra.attack.scale import KAPPA
from sfra.bench.tables import Table
from sfra.bench.tables.names import METHODS, method_name

Values = Mapping[str, float]


def unlearned_table(kept: Kept, beside: Side | None = None) -> Table:
    """Show the accuracies of the models as they were released, beside others, by default the paper's.

    Beside another group the original has a row too.
    """
    other = beside or paper_side()
    methods = METHOD_LIST if beside is None else ("original", *METHOD_LIST)
    sides = [(side.retain, side.forget) for side in (side_of(kept), other)]
    rows = [
        (method_name(m), *(text for retain, forget in sides for text in _accuracies(retain.get(m), forget.get(m))))
        for m in methods
    ]
    columns = {"method": "Method", "retain": "Retain (%)", "forget": "Forget (%)"}
    columns |= {f"{short(other)}_{what}": f"{other.name}: {what}" for what in ("retain", "forget")}
    notes = ("Test split; retain: mean ± standard deviation over forget classes; forget: min, mean, max.",)
    return simple_table(f"unlearned-beside-{short(other)}", "Accuracies of the unlearned models", columns, rows, notes)


def short(side: Side) -> str:
    """Return the name of a source for labels and columns of files.

    >>> short(paper_side())
    'paper'
    """
    return side.name.lower().replace("-", "")


def models_table(kept: Kept) -> Table:
    """Show what making a model took and how it did on the validation split that chose its epoch."""
    rows = []
    for method in METHODS:
        mine = [row for row in own(kept.models, kept) if row["method"] == method]
        if mine:
            numbers = [[row[name] for row in mine if row[name] is not None] for name in ("epoch", "aus", "seconds")]
            epoch, aus, seconds = (fmean(some) if some else None for some in numbers)
            of = f"{mine[0]['epochs']:.0f}" if mine[0]["epochs"] else None
            rows.append((method_name(method), score(epoch, 1), of, score(aus, 3), score(seconds, 0)))
    columns = {"method": "Method", "epoch": "Kept epoch", "epochs": "Epochs", "aus": "AUS", "seconds": "Seconds"}
    notes = ("Means over forget classes; AUS on the validation split; seconds while other cells were computed.",)
    return simple_table("models", "Making the models", columns, rows, notes)


def controls_table(kept: Kept, beside: Side | None = None) -> Table:
    """Show the two audits that see real samples beside others, by default the paper's, and beside SFRA."""
    ours, other = side_of(kept), beside or paper_side()
    l2 = means(arrange([row for row in own(kept.pra, kept) if row["variant"] == "l2"], "rs"))
    scored = [means(some) for some in (ours.rs[PUBLISHED], other.rs[PUBLISHED], ours.pra)] + [l2, means(other.pra)]
    probes, their_probes = ours.probe, means(other.probe)
    rows = [
        (
            method_name(method),
            *(score(some.get(method)) for some in scored),
            percent(fmean(probes[method].values())) if method in probes else None,
            str(len(probes.get(method, {}))),
            percent(their_probes.get(method)),
        )
        for method in METHOD_LIST
    ]
    name, key = other.name, short(other)
    columns = {"method": "Method", "sfra": "SFRA", f"sfra_{key}": name, "pra": "PRA", "pra_l2": "PRA, l2"}
    columns |= {f"pra_{key}": name, "probe": "Linear probe (%)", "probes": "Classes", f"probe_{key}": name}
    theirs = "the paper's over all ten classes" if beside is None else f"{name}'s over as many as there are"
    notes = ("Mean RS (SFRA: native scale, worst-case; PRA: five supports of five real samples); linear probe: mean "
             "forget accuracy of a fresh linear classifier. Ours are over as many forget classes as there are, "
             f"linear probes over those counted beside them; {theirs}.",)  # fmt: skip
    return simple_table(f"controls-beside-{key}", "Audits with real samples", columns, rows, notes)


def multi_table(kept: Kept, forget: str = "1+6") -> Table:
    """Show two classes forgotten at once beside the paper's."""
    ours, verdict = ({row["method"]: row for row in kept.main(*r, forget=forget)} for r in (PUBLISHED, VERDICT))
    paper = paper_multi()
    rows = []
    for method in (*METHOD_LIST, "masked"):
        row, printed_row = ours.get(method, {}), paper.get(method, {})
        rows.append(
            (
                method_name(method),
                percent(row.get("forget_before")),
                _number(printed_row.get("unlearned", {}).get("forget_acc")),
                score(row.get("rs")),
                score(printed_row.get("sfra", {}).get("rs")),
                signed(row.get("delta_rs")),
                signed(printed_row.get("sfra", {}).get("delta_rs")),
                score(verdict.get(method, {}).get("rs")),
            )
        )
    columns = {"method": "Method", "forget": "Forget (%)", "paper_forget": "Paper", "rs": "RS", "paper_rs": "Paper"}
    columns |= {"delta_rs": "ΔRS", "paper_delta_rs": "Paper", "canonical": "RS, canonical, source-free"}
    notes = ("Forget accuracy before relearning; RS and ΔRS at native scale, worst-case.",)
    names = " and ".join(forget.split("+"))
    return simple_table("multi-beside-paper", f"Classes {names} forgotten at once", columns, rows, notes)


def paper_multi() -> dict[str, dict[str, Any]]:
    """Read the paper's audits of two classes, by method and stage."""
    found: dict[str, dict[str, Any]] = {}
    for row in paper_rows("summary_multi_class"):
        if row["dataset"] == "CIFAR-10":
            found.setdefault(METHOD_OF[row["method"]], {})[str(row["variant"])] = row
    return found


def native_kappas(kept: Kept) -> dict[str, float]:
    """Find the scale that the heads of each method have as released, on average over forget classes."""
    return {method: KAPPA / gain for method, gain in means(diagnosed(kept, "gain", "canonical")).items()}


def alignment_table(kept: Kept, beside: Side | None = None) -> Table:
    """Show the alignment of probes with real features beside others, by default the paper's, and the heads' scale."""
    ours, other = side_of(kept), beside or paper_side()
    values = [means(some) for some in (ours.inner, other.inner, ours.cosine, other.cosine)]
    native = native_kappas(kept)
    rows = [
        (method_name(method), *(signed(some.get(method)) for some in values), score(native.get(method)))
        for method in METHOD_LIST
    ]
    name, key = other.name, short(other)
    columns = {"method": "Method", "a_ip": "Inner product", f"{key}_a_ip": name, "a_cos": "Cosine"}
    columns |= {f"{key}_a_cos": name, "kappa": "Native κ"}
    notes = ("Mean forget probe against mean real feature of the forget class, native scale; native κ: median norm of "
             "the centred retain rows as released.",)  # fmt: skip
    return simple_table(f"alignment-beside-{key}", "Alignment", columns, rows, notes)


def confidence_table(kept: Kept, beside: Side | None = None) -> Table:
    """Show how sure Bad Teacher's head is before relearning, beside others, by default the paper's."""
    ours, other = side_of(kept), beside or paper_side()
    names = ("ours", "paper") if beside is None else (ours.name, other.name)
    rows = [
        (name, *(score(side.confidence.get(what), 3) for what in CONFIDENCE))
        for name, side in zip(names, (ours, other), strict=True)
    ]
    columns = {"source": "Bad Teacher", "correct": "Correct retain", "assigned": "Assigned forget", "gap": "Gap"}
    return simple_table(f"confidence-beside-{short(other)}", "Confidence before relearning", columns, rows)


def _accuracies(retain: Values | None, forget: Values | None) -> tuple[Text, Text]:
    if not retain or not forget:
        return None, None
    kept, gone = list(retain.values()), list(forget.values())
    spread = f" ± {percent(stdev(kept), 2)}" if len(kept) > 1 else ""
    return f"{percent(fmean(kept), 2)}{spread}", f"{percent(min(gone))}, {percent(fmean(gone))}, {percent(max(gone))}"


def _number(value: float | None) -> Text:
    return None if value is None else f"{value:.1f}"
