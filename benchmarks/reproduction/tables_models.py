"""Models, controls and diagnostics beside the paper's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev
from typing import Any

from reproduction.agreement import means
from reproduction.simple import Text, percent, score, signed, simple_table
from reproduction.stored import METHOD_LIST, METHOD_OF, Kept, Row, arrange, paper_rows, printed
from reproduction.tables_rs import PUBLISHED, VERDICT
from sfra.scale import KAPPA
from sfra.tables import Table
from sfra.tables.names import METHODS, method_name

Values = Mapping[str, float]


def own(rows: Sequence[Row], kept: Kept) -> list[Row]:
    """Keep the rows of the group's own protocol: single forget classes."""
    return [row for row in rows if row["protocol"] == kept.group]


def unlearned_table(kept: Kept) -> Table:
    """Show the accuracies of the models as they were released, beside the paper's."""
    ours = [kept.by_class(*PUBLISHED, f"{what}_before") for what in ("retain", "forget")]
    paper = [printed("unlearned", f"{what}_acc") for what in ("retain", "forget")]
    rows = [
        (method_name(method), *(text for side in (ours, paper) for text in _accuracies(*(x.get(method) for x in side))))
        for method in METHOD_LIST
    ]
    columns = {"method": "Method", "retain": "Retain (%)", "forget": "Forget (%)"}
    columns |= {"paper_retain": "Paper: retain", "paper_forget": "Paper: forget"}
    notes = ("Test split; retain: mean ± standard deviation over forget classes; forget: min, mean, max.",)
    return simple_table("unlearned-beside-paper", "Accuracies of the unlearned models", columns, rows, notes)


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
    notes = ("Means over forget classes; AUS on the validation split; seconds beside eleven others on one GPU.",)
    return simple_table("models", "Making the models", columns, rows, notes)


def controls_table(kept: Kept) -> Table:
    """Show the two audits that see real samples beside the paper's, and beside SFRA."""
    sfra, paper_sfra = means(kept.by_class(*PUBLISHED)), means(printed("sfra", "rs"))
    pra = {
        v: means(arrange([row for row in own(kept.pra, kept) if row["variant"] == v], "rs")) for v in ("cosine", "l2")
    }
    probes = arrange(own(kept.probes, kept), "forget_accuracy")
    paper_pra, paper_probes = means(printed("pra", "rs")), means(printed("linear_probe", "forget_acc"))
    rows = [
        (
            method_name(method),
            *(score(some.get(method)) for some in (sfra, paper_sfra, pra["cosine"], pra["l2"], paper_pra)),
            percent(fmean(probes[method].values())) if method in probes else None,
            str(len(probes.get(method, {}))),
            percent(paper_probes.get(method)),
        )
        for method in METHOD_LIST
    ]
    columns = {"method": "Method", "sfra": "SFRA", "sfra_paper": "Paper", "pra": "PRA", "pra_l2": "PRA, l2"}
    columns |= {"pra_paper": "Paper", "probe": "Linear probe (%)", "probes": "Classes", "probe_paper": "Paper"}
    notes = ("Mean RS (SFRA: native scale, worst-case; PRA: five supports of five real samples); linear probe: mean "
             "forget accuracy of a fresh linear classifier, over as many forget classes as there are.",)  # fmt: skip
    return simple_table("controls-beside-paper", "Audits with real samples", columns, rows, notes)


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


def diagnosed(kept: Kept, value: str, scale: str = "native") -> dict[str, dict[str, float]]:
    """Arrange a diagnostic by method and forget class."""
    return arrange([row for row in own(kept.diagnostics, kept) if row["scale"] == scale], value)


def alignment_table(kept: Kept) -> Table:
    """Show the alignment of probes with real features beside the paper's, and the scale that heads have."""
    inner, cosine = (means(diagnosed(kept, name)) for name in ("inner", "cosine"))
    native = {method: KAPPA / gain for method, gain in means(diagnosed(kept, "gain", "canonical")).items()}
    rows = [
        (
            method_name(method),
            *(signed(some.get(method)) for some in (inner, paper_alignment("a_ip"))),
            *(signed(some.get(method)) for some in (cosine, paper_alignment("a_cos"))),
            score(native.get(method)),
        )
        for method in METHOD_LIST
    ]
    columns = {"method": "Method", "a_ip": "Inner product", "paper_a_ip": "Paper", "a_cos": "Cosine"}
    columns |= {"paper_a_cos": "Paper", "kappa": "Native κ"}
    notes = ("Mean forget probe against mean real feature of the forget class, native scale; native κ: median norm of "
             "the centred retain rows as released.",)  # fmt: skip
    return simple_table("alignment-beside-paper", "Alignment", columns, rows, notes)


def paper_alignment(value: str) -> dict[str, float]:
    """Average a printed alignment over the forget classes."""
    rows = [row | {"method": METHOD_OF[row["method"]]} for row in paper_rows("alignment") if row["forget"] != "avg"]
    return means(arrange(rows, value))


def confidence_table(kept: Kept) -> Table:
    """Show how sure Bad Teacher's head is before relearning, beside the paper's."""
    names = {"correct_confidence": "correct_retain_conf", "assigned_confidence": "forget_assigned_conf", "gap": "gap"}
    found = [diagnosed(kept, name).get("bad-teacher", {}) for name in names]
    average = next(row for row in paper_rows("confidence") if row["forget"] == "avg")
    rows = [
        ("ours", *(score(fmean(some.values()), 3) if some else None for some in found)),
        ("paper", *(score(average[name], 3) for name in names.values())),
    ]
    columns = {"source": "Bad Teacher", "correct": "Correct retain", "assigned": "Assigned forget", "gap": "Gap"}
    return simple_table("confidence-beside-paper", "Confidence before relearning", columns, rows)


def _accuracies(retain: Values | None, forget: Values | None) -> tuple[Text, Text]:
    if not retain or not forget:
        return None, None
    kept, gone = list(retain.values()), list(forget.values())
    spread = f" ± {percent(stdev(kept), 2)}" if len(kept) > 1 else ""
    return f"{percent(fmean(kept), 2)}{spread}", f"{percent(min(gone))}, {percent(fmean(gone))}, {percent(max(gone))}"


def _number(value: float | None) -> Text:
    return None if value is None else f"{value:.1f}"
