"""Tables of the scale: retrained models at the norm of another schedule's, and the agreement at every κ."""

from __future__ import annotations

from collections.abc import Sequence

from reproduction.experiments import OWN, World
from reproduction.scales import Retrained, Scaled, at_every_scale, mean_models, retrained_models, trained_otherwise
from reproduction.simple import Text, joined, score, signed, simple_table
from reproduction.stored import Kept
from reproduction.tables_rs import correlation
from sfra.scale import KAPPA
from sfra.tables import Table

BEYOND = "beyond the sweep"


def norm_table(kept: Kept) -> Table:
    """Show retrained models at their own norm, at that of others and at one, and where they give the paper's RS."""
    models, others = retrained_models(kept), trained_otherwise(kept)
    lines = {one.forget[0]: one for one in models}
    for group in mean_groups(models, others):
        lines[_mean_label(group, models)] = mean_models(group)
    rows = [_norm_row(label, one, others) for label, one in lines.items()]
    letters, columns = [world.letter for world in (OWN, *others)], {"forget_class": "Forget class"}
    for letter in letters:
        columns |= {f"{letter}_kappa": f"κ of ({letter})", letter: f"({letter})"}
        columns |= {
            f"{letter}_scaled": f"(a) at κ of ({letter})*",
            f"{letter}_canonical": f"({letter}) at κ = {KAPPA:.2f}",
        }
    columns |= {"paper": "Paper", "paper_kappa": "κ at which (a) gives the paper's*"}
    notes = (
        f"RS, worst-case, as released unless κ is named. κ of {joined([f'({letter})' for letter in letters])}: median "
        "norm of the centred retain rows of the head as released; its means are harmonic.",
        f"* Interpolated between the scales of the sweep{_range(models)}, linearly in log κ. (a) at κ of (a) shows "
        "what interpolating costs.",
    )
    return simple_table("retrained-norm", "Retrained models and the norm of their heads", columns, rows, notes)


def mean_groups(models: Sequence[Retrained], others: Sequence[World]) -> list[list[Retrained]]:
    """List the sets of classes worth an average: those of each other world, and all."""
    groups = [[one for one in models if world in one.worlds] for world in others]
    found = {tuple(one.forget[0] for one in group): group for group in (*groups, list(models)) if len(group) > 1}
    return list(found.values())


def _norm_row(label: str, one: Retrained, others: Sequence[World]) -> tuple[Text, ...]:
    cells: list[Text] = [label]
    for reading in (one.worlds.get(world) for world in (OWN, *others)):
        numbers = (reading.kappa, reading.native, reading.own, reading.canonical) if reading else (None,) * 4
        cells += map(score, numbers)
    return *cells, score(one.paper), score(one.reached) or BEYOND


def _mean_label(group: Sequence[Retrained], models: Sequence[Retrained]) -> str:
    classes = [one.forget[0] for one in group]
    return f"mean of {f'all {len(classes)}' if len(group) == len(models) > 4 else joined(classes)}"


def _range(models: Sequence[Retrained]) -> str:
    kappas = [kappa for one in models for kappa in one.curve]
    return f", κ = {min(kappas):.2f} to {max(kappas):.2f}" if kappas else ""


def agreement_scales_table(kept: Kept) -> Table:
    """Show how far mean RS agrees with the paper's at every scale, in every world with a sweep."""
    found, classes = at_every_scale(kept)
    letters = list(dict.fromkeys(one.world.letter for one in found))
    rows = [
        _scale_row([one for one in found if one.kappa == kappa]) for kappa in dict.fromkeys(one.kappa for one in found)
    ]
    columns = {"kappa": "κ"}
    for letter in letters:
        columns |= {f"{letter}_difference": f"({letter}): mean |difference|", f"{letter}_bias": "mean difference"}
        columns |= {f"{letter}_spearman": "Spearman"}
    columns |= {"retrained": "Retrained", "retrained_paper": "Retrained, paper"}
    notes = (
        f"Mean RS, worst-case, over the {len(classes)} methods and {sum(map(len, classes.values()))} models that "
        f"{joined([*(f'({letter})' for letter in letters), 'the paper'])} have; differences are ours minus the paper's."
        f"{' Retrained models are the same in both.' if len(letters) > 1 else ''}",
    )
    return simple_table("agreement-scales", "Agreement with the paper at every scale", columns, rows, notes)


def _scale_row(some: Sequence[Scaled]) -> tuple[Text, ...]:
    cells: list[Text] = ["native" if some[0].kappa is None else score(some[0].kappa)]
    for found in (one.agreement for one in some):
        cells += [score(found.difference), signed(found.bias), correlation(found.spearman)]
    return *cells, score(some[0].rs.get("retrained")), score(some[0].paper.get("retrained"))
