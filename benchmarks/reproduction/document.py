"""The document: prose by hand, numbers by the rows, in blocks that are made anew."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Callable, Mapping
from functools import partial

from reproduction import sentences_ablations as varied
from reproduction import sentences_audit as audit
from reproduction import sentences_experiments as other
from reproduction import sentences_paper as paper
from reproduction import sentences_rates as rates
from reproduction import sentences_scales as scaled
from reproduction.claims import claims_table
from reproduction.masked import masked_ablations, masked_table
from reproduction.sentences_remade import remade
from reproduction.stored import PUBLISHED, VERDICT, Kept
from reproduction.tables_ablations import (
    missing_row_table,
    proposals_table,
    scores_table,
    sizes_table,
    support_table,
)
from reproduction.tables_audit import control_table, scale_table, selection_table, verdict_table
from reproduction.tables_experiments import accuracies_table, canonical_table, changes_table, experiments_table
from reproduction.tables_models import (
    alignment_table,
    confidence_table,
    controls_table,
    models_table,
    multi_table,
    unlearned_table,
)
from reproduction.tables_rs import agreement_table, classes_beside_table, left_out_table, per_class_table, rs_table
from reproduction.tables_scales import agreement_scales_table, full_scales_table, norm_table, other_norms_table
from sfra.bench.tables import Table, to_markdown
from sfra.core.errors import InputError

TABLES: Mapping[str, Callable[[Kept], Table]] = {
    "rs": rs_table,
    "agreement": agreement_table,
    "left-out": left_out_table,
    "per-class": per_class_table,
    "classes": classes_beside_table,
    "claims": claims_table,
    "unlearned": unlearned_table,
    "models": models_table,
    "controls": controls_table,
    "multi": multi_table,
    "alignment": alignment_table,
    "confidence": confidence_table,
    "control": control_table,
    "selection": selection_table,
    "scales": scale_table,
    "verdicts": verdict_table,
    "experiments": experiments_table,
    "experiments-canonical": canonical_table,
    "experiments-models": accuracies_table,
    "norm": norm_table,
    "norm-others": other_norms_table,
    "agreement-scales": agreement_scales_table,
    "agreement-scales-full": full_scales_table,
    "changes": changes_table,
    "proposals": proposals_table,
    "scores": scores_table,
    "missing-row": missing_row_table,
    "support": support_table,
    "masked": masked_table,
    "sizes-m": partial(sizes_table, size="M", reading=PUBLISHED),
    "sizes-n": partial(sizes_table, size="N", reading=PUBLISHED),
    "sizes-m-canonical": partial(sizes_table, size="M", reading=VERDICT),
    "sizes-n-canonical": partial(sizes_table, size="N", reading=VERDICT),
}

SENTENCES: Mapping[str, Callable[[Kept], str]] = {
    "coverage": paper.coverage,
    "remade": remade,
    "settings": paper.settings,
    "original": paper.original,
    "unlearned": paper.unlearned,
    "agreement": paper.agreement,
    "held": paper.held,
    "disagreement": paper.disagreement,
    "paper-scale": paper.scale_of_paper,
    "candidates": paper.candidates,
    "alike": rates.alike,
    "experiments": other.experiments,
    "norm": scaled.norm,
    "agreement-scales": scaled.agreement_scales,
    "changes": other.changes,
    "scales": audit.scales,
    "curves": audit.curves,
    "selection": audit.selection,
    "controls": audit.controls,
    "alignment": audit.alignment,
    "control": audit.control,
    "two-classes": audit.two_classes,
    "ablations": varied.ablations,
    "proposals": varied.proposals,
    "scores": varied.uncertainty,
    "missing-row": varied.missing_row,
    "support": varied.support,
    "masked": masked_ablations,
    "sizes": varied.sizes,
}

_BLOCK = re.compile(r"(<!-- (table|text) ([a-z-]+) -->\n).*?(<!-- end -->)", flags=re.DOTALL)


def comparison_tables(kept: Kept) -> list[Table]:
    """Make every table of the comparison."""
    return [make(kept) for make in TABLES.values()]


def refresh(
    text: str,
    kept: Kept,
    *,
    tables: Mapping[str, Callable[[Kept], Table]] = TABLES,
    sentences: Mapping[str, Callable[[Kept], str]] = SENTENCES,
) -> str:
    """Make the blocks of a document anew; what is between them stays.

    A block begins with a line ``<!-- table NAME -->`` or ``<!-- text NAME -->`` and ends with ``<!-- end -->``. A table
    without rows leaves its block empty: the text beside it says that there is nothing.

    Args:
        text: The document.
        kept: The rows that it is about.
        tables: What makes the tables, by name.
        sentences: What makes the texts, by name.

    Raises:
        InputError: A block has an unknown name.
    """

    def block(found: re.Match[str]) -> str:
        begin, kind, name, end = found.groups()
        return f"{begin}{_content(kind, name, tables if kind == 'table' else sentences, kept)}\n{end}"

    return _BLOCK.sub(block, text)


def _content(kind: str, name: str, known: Mapping[str, Callable[[Kept], Table | str]], kept: Kept) -> str:
    if name not in known:
        raise InputError(f"the document has an unknown {kind}", expected=", ".join(known), got=name)
    made = known[name](kept)
    if isinstance(made, Table):
        return to_markdown(made).strip() if made.rows else ""
    return "\n".join(map(_wrapped, made.strip().splitlines()))


def _wrapped(line: str) -> str:
    hanging = "  " if line.startswith("- ") else ""
    return textwrap.fill(line, 120, subsequent_indent=hanging, break_long_words=False, break_on_hyphens=False)
