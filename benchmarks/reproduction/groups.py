"""Which protocols belong together: those of one data set and backbone share an archive, rows and a page."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from sfra.bench.plan import Goal, plan
from sfra.bench.protocol import load_protocol

PARTS = ("", "-multi", "-ablations")
"""Endings of protocols whose audits are of the same models, and are shown as one."""


def groups_of(protocols: Sequence[str]) -> dict[str, list[str]]:
    """Group protocols under the one whose name begins theirs.

    >>> groups_of(["a", "a-multi", "b"])
    {'a': ['a', 'a-multi'], 'b': ['b']}
    """
    found: dict[str, list[str]] = {}
    for name in sorted(protocols, key=len):
        first = next((root for root in found if name.startswith(f"{root}-")), name)
        found.setdefault(first, []).append(name)
    return {root: sorted(found[root], key=list(protocols).index) for root in sorted(found)}


def own_goals(protocols: Sequence[str]) -> Iterator[tuple[str, list[Goal]]]:
    """List the goals of each protocol that no earlier one has."""
    seen: set[str] = set()
    for name in protocols:
        goals = [goal for goal in plan(load_protocol(name)) if goal.cell.key not in seen]
        seen |= {goal.cell.key for goal in goals}
        yield name, goals


def models_of(goals: Sequence[Goal]) -> dict[str, dict[str, Any]]:
    """Name the models of some goals by key, in the order of the goals: seed, method and forget set of each."""
    found: dict[str, dict[str, Any]] = {}
    for goal in goals:
        for need in (goal.cell, *goal.cell.needs.values()):
            if need.kind == "features" and (goal.what == "accuracy" or "test" in goal.cell.needs):
                names = {"seed": goal.identity["seed"], "method": goal.identity["method"]}
                found.setdefault(need.needs["model"].key, {**names, "forget": goal.identity.get("forget", "")})
    return found


def shown_together(group: str, protocols: Sequence[str]) -> list[list[str]]:
    """Part the protocols of a group: those of the same models go together, every other one stands alone.

    >>> shown_together("a", ["a", "a-multi", "a-rates"])
    [['a', 'a-multi'], ['a-rates']]
    """
    same = [name for name in protocols if name in [f"{group}{ending}" for ending in PARTS]]
    return [part for part in (same, *([name] for name in protocols if name not in same)) if part]
