"""The document of a further group: beside our own numbers of the one that the paper printed numbers of."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from reproduction import sentences_beside as run
from reproduction import sentences_checks as checks
from reproduction import sentences_controls as controls
from reproduction.beside import side_of
from reproduction.document import refresh
from reproduction.draw import method_pairs
from reproduction.sentences_remade import remade
from reproduction.sentences_summary import summary
from reproduction.sentences_sweeps import every_scale
from reproduction.stored import PUBLISHED, VERDICT, Kept
from reproduction.tables_audit import control_table, scale_table, selection_table, verdict_table
from reproduction.tables_beside import (
    claims_beside_table,
    classes_table,
    delta_table,
    reset_table,
    rs_beside_table,
)
from reproduction.tables_models import (
    alignment_table,
    confidence_table,
    controls_table,
    models_table,
    unlearned_table,
)
from reproduction.tables_rs import agreement_table
from reproduction.tables_sweeps import every_scale_means_table, every_scale_table
from sfra.bench.tables import Table

BESIDE: Mapping[str, str] = {"cifar100-resnet18": "cifar100"}
"""Groups that stand beside the compared one, and the short names of their documents."""


def refresh_beside(text: str, kept: Kept, other: Kept) -> str:
    """Make the blocks of such a document anew.

    Args:
        text: The document.
        kept: The rows of its group.
        other: The rows that they stand beside.
    """
    return refresh(text, kept, tables=tables_of(other), sentences=sentences_of(other))


def beside_tables(kept: Kept, other: Kept) -> list[Table]:
    """Make every table of the comparison."""
    return [make(kept) for make in tables_of(other).values()]


def tables_of(other: Kept) -> Mapping[str, Callable[[Kept], Table]]:
    """Name what makes the tables."""
    side = side_of(other)
    return {
        "unlearned": lambda kept: unlearned_table(kept, side),
        "models": models_table,
        "rs-native": lambda kept: rs_beside_table(kept, side, "native"),
        "rs-canonical": lambda kept: rs_beside_table(kept, side, "canonical"),
        "delta": lambda kept: delta_table(kept, side),
        "agreement": lambda kept: agreement_table(kept, side),
        "classes-native": lambda kept: classes_table(kept, PUBLISHED),
        "classes-canonical": lambda kept: classes_table(kept, VERDICT),
        "claims": lambda kept: claims_beside_table(kept, other),
        "scales": scale_table,
        "verdicts": verdict_table,
        "selection": selection_table,
        "control": control_table,
        "reset": reset_table,
        "every-scale": every_scale_table,
        "every-scale-means": every_scale_means_table,
        "controls": lambda kept: controls_table(kept, side),
        "alignment": lambda kept: alignment_table(kept, side),
        "confidence": lambda kept: confidence_table(kept, side),
    }


def sentences_of(other: Kept) -> Mapping[str, Callable[[Kept], str]]:
    """Name what makes the texts."""
    return {
        "summary": lambda kept: summary(kept, other),
        "coverage": run.coverage,
        "remade": remade,
        "settings": run.settings,
        "original": lambda kept: run.original(kept, other),
        "unlearned": run.unlearned,
        "agreement": lambda kept: run.agreement(kept, other),
        "held": lambda kept: run.held(kept, other),
        "scales": lambda kept: checks.scales(kept, other),
        "verdicts": lambda kept: checks.verdicts(kept, other),
        "selection": lambda kept: checks.selection(kept, other),
        "control": lambda kept: controls.control(kept, other),
        "reset": controls.reset,
        "every-scale": lambda kept: every_scale(kept, f"![RS over scales]({folder(kept)}/sweep.svg)"),
        "controls": lambda kept: controls.controls(kept, other),
        "alignment": lambda kept: controls.alignment(kept, other),
        "figures": lambda kept: comparison_images(kept, other),
        "heatmap": heatmap_image,
    }


def comparison_images(kept: Kept, other: Kept) -> str:
    """Show the figures that compare methods, as far as they can be drawn."""
    shown = [
        f"![Mean RS of every method on both data sets, {', '.join(reading)}]({folder(kept)}/{name}.svg)"
        for name, reading in (("comparison", PUBLISHED), ("comparison-canonical", VERDICT))
        if method_pairs(kept, other, reading)
    ]
    return "\n\n".join(shown) or "There is no method yet that both data sets have."


def heatmap_image(kept: Kept) -> str:
    """Show the figure of every model, if there is one."""
    if not kept.main(*VERDICT):
        return "There is no audit yet."
    return f"![RS by method and forget class]({folder(kept)}/heatmap.svg)"


def folder(kept: Kept) -> str:
    """Name the folder of a document's figures."""
    return f"reproduction-{BESIDE[kept.group]}"
