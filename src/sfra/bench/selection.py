"""Which goals of a protocol are asked for: ``method=delete,forget=7``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from sfra.core.errors import InputError

if TYPE_CHECKING:
    from sfra.bench.plan import Goal


def parse_only(text: str | None) -> dict[str, str]:
    """Read ``method=delete,forget=7``.

    >>> parse_only("method=delete, forget=1+6")
    {'method': 'delete', 'forget': '1+6'}
    """
    pairs = [part.partition("=") for part in (text or "").split(",") if part.strip()]
    if not all(name.strip() and sign and value.strip() for name, sign, value in pairs):
        raise InputError("the selection cannot be read", expected="method=delete,forget=7", got=text)
    return {name.strip(): value.strip() for name, _, value in pairs}


def check_only(only: Mapping[str, str], goals: Sequence[Goal]) -> None:
    """Refuse a selection by a name or value that no goal has."""
    for name, value in only.items():
        values = (
            {goal.what for goal in goals}
            if name == "what"
            else {str(g.identity[name]) for g in goals if name in g.identity}
        )
        if value not in values:
            named = {"what", *(other for goal in goals for other in goal.identity)} - {"varied"}
            expected = f"{name} of {', '.join(sorted(values))}" if values else f"a name of {', '.join(sorted(named))}"
            raise InputError(f"nothing in the protocol has {name}={value}", expected=expected, got=value)
