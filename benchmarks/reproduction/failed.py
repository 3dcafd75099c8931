"""What cannot be computed: goals that failed, or that wait for a model which did, and why."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from reproduction.simple import joined
from reproduction.stored import Row, count_goals
from sfra.bench.engine.cell import reachable
from sfra.bench.engine.store import Store
from sfra.bench.plan import Goal
from sfra.bench.tables.names import method_name

OF_ITSELF = ("raised", "not-finite", "not-json")
"""Reasons that lie in the computation; memory, time limits and crashes are the machine's."""


def failed_rows(goals: Sequence[Goal], store: Store) -> Iterator[Row]:
    """List the goals that cannot be computed: the kind of the cell that failed, and its reason."""
    failures = {key: one for key, one in store.failures().items() if one.reason in OF_ITSELF}
    for goal in goals:
        cause = next((failures[key] for key in reachable([goal.cell]) if key in failures), None)
        if cause is not None and not store.is_done(goal.cell):
            identity = {name: goal.identity.get(name) for name in ("seed", "method", "forget", "audit", "varied")}
            yield {**identity, "what": goal.what, "failed": cause.kind, "reason": reason_of(cause.message)}


def reason_of(message: str) -> str:
    r"""Shorten the message of an error to what went wrong and what was found.

    >>> reason_of("the training diverged\n  expected: a finite loss\n  got:      nan in epoch 3")
    'the training diverged: nan in epoch 3'
    """
    what, *more = message.strip().splitlines()
    got = [line.strip().removeprefix("got:").strip() for line in more if line.strip().startswith("got:")]
    return ": ".join([what, *got])


def told_failures(rows: Sequence[Row]) -> str:
    """Say what cannot be computed, protocol by protocol and reason by reason; nothing where there is no such row."""
    found: dict[tuple[str, str], list[Row]] = {}
    for row in rows:
        found.setdefault((str(row["protocol"]), str(row["reason"])), []).append(row)
    told = [
        f"{_counted(some)} of {_whom(some)} in `{protocol}` ({reason})" for (protocol, reason), some in found.items()
    ]
    return f"Cannot be computed with these settings: {'; '.join(told)}." if told else ""


def _counted(rows: Sequence[Row]) -> str:
    return joined([count_goals(what, n) for what, n in Counter(str(row["what"]) for row in rows).items()])


def _whom(rows: Sequence[Row]) -> str:
    """Name the models, and the settings that were varied."""
    models: dict[str, dict[str, None]] = {}
    for row in rows:
        models.setdefault(method_name(str(row["method"])), {})[str(row["forget"])] = None
    whom = joined([f"{name} ({_classes(list(forget))})" for name, forget in models.items()])
    varied = list(dict.fromkeys(_varied(row["varied"]) for row in rows if row["varied"]))
    return f"{whom} with {joined(varied)}" if varied else whom


def _classes(forget: Sequence[str]) -> str:
    return f"class{'' if len(forget) == 1 and forget[0].isdigit() else 'es'} {', '.join(forget)}"


def _varied(value: Any) -> str:
    return value if isinstance(value, str) else " ".join(f"{name}={value[name]}" for name in sorted(value))
