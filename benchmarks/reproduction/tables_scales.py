"""Tables of the scale: retrained models at the norm of another schedule's, and the agreement at every κ."""

from __future__ import annotations

from collections.abc import Sequence

from reproduction.experiments import FULL, OWN, World, trained_otherwise
from reproduction.scales import Retrained, Scaled, at_every_scale, mean_models, retrained_models, swept_worlds
from reproduction.simple import Text, joined, score, signed, simple_table
from reproduction.stored import Kept
from reproduction.tables_rs import correlation
from sfra.attack.scale import KAPPA
from sfra.bench.tables import Table

BEYOND = "beyond the sweep"


def norm_table(kept: Kept) -> Table:
    """Show retrained models at their own norm and at one, and where they give the paper's RS."""
    models = retrained_models(kept)
    groups = mean_groups(models, trained_otherwise(kept))
    columns = {"forget_class": "Forget class", **_headings(OWN)}
    columns |= {"paper": "Paper", "paper_kappa": "κ at which (a) gives the paper's*"}
    rows = [
        (label, *_reading(one, OWN), score(one.paper), score(one.reached) or BEYOND)
        for label, one in _lines(models, groups).items()
    ]
    notes = (
        _about([OWN]),
        f"{_interpolated(models)} (a) at κ of (a) shows what interpolating costs.{_of_means(groups)}",
    )
    return simple_table("retrained-norm", "Retrained models and the norm of their heads", columns, rows, notes)


def other_norms_table(kept: Kept) -> Table:
    """Show retrained models of other trainings at their own norm and at one, and ours at their norm."""
    models, others = retrained_models(kept), trained_otherwise(kept)
    trained = [one for one in models if any(world in one.worlds for world in others)]
    columns = {"forget_class": "Forget class", "a": "(a)"}
    for world in others:
        columns |= _headings(world)
    columns |= {"paper": "Paper"}
    rows = [
        (
            label,
            score(one.worlds[OWN].native),
            *(cell for world in others for cell in _reading(one, world)),
            score(one.paper),
        )
        for label, one in _lines(trained, mean_groups(trained, others)).items()
    ]
    notes = (_about(others), _interpolated(models))
    title = "Retrained models of other trainings and the norm of their heads"
    return simple_table("retrained-norm-others", title, columns, rows, notes)


def _lines(models: Sequence[Retrained], groups: Sequence[Sequence[Retrained]]) -> dict[str, Retrained]:
    """Label what a table has a line for: every class, and the means."""
    single = {one.forget[0]: one for one in models}
    return single | {_mean_label(group, models): mean_models(group) for group in groups}


def _headings(world: World) -> dict[str, str]:
    name = world.letter
    columns = {f"{name}_kappa": f"κ of ({name})", name: f"({name})", f"{name}_scaled": f"(a) at κ of ({name})*"}
    return columns | {f"{name}_canonical": f"({name}) at κ = {KAPPA:.2f}"}


def _reading(one: Retrained, world: World) -> tuple[Text, ...]:
    found = one.worlds.get(world)
    return tuple(map(score, (found.kappa, found.native, found.own, found.canonical) if found else (None,) * 4))


def _about(worlds: Sequence[World]) -> str:
    return (
        "RS, worst-case, as released unless κ is named. κ of "
        f"{joined([f'({world.letter})' for world in worlds])}: median norm of the centred retain rows of the head as "
        "released; its means are harmonic."
    )


def _interpolated(models: Sequence[Retrained]) -> str:
    return f"* Interpolated between the scales of the sweep{_range(models)}, linearly in log κ."


def mean_groups(models: Sequence[Retrained], others: Sequence[World]) -> list[list[Retrained]]:
    """List the sets of classes worth an average: those of each other world, and all."""
    groups = [[one for one in models if world in one.worlds] for world in others]
    found = {tuple(one.forget[0] for one in group): group for group in (*groups, list(models)) if len(group) > 1}
    return list(found.values())


def _mean_label(group: Sequence[Retrained], models: Sequence[Retrained]) -> str:
    classes = [one.forget[0] for one in group]
    return f"mean of {f'all {len(classes)}' if len(group) == len(models) > 4 else joined(classes)}"


def _of_means(groups: Sequence[Sequence[Retrained]]) -> str:
    return " In the last column, of a mean row: κ at which the mean RS is the paper's mean." if groups else ""


def _range(models: Sequence[Retrained]) -> str:
    kappas = [kappa for one in models for kappa in one.curve]
    return f", κ = {min(kappas):.2f} to {max(kappas):.2f}" if kappas else ""


def agreement_scales_table(kept: Kept) -> Table:
    """Show how far mean RS agrees with the paper's at every scale, in (a) and, where it has a sweep, in (b)."""
    worlds = next((some for some in swept_worlds(kept) if FULL not in some), ())
    return _scales_table(kept, worlds, "agreement-scales", "Agreement with the paper at every scale")


def full_scales_table(kept: Kept) -> Table:
    """Show the same of (a) and (d), over the models of (d); nothing where (d) has no sweep."""
    worlds = next((some for some in swept_worlds(kept) if FULL in some), ())
    title = "Agreement with the paper at every scale, the training of its code in full"
    return _scales_table(kept, worlds, "agreement-scales-full", title)


def _scales_table(kept: Kept, worlds: Sequence[World], label: str, title: str) -> Table:
    found, classes = at_every_scale(kept, worlds)
    letters, own = [world.letter for world in worlds], [OWN, *trained_otherwise(kept)]
    scales = dict.fromkeys(one.kappa for one in found)
    rows = [_scale_row([one for one in found if one.kappa == kappa], own) for kappa in scales]
    columns = {"kappa": "κ"}
    for letter in letters:
        columns |= {f"{letter}_difference": f"({letter}): mean |difference|", f"{letter}_bias": "mean difference"}
        columns |= {f"{letter}_spearman": "Spearman"}
    columns |= {f"{world.letter}_retrained": f"Retrained ({world.letter})" for world in worlds if world in own}
    columns |= {"retrained_paper": "Retrained, paper"}
    same = [f"({world.letter})" for world in worlds if world not in own]
    notes = (
        f"Mean RS, worst-case, over the {len(classes)} methods and {sum(map(len, classes.values()))} models that "
        f"{joined([*(f'({letter})' for letter in letters), 'the paper'])} have; differences are ours minus the paper's."
        f"{f' Retrained models of {joined(same)} are those of (a).' if same else ''}",
    )
    return simple_table(label, title, columns, rows, notes)


def _scale_row(some: Sequence[Scaled], own: Sequence[World]) -> tuple[Text, ...]:
    cells: list[Text] = ["native" if some[0].kappa is None else score(some[0].kappa)]
    for found in (one.agreement for one in some):
        cells += [score(found.difference), signed(found.bias), correlation(found.spearman)]
    cells += [score(one.rs.get("retrained")) for one in some if one.world in own]
    return *cells, score(some[0].paper.get("retrained"))
