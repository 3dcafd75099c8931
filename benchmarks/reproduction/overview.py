"""All groups beside the paper: mean RS of every method, how far it agrees, and what the paper's tables show."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from statistics import fmean

from reproduction.ablations import PROPOSALS, ROWS, SCORES, SUPPORT, Factor, levels, shared
from reproduction.rows import (
    METHOD_LIST,
    PUBLISHED,
    VERDICT,
    Group,
    Reading,
    Side,
    Values,
    agree,
    averages,
    means,
    paper_beside,
    paper_rows,
    paper_side,
    side_of,
)
from reproduction.tables import WITH_CONTROL, Cells, of_methods, score, signed, table
from sfra.bench.tables import Column, Table
from sfra.bench.tables.names import backbone_name, dataset_name
from sfra.bench.tables.table import Cell
from sfra.core.metrics.scores import degenerate_floor

PLACES = {"cifar10-resnet18": "CIFAR-10, ResNet-18, small stem", "cifar10-resnet18-224": "CIFAR-10, ResNet-18 at 224"}
UNLEARNED = METHOD_LIST[1:]
OTHERWISE = ("finetune", "salun")
"""Methods that are known to unlearn otherwise here than in the paper: fewer epochs, other data."""

Found = tuple[str, bool]
"""What a side shows, and whether it is so there."""


def place(group: Group) -> str:
    """Name a group for readers."""
    return PLACES.get(group.name, f"{dataset_name(group.dataset)}, {backbone_name(group.backbone)}")


def beside(group: Group) -> tuple[Side, Side]:
    """Read a group, and the paper's models of the same methods and classes."""
    return side_of(group), paper_beside(group)


def overview(groups: Sequence[Group]) -> Table:
    """Show the mean RS of every method in every group: ours, the paper's, the difference; and in our own reading."""
    columns = [Column(names=("method",), heading="Method", numeric=False)]
    cells: dict[str, list[Cell]] = {method: [(text,)] for method, text in WITH_CONTROL.items()}
    for group in groups:
        mine, theirs = (means(side.rs[PUBLISHED]) for side in beside(group))
        verdict, key = means(group.rs(VERDICT)), group.name.replace("-", "_")
        names = tuple(f"{key}_{part}" for part in ("ours", "paper", "difference"))
        columns.append(Column(names=names, heading=f"{place(group)}: ours, paper's, difference", style="triple"))
        columns.append(Column(names=(f"{key}_verdict",), heading="canonical, source-free"))
        for m, line in cells.items():
            gap = mine[m] - theirs[m] if m in mine and m in theirs else None
            line.append((score(mine.get(m)), score(theirs.get(m)), signed(gap)))
            line.append((score(verdict.get(m)),))
    notes = (
        "Mean RS over the forget classes that a group has of the method; ours and the paper's over the same classes, "
        "native scale, worst-case, as the paper reads it. Beside it ours at canonical scale, source-free.",
    )
    rows = tuple(tuple(line) for line in cells.values())
    return Table(title="Mean RS of every method", label="overview", columns=tuple(columns), rows=rows, notes=notes)


def agreements(groups: Sequence[Group]) -> Table:
    """Show how far mean RS agrees with the paper's in every group, over methods and over single models."""
    parts: dict[str, dict[str, str | None]] = {}
    for group in groups:
        own, theirs = beside(group)
        for reading, key, left_out in ((PUBLISHED, "", ()), (PUBLISHED, "rest_", OTHERWISE), (VERDICT, "verdict_", ())):
            some = {m: rs for m, rs in of_methods(own.rs[reading]).items() if m not in left_out}
            found = agree(some, of_methods(theirs.rs[reading]))
            for name in ("difference", "spearman"):
                parts.setdefault(f"{key}{name}", {})[group.name] = score(getattr(found, name, None))
        single = agree(_models(own), _models(theirs))
        parts.setdefault("models", {})[group.name] = str(len(_models(own).keys() & _models(theirs).keys()))
        parts.setdefault("models_difference", {})[group.name] = score(getattr(single, "difference", None))
    headings = {
        "difference": "Mean |difference|, methods",
        "spearman": "Spearman, methods",
        "rest_difference": "Without Finetune and SalUn: mean |difference|",
        "rest_spearman": "Spearman",
        "models": "Models",
        "models_difference": "Mean |difference|, models",
        "verdict_difference": "canonical, source-free: mean |difference|",
        "verdict_spearman": "Spearman",
    }
    columns: list[Cells] = [(name, heading, parts.get(name, {})) for name, heading in headings.items()]
    title, rows = "Agreement with the paper", {group.name: place(group) for group in groups}
    notes = ("Native scale, worst-case, unless said otherwise. Methods: of their means over forget classes.",)
    return table("overview-agreement", title, rows, columns, notes, ("group", "Data and network"))


def _models(side: Side) -> dict[str, float]:
    return {f"{m}-{c}": rs for m in METHOD_LIST for c, rs in side.rs[PUBLISHED].get(m, {}).items()}


Pair = tuple[Found | None, Found | None]
"""What a group shows, and the paper; None where there are no rows."""


def share(some: Sequence[bool]) -> Found | None:
    """Count what is so; it holds if it is so for more than half."""
    return (f"{sum(some)} of {len(some)}", 2 * sum(some) > len(some)) if some else None


def sides(measure: Callable[[Side], Found | None]) -> Callable[[Group], Pair]:
    """Read both sides in the same way."""
    return lambda group: (measure(beside(group)[0]), measure(beside(group)[1]))


def ours(measure: Callable[[Side, Reading], Found | None]) -> Callable[[Group], Pair]:
    """Read a group in our own reading; the paper has nothing like it."""
    return lambda group: (measure(side_of(group), VERDICT), None)


def comes_back(side: Side, reading: Reading = PUBLISHED) -> Found | None:
    """Count models that keep at most 1 % of the class and give back more than half."""
    rs = side.rs[reading]
    return share([rs[m][c] > 0.5 for m in UNLEARNED for c in rs.get(m, {}) if side.forget[m][c] <= 0.01])


def more_than_reference(side: Side, reading: Reading = PUBLISHED) -> Found | None:
    """Count models with a positive ΔRS."""
    return share([value > 0 for m in UNLEARNED for value in side.delta[reading].get(m, {}).values()])


def reference_relearns(side: Side, reading: Reading = PUBLISHED) -> Found | None:
    """Count retrained models above the floor: RS of a head that always answers the class."""
    mine = side.rs[reading].get("retrained", {})
    return share([rs > degenerate_floor(side.retain["retrained"][c]) for c, rs in mine.items()])


def more_than_pra(side: Side) -> Found | None:
    """Count methods with a larger mean RS than that of the audit with real samples, over the same classes."""
    classes = {m: list(side.pra[m]) for m in METHOD_LIST if m in side.pra}
    sfra, pra = averages(side.rs[PUBLISHED], classes), averages(side.pra, classes)
    return share([sfra[m] > pra[m] for m in sfra])


def most(side: Side) -> Found | None:
    """Say whether Bad Teacher is among the two methods that give back the most."""
    found = of_methods(side.rs[PUBLISHED])
    if "bad-teacher" not in found:
        return None
    rank = 1 + sum(value > found["bad-teacher"] for value in found.values())
    return f"{score(found['bad-teacher'])}, rank {rank} of {len(found)}", rank <= 2


def keeps_the_rest(side: Side) -> Found | None:
    """Average the points that relearning costs the other classes."""
    lost = [side.retain[m][c] - kept for m in UNLEARNED for c, kept in side.kept.get(m, {}).items()]
    return (f"{score(100 * fmean(lost), 1)} points", fmean(lost) < 0.05) if lost else None


def probe_reads(side: Side) -> Found | None:
    """Average what a linear probe reads from retrained models."""
    found = means(side.probe).get("retrained")
    return None if found is None else (f"{100 * found:.1f} %", found > 0.5)


def aligned(side: Side) -> Found | None:
    """Correlate RS with the cosine of mean probe and mean feature, over all models."""
    cosines = {f"{m}-{c}": value for m in METHOD_LIST for c, value in side.cosine.get(m, {}).items()}
    found = agree(_models(side), cosines)
    return None if found is None or found.spearman is None else (str(score(found.spearman)), abs(found.spearman) < 0.3)


def unsure(side: Side) -> Found | None:
    """Read the gap of confidence between correct answers and those for the class."""
    gap = side.confidence.get("gap")
    return None if gap is None else (str(score(gap)), gap > 0.5)


def varied(
    factor: Factor, judge: Callable[[Mapping[str, Values]], Found], only: Sequence[str] = METHOD_LIST
) -> Callable[[Group], Pair]:
    """Read an ablation and the paper's of the same methods and classes, level by level."""

    def read(group: Group) -> Pair:
        paper, first = factor.paper(), group.dataset == "cifar10" and group.backbone.startswith("resnet18")
        found = levels(group, factor, PUBLISHED) if len(group.rows("audits", "-ablations")) else {}
        classes = {m: some for m, some in shared(found, factor, paper).items() if m in only} if first else {}
        both = [{level: averages(side.get(level, {}), classes) for level in factor.names} for side in (found, paper)]
        here, there = (judge(side) if all(side.values()) and classes else None for side in both)
        return here, there

    return read


def spread(found: Mapping[str, Values]) -> Found:
    """Find the largest change of a method's RS from the main level to another."""
    first, *others = found.values()
    largest = max(abs(other[m] - first[m]) for other in others for m in first if m in other)
    return f"at most {score(largest)}", largest < 0.15


def first_is_best(found: Mapping[str, Values]) -> Found:
    """Compare the mean RS over methods of the main level with those of the others."""
    numbers = [fmean(values.values()) for values in found.values()]
    return ", ".join(str(score(one)) for one in numbers), numbers[0] >= max(numbers) - 0.01


def as_well(found: Mapping[str, Values]) -> Found:
    """Compare the mean RS over methods of another level with that of the main one."""
    before, after = (fmean(values.values()) for values in found.values())
    return f"{score(before)}, then {score(after)}", after > before - 0.05


def last_loses(found: Mapping[str, Values]) -> Found:
    """Say whether the last level gives back less than half of the main one."""
    numbers = [fmean(values.values()) for values in found.values()]
    return ", ".join(str(score(one)) for one in numbers), numbers[-1] < numbers[0] / 2


def together(group: Group) -> Pair:
    """Compare the mean RS of classes 1 and 6 forgotten at once with that of the two alone."""
    rows = group.audits(PUBLISHED, ending="-multi").filter(forget="1+6")
    printed = paper_rows("summary_multi_class").filter(dataset="CIFAR-10", num_forget=2, variant="sfra")
    pairs = zip((rows, printed), (side_of(group), paper_side(group.dataset)), strict=True)
    made: list[Found | None] = []
    for multi, single in pairs:
        both = dict(multi.select("method", "rs").iter_rows()) if len(rows) else {}
        alone = averages(single.rs[PUBLISHED], {m: ["1", "6"] for m in both if m in METHOD_LIST})
        at_once = [both[m] for m in alone]
        numbers = (fmean(at_once), fmean(alone.values())) if alone else None
        made.append(numbers and (f"{score(numbers[0])} instead of {score(numbers[1])}", numbers[0] < numbers[1]))
    return made[0], made[1]


CLAIMS: dict[str, tuple[str, Callable[[Group], Pair]]] = {
    "comes-back": ("A class of which at most 1 % is left comes back (RS > 0.5)", sides(comes_back)),
    "reference": ("More comes back than from a retrained model (ΔRS > 0)", sides(more_than_reference)),
    "generic": ("Retrained models give the class back too (RS > floor)", sides(reference_relearns)),
    "comes-back-verdict": ("The first, in our own reading", ours(comes_back)),
    "reference-verdict": ("The second, in our own reading", ours(more_than_reference)),
    "generic-verdict": ("The third, in our own reading", ours(reference_relearns)),
    "pra": ("More comes back than with five real samples (PRA), by method", sides(more_than_pra)),
    "most": ("Bad Teacher is among the two methods that give back the most", sides(most)),
    "retain": ("Relearning costs the other classes less than 5 points", sides(keeps_the_rest)),
    "probe": ("A linear probe reads the class from retrained models (> 50 %)", sides(probe_reads)),
    "alignment": ("Alignment does not order the models (|rank correlation| with RS < 0.3)", sides(aligned)),
    "unsure": ("Bad Teacher is unsure of the class (gap of confidence > 0.5)", sides(unsure)),
    "proposal": (
        "Uniform and Laplace proposals change a method's RS by less than 0.15",
        varied(PROPOSALS, spread),
    ),
    "score": (
        "Softmax is as good a score as entropy and energy (mean RS of the three)",
        varied(SCORES, first_is_best),
    ),
    "row": ("A random row in place of the forget row does as well (mean RS)", varied(ROWS, as_well)),
    "support": (
        "Without negative numbers Bad Teacher's class stays away (signed, ReLU, absolute value)",
        varied(SUPPORT, last_loses, ["bad-teacher"]),
    ),
    "together": ("Of two classes forgotten at once less comes back", together),
}
"""What tables of the paper show, by name, and how it is read off ours in the same way; the thresholds are ours."""


def claims(groups: Sequence[Group]) -> Table:
    """Show each claim in every group, ours and the paper's beside it."""
    rows, columns = {name: says for name, (says, _) in CLAIMS.items()}, list[Cells]()
    for group in groups:
        cells: dict[str, str | None] = {}
        for name, (_, read) in CLAIMS.items():
            here, there = read(group)
            if here is not None:
                printed = f" (paper: {'' if there[1] else 'no, '}{there[0]})" if there else ""
                cells[name] = f"{'yes' if here[1] else 'NO'}: {here[0]}{printed}"
        columns.append((group.name.replace("-", "_"), place(group), cells))
    notes = (
        "Read in the paper's way (native scale, worst-case), ours and the paper's over the same methods and classes. "
        "More than half must show it, where counts are given; thresholds are ours. Our own reading: canonical scale, "
        "source-free. No rows: –.",
    )
    return table("claims", "What the paper's tables show", rows, columns, notes, ("claim", "In the paper's tables"))


def overview_tables(groups: Sequence[Group]) -> list[Table]:
    """Make all tables over all groups."""
    return [overview(groups), agreements(groups), claims(groups)]
