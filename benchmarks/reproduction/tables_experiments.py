"""Tables of other recipes beside ours and the paper: RS, accuracies of the models, and what each change does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reproduction.agreement import ByClass, averages
from reproduction.experiments import STEPS_TAKEN, WORLDS, change, classes_of_all, there, values
from reproduction.simple import Text, percent, score, simple_table
from reproduction.stored import PUBLISHED, VERDICT, Kept, printed
from sfra.bench.tables import Table
from sfra.bench.tables.names import method_name

LEGEND = "; ".join(f"({world.letter}) {world.what}" for world in WORLDS)


def experiments_table(kept: Kept) -> Table:
    """Show the mean RS of every world beside the paper's, over the classes that all have, and over all classes."""
    worlds, sides = there(kept), _sides(kept)
    classes, every = classes_of_all(list(sides.values())), {m: list(some) for m, some in sides["paper"].items()}
    common = {name: averages(side, classes) for name, side in sides.items()}
    whole = {name: some for name, side in sides.items() if (some := averages(side, every))}
    rows = _rows(classes, [*common.values(), *whole.values()]) if len(worlds) > 1 else []
    columns = {"method": "Method", "classes": "Classes"} | {name: _heading(name) for name in common}
    columns |= {f"{name}_all": f"{_heading(name)}, all classes" for name in whole}
    notes = (f"{LEGEND}. Native scale, worst-case. Over the classes that all have, unless it says all classes.",)
    return simple_table("experiments", "Mean RS with other recipes", columns, rows, notes if rows else _NOTHING)


def canonical_table(kept: Kept) -> Table:
    """Show the same where the verdict is made, which the paper has no numbers of."""
    worlds, classes = there(kept), classes_of_all(list(_sides(kept).values()))
    shown = {world.letter: averages(values(kept, world, VERDICT), classes) for world in worlds}
    rows = _rows(classes, [*shown.values()]) if len(worlds) > 1 else []
    columns = {"method": "Method", "classes": "Classes"}
    columns |= {f"{name}_canonical": _heading(name) for name in shown}
    notes = (f"{LEGEND}. Over the classes that all of them and the paper have.",)
    title = "Mean RS with other recipes, canonical scale, source-free"
    return simple_table("experiments-canonical", title, columns, rows, notes if rows else _NOTHING)


def _sides(kept: Kept) -> dict[str, ByClass]:
    """Arrange the paper's RS and that of every world that is there."""
    return {"paper": printed("sfra", "rs")} | {world.letter: values(kept, world) for world in there(kept)}


def _rows(classes: Mapping[str, Sequence[str]], shown: Sequence[Mapping[str, float]]) -> list[tuple[Text, ...]]:
    return [
        (method_name(method), str(len(classes[method])), *(score(some.get(method)) for some in shown))
        for method in classes
    ]


def accuracies_table(kept: Kept) -> Table:
    """Show the accuracies of the unlearned models of every world beside the paper's, over the same classes."""
    worlds = there(kept)
    parts: dict[str, dict[str, ByClass]] = {}
    for what in ("retain", "forget"):
        parts[what] = {"paper": printed("unlearned", f"{what}_acc")}
        parts[what] |= {world.letter: values(kept, world, PUBLISHED, f"{what}_before") for world in worlds}
    classes = classes_of_all([side for part in parts.values() for side in part.values()])
    shown = {(what, name): averages(side, classes) for what, part in parts.items() for name, side in part.items()}
    rows = [
        (method_name(method), str(len(classes[method])), *(percent(some.get(method)) for some in shown.values()))
        for method in classes
        if len(worlds) > 1
    ]
    columns = {"method": "Method", "classes": "Classes"}
    columns |= {f"{what}_{name}": f"{what.title()} (%): {_heading(name)}" for what, name in shown}
    notes = (f"{LEGEND}. Before relearning, test split, over the classes that all have.",)
    title = "Accuracies of the unlearned models of other recipes"
    return simple_table("experiments-models", title, columns, rows, notes if rows else _NOTHING)


def changes_table(kept: Kept) -> Table:
    """Show what changing one thing does to RS, and to its distance from the paper's."""
    rows = []
    for step in STEPS_TAKEN:
        found = change(kept, step)
        if found is not None:
            before, after = found.agreements
            rows.append(
                (
                    step.what,
                    *(str(len(found.classes)), str(found.models), score(found.size)),
                    *(score(before.difference, 3), score(after.difference, 3)),
                    *(score(before.spearman), score(after.spearman)),
                    *(score(side.get("retrained")) for side in (found.paper, found.before, found.after)),
                )
            )
    columns = {"changed": "Changed", "methods": "Methods", "models": "Models", "size": "Mean |change|"}
    columns |= {"difference_before": "Mean |difference| from paper before", "difference_after": "after"}
    columns |= {"spearman_before": "Spearman with paper before", "spearman_after": "after"}
    columns |= {"retrained_paper": "Retrained: paper", "retrained_before": "before", "retrained_after": "after"}
    notes = (f"{LEGEND}. Each line over the methods and classes that both sides and the paper have, mean RS; native "
             "scale and worst-case but for the line that changes them.",)  # fmt: skip
    return simple_table("experiments-changes", "What one change does", columns, rows, notes)


def _heading(name: str) -> str:
    return "Paper" if name == "paper" else f"({name})"


_NOTHING = ("Not computed yet.",)
