"""The figures of a group, from its rows."""

from __future__ import annotations

from typing import Any

import polars as pl

from reproduction.ablations import SIZES
from reproduction.rows import BASE, METHOD_LIST, PUBLISHED, VERDICT, Group, Side
from sfra.attack.scale import KAPPA
from sfra.bench.tables.names import backbone_name, dataset_name
from sfra.report.figures import (
    Chart,
    comparison_figure,
    heatmap_figure,
    sensitivity_figure,
    sweep_figure,
    with_main,
)


def group_figures(group: Group, paper: Side) -> dict[str, Chart]:
    """Draw what there are rows for: RS beside the paper, of every model, over κ, over M and N."""
    place, names = f"{dataset_name(group.dataset)}, {backbone_name(group.backbone)}", group.class_names()
    identity = {"dataset": pl.lit(group.dataset), "backbone": pl.lit(group.backbone)}
    drawn, theirs = {}, paper.rs[PUBLISHED]
    if theirs:
        pairs = [
            {"method": method, "class": forget, "ours": value, "paper": theirs.get(method, {}).get(forget)}
            for method, some in group.rs(PUBLISHED).items()
            for forget, value in some.items()
            if method in METHOD_LIST
        ]
        drawn["comparison"] = comparison_figure(pairs, subtitle=f"{place}. Scale native, rule worst-case.")
    main = group.rows("audits").filter(audit="main").with_columns(**identity).to_dicts()
    drawn["heatmap"] = heatmap_figure(main, "rs", scale=VERDICT[0], rule=VERDICT[1], names=names)
    for swept in (group.swept(), group.swept(ending="-scales")):
        if swept["kappa"].n_unique() > 1:
            rows, shown = swept.with_columns(**identity).to_dicts(), None if group.name == BASE else names
            told = f"{place}. Rule source-free."
            drawn["sweep"] = sweep_figure(rows, canonical=KAPPA, subtitle=told, names=shown)
    sized = _sizes(group, identity)
    if sized:
        drawn["sensitivity"] = sensitivity_figure(sized, scale=VERDICT[0], rule=VERDICT[1])
    return drawn


def _sizes(group: Group, identity: dict[str, pl.Expr]) -> list[dict[str, Any]]:
    """List the audits that vary M or N, with the main ones of the same models."""
    main = group.rows("audits").filter(audit="main")
    varied = group.rows("audits", "-ablations").filter(pl.col("audit").is_in(list(SIZES)))
    level = pl.col("varied").str.split("=").list.get(1, null_on_oob=True).cast(pl.Int64, strict=False)
    sizes = {
        size.lower(): pl.when(pl.col("audit") == size).then(level).otherwise(int(factor.main))
        for size, factor in SIZES.items()
    }
    rows = pl.concat([main, varied]).with_columns(**sizes, **identity).to_dicts()
    return [dict(row) for row in with_main(rows)] if len(varied) else []
