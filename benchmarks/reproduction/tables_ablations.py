"""Tables of audits with one setting varied beside the paper's: proposals, scores, missing row, support, M and N."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from reproduction.ablations import (
    PROPOSALS,
    ROWS,
    SCORES,
    SIZES,
    SUPPORT,
    Factor,
    Levels,
    level_averages,
    levels,
    paper_missing_row,
    paper_proposals,
    paper_scores_ablation,
    paper_support,
    shared,
)
from reproduction.simple import Text, score, simple_table
from reproduction.stored import PUBLISHED, VERDICT, Kept
from sfra.bench.tables import Table
from sfra.bench.tables.names import method_name

MISSING = ("Not computed yet.",)


def proposals_table(kept: Kept) -> Table:
    """Show RS by the distribution that probes are drawn from."""
    note = "Gaussian: the main audits, of three seeds; the others have one."
    return _table(kept, PROPOSALS, paper_proposals(), "proposals-beside-paper", "Mean RS by proposal", note)


def scores_table(kept: Kept) -> Table:
    """Show RS by the score that candidates are ranked with, with its deviation over seeds."""
    note = "±: standard deviation over the three seeds of an audit, averaged over classes. Softmax: the main audits."
    spreads = levels(kept, SCORES, PUBLISHED, "rs_std"), paper_scores_ablation("rs_std")
    return _table(
        kept, SCORES, paper_scores_ablation(), "scores-beside-paper", "Mean RS by score", note, spreads=spreads
    )


def missing_row_table(kept: Kept) -> Table:
    """Show RS with the forget row as released, and with a random one in the place of a missing one."""
    note = (
        "Forget class 7. The paper counts what comes back from a forget accuracy of 0, we from that of the restored "
        "head. Of the released row its main table prints other values; here are those of its table on the missing row."
    )
    return _table(kept, ROWS, paper_missing_row(), "missing-row-beside-paper", "RS without the forget row", note)


def support_table(kept: Kept) -> Table:
    """Show RS by the support of the Gaussian."""
    note = "Forget class 7; the paper's table is of Bad Teacher alone."
    return _table(kept, SUPPORT, paper_support(), "support-beside-paper", "RS by support of the proposal", note)


def sizes_table(kept: Kept, size: str, reading: tuple[str, str]) -> Table:
    """Show RS by the number of probes (``M``) or of candidates (``N``) per class."""
    factor = SIZES[size]
    found = levels(kept, factor, reading)
    classes = shared(found, factor)
    shown = level_averages(found, classes)
    rows = [(method_name(m), *(score(shown.get(one, {}).get(m)) for one in factor.names)) for m in classes]
    columns = {"method": "Method"} | {f"{size.lower()}_{one}": f"{size} = {text}" for one, text in factor.names.items()}
    notes = (_forget_note(classes),) if rows else MISSING
    title = f"RS by {size} ({', '.join(reading)})"
    return simple_table(f"sensitivity-{size.lower()}-{reading[0]}", title, columns, rows, notes)


def _table(
    kept: Kept,
    factor: Factor,
    paper: Levels,
    label: str,
    title: str,
    note: str,
    *,
    spreads: tuple[Levels, Levels] | None = None,
) -> Table:
    found = levels(kept, factor, PUBLISHED)
    classes = shared(found, factor, paper)
    sides = [(found, spreads and spreads[0]), (paper, spreads and spreads[1])]
    cells = [_cells(some, spread, classes) for some, spread in sides]
    verdict = _cells(levels(kept, factor, VERDICT), None, classes)
    rows = [
        (
            method_name(method),
            str(len(classes[method])),
            *(side.get((level, method)) for level in factor.names for side in cells),
            *(verdict.get((level, method)) for level in factor.names),
        )
        for method in classes
    ]
    columns = {"method": "Method", "classes": "Classes"}
    for level, text in factor.names.items():
        columns |= {level: text, f"{level}_paper": "Paper"}
    columns |= {f"{level}_canonical": f"{text}, canonical, source-free" for level, text in factor.names.items()}
    reading = "Native scale, worst-case, unless said otherwise; ours and the paper's over the same classes."
    return simple_table(label, title, columns, rows, (reading, note) if rows else MISSING)


def _cells(some: Levels, spread: Levels | None, classes: Mapping[str, Sequence[str]]) -> dict[tuple[str, str], Text]:
    means, over_seeds = level_averages(some, classes), level_averages(spread or {}, classes)
    return {
        (level, method): f"{score(value)}{_spread(over_seeds.get(level, {}).get(method))}"
        for level, values in means.items()
        for method, value in values.items()
    }


def _spread(value: float | None) -> str:
    return "" if value is None else f" ± {score(value)}"


def _forget_note(classes: Mapping[str, Sequence[str]]) -> str:
    counts = {method: len(some) for method, some in classes.items()}
    names = sorted({forget for some in classes.values() for forget in some})
    if len(names) == 1:
        return f"Forget class {names[0]}."
    return f"Mean over forget classes: {', '.join(f'{method_name(m)} {n}' for m, n in counts.items())}."
