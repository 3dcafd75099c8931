"""What a protocol asks for besides its main audits: audits with other settings, and diagnostics."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

Forget = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Ablation:
    """Further audits of models that the protocol makes anyway, with one or more settings varied."""

    name: str
    """Heading under which tables find the audits."""
    vary: Mapping[str, Sequence[Any]]
    """Settings of the audit and their values; every combination is run. ``missing_row`` may be one of them."""
    methods: tuple[str, ...] | None = None
    """Only these; by default all of the protocol."""
    forget: tuple[Forget, ...] | None = None
    """Only these forget sets; by default all of the protocol."""
    audit: Mapping[str, Any] = field(default_factory=dict)
    """Settings that differ from the protocol's in all of these audits."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "forget", None if self.forget is None else in_order(self.forget))

    def variants(self) -> list[dict[str, Any]]:
        """List the combinations of the varied settings.

        >>> Ablation(name="size", vary={"m": [100, 200], "n": [5000]}).variants()
        [{'m': 100, 'n': 5000}, {'m': 200, 'n': 5000}]
        """
        return [dict(zip(self.vary, values, strict=True)) for values in itertools.product(*self.vary.values())]

    def covers(self, method: str, forget: Forget) -> bool:
        """Say whether a model is audited again."""
        return _among(method, self.methods) and _among(forget, self.forget)


@dataclass(frozen=True, kw_only=True)
class Diagnosed:
    """Models whose audits are explained: alignment, margin, confidence and support, and maps of some of them.

    Published methods that the protocol does not have are passed over, so that it can extend another with more of them.
    """

    methods: tuple[str, ...] | None = None
    """Only these methods and controls; by default all of the protocol."""
    forget: tuple[Forget, ...] | None = None
    """Only these forget sets; by default all of the protocol."""
    geometry: tuple[str, ...] = ()
    """Methods and controls that also get a map of samples and probes, for the first of the forget sets."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "forget", None if self.forget is None else in_order(self.forget))

    def covers(self, method: str, forget: Forget) -> bool:
        """Say whether a model is diagnosed."""
        return _among(method, self.methods) and _among(forget, self.forget)

    def maps(self, method: str, forget: Forget, of: Sequence[Forget]) -> bool:
        """Say whether a model gets a map, in a protocol of these forget sets.

        >>> Diagnosed(geometry=("delete",)).maps("delete", (3,), [(3,), (7,)])
        True
        """
        first = next((one for one in self.forget or of if one in of), None)
        return method in self.geometry and forget == first


def in_order(sets: Sequence[Forget]) -> tuple[Forget, ...]:
    """Bring the classes of each set into order: [6, 1] is [1, 6], and the same cells."""
    return tuple(tuple(sorted(one)) for one in sets)


def _among(value: object, chosen: Sequence[object] | None) -> bool:
    return chosen is None or value in chosen
