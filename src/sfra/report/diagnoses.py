"""From the diagnostics of a benchmark to figures: α, exact against approximate change, and maps, method by method."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from sfra.bench.contents import BAR, PAIR, POINT, Origin, origin_of
from sfra.bench.engine.store import Store
from sfra.bench.rows import Rows
from sfra.bench.tables.names import forget_name, forget_of, method_name
from sfra.bench.tasks.diagnosing import DIAGNOSTICS, GEOMETRY
from sfra.report.classes import names_of, set_name
from sfra.report.figures_geometry import embedding_figure
from sfra.report.figures_margin import alpha_figure, alpha_rows, margin_figure, margin_rows
from sfra.report.figures_rows import in_order, where

Row = Mapping[str, Any]

HELD = (
    *("dataset", "backbone", "seed", "method", "forget", "scale", "rule", "variant"),
    *("proposal", "score", "assignment", "epochs"),
)
"""What audits that differ in M or N alone have in common, besides the other of the two."""

MISSING = "there is nothing to draw: no model of this benchmark was diagnosed"
UNMAPPED = "there is nothing to draw: no model of this benchmark has a map"


def read_diagnoses(rows: Rows, store: Store, *, scale: str = "canonical") -> list[dict[str, Any]]:
    """Read what was found of the margin at one scale: a row for each diagnosed model and forget class."""
    names = names_of(rows.originals)
    found = []
    for key, row in {row["cell"]: row for row in rows.diagnostics}.items():
        with origin_of(store, key).reading():
            margins = [one["margin"] for one in _read(store, key, DIAGNOSTICS) if one["scale"] == scale]
            _check_margins(margins, origin_of(store, key))
            found += [_identity(row, names) | {"scale": scale, "margin": each} for part in margins for each in part]
    return found


def read_maps(rows: Rows, store: Store) -> list[dict[str, Any]]:
    """Read the points of every map, with the names of their classes."""
    names = names_of(rows.originals)
    found = []
    for row in rows.maps:
        known, origin = names.get(row["dataset"]) or (), origin_of(store, row["cell"])
        with origin.reading():
            points = _read(store, row["cell"], GEOMETRY)["points"]
            for point in points:
                origin.check(point, POINT)
        named = [
            point | {"name": known[point["label"]] if point["label"] < len(known) else str(point["label"])}
            for point in points
        ]
        found.append(_identity(row, names) | {"scale": row["scale"], "points": named})
    return found


def diagnosis_figures(
    diagnoses: Sequence[Row], maps: Sequence[Row]
) -> tuple[dict[str, Callable[..., Any]], dict[str, str]]:
    """Prepare the figures of one data set and backbone: functions that take a ``style``; and why others are not there.

    Args:
        diagnoses: Rows of :func:`read_diagnoses`. α is drawn over all single forget classes of a method; exact against
            approximate change for the first of them, since a correlation over several would be one between classes.
        maps: Rows of :func:`read_maps`.
    """
    drawn: dict[str, Callable[..., Any]] = {}
    for method in in_order(row["method"] for row in diagnoses):
        mine = _single([row for row in diagnoses if row["method"] == method])
        drawn[f"alpha-{method}"] = partial(alpha_figure, _pooled(mine), subtitle=_subtitle(mine))
        drawn[f"margin-{method}"] = partial(margin_figure, margin_rows(mine[0]["margin"]), subtitle=_subtitle(mine[:1]))
    several = Counter(method for method, _ in {(row["method"], forget_name(row)) for row in maps})
    for row in maps:
        which = f"-{forget_name(row)}" if several[row["method"]] > 1 else ""
        name = f"map-{row['method']}{which}" + (f"-seed-{row['seed']}" if row["seed"] else "")
        drawn[name] = partial(embedding_figure, row["points"], forget=forget_of(row), subtitle=_subtitle([row]))
    left_out = {} if diagnoses else {"alpha": MISSING, "margin": MISSING}
    return drawn, left_out | ({} if maps else {"map": UNMAPPED})


def with_main(audits: Sequence[Row]) -> list[Row]:
    """Count the main audit of a model among its ablations of M and N, where these leave its own size out."""
    added: list[Row] = []
    for name, size in (("M", "m"), ("N", "n")):
        held = [*HELD, "n" if size == "m" else "m"]
        sizes: dict[tuple[Any, ...], set[Any]] = {}
        for row in audits:
            if row.get("audit") == name:
                sizes.setdefault(tuple(row.get(one) for one in held), set()).add(row[size])
        for row in audits:
            known = sizes.get(tuple(row.get(one) for one in held), ())
            if row.get("audit", "main") == "main" and known and row[size] not in known:
                added.append({**row, "audit": name})
    return [*audits, *added]


def file_name(name: str) -> str:
    """Write the name of a figure so that it can be a file: a method of one's own has a colon in its name.

    >>> file_name("alpha-my_package.method:Mine")
    'alpha-my_package.method-Mine'
    """
    return re.sub(r"[^A-Za-z0-9._+-]+", "-", name)


def _check_margins(margins: Sequence[Sequence[Mapping[str, Any]]], origin: Origin) -> None:
    for margin in (one for part in margins for one in part):
        for pair in margin_rows(margin):
            origin.check(pair, PAIR)
        bars = alpha_rows(margin)
        for bar in bars:
            origin.check(bar, BAR)
        if not any(bar["count"] for bar in bars):
            raise origin.refused("no value of α")


def _read(store: Store, key: str, name: str) -> Any:
    return json.loads((store.folder(key) / name).read_text(encoding="utf-8"))


def _identity(row: Row, names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    kept = ("dataset", "backbone", "seed", "method", "forget", "forget_classes", "variant")
    return {name: row[name] for name in kept} | {"forgotten": set_name(forget_of(row), names.get(row["dataset"]))}


def _single(rows: list[Row]) -> list[Row]:
    """Keep single forget classes, if there are any."""
    return [row for row in rows if len(forget_of(row)) == 1] or rows


def _pooled(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Add up the histograms of α over forget classes, competitor by competitor."""
    counts: Counter[tuple[Any, float, float]] = Counter()
    for row in rows:
        for bar in alpha_rows(row["margin"]):
            counts[bar["competitor"], bar["low"], bar["high"]] += bar["count"]
    return [{"competitor": j, "low": low, "high": high, "count": n} for (j, low, high), n in sorted(counts.items())]


def _subtitle(rows: Sequence[Row]) -> str:
    sets = list(dict.fromkeys(row.get("forgotten") or forget_name(row) for row in rows))
    kind = "forget class" if len(sets) == 1 and "+" not in sets[0] else "forget classes"
    first = rows[0]
    return f"{where(rows)}. {method_name(first['method'])}, {kind} {', '.join(sets)}. Scale {first['scale']}."
