"""Some models of a group at every scale: where models that never saw the class are quiet, and where the control is not.

They are audits of a protocol of their own, so that nothing else that is said of the group is made of them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from reproduction.stored import Kept, Row, count_alarms

ENDING = "-scales"
"""What the name of the protocol adds to the group's."""

QUIET = 0.05
"""RS up to which a model that never saw the class counts as quiet."""

Curve = Mapping[float, float]
"""A value by κ."""


def sweep_rows(kept: Kept) -> list[Row]:
    """List the readings of the sweep: heads as released, last epoch, at a chosen κ."""
    wanted = (f"{kept.group}{ENDING}", "main", "released", "source-free")
    names = ("protocol", "audit", "variant", "rule")
    return [row for row in kept.audits if tuple(row[name] for name in names) == wanted and row["kappa"] is not None]


@dataclass(frozen=True, kw_only=True)
class Sweep:
    """RS of every model at every scale, and the floors of the retrained ones."""

    rs: Mapping[str, Mapping[str, Curve]]
    """By method, forget class and κ."""
    floors: Mapping[str, Curve]
    """What always answering the forget class would score, by forget class and κ."""
    broken: frozenset[tuple[str, str, float]] = frozenset()
    """Method, forget class and κ of audits that are degenerate."""

    @property
    def kappas(self) -> list[float]:
        """List the scales, in ascending order."""
        return sorted({kappa for some in self.rs.values() for curve in some.values() for kappa in curve})

    @property
    def classes(self) -> list[str]:
        """List the forget classes."""
        return sorted({forget for some in self.rs.values() for forget in some}, key=int)

    def at(self, method: str, kappa: float) -> list[float]:
        """List RS of a method's models at a scale, class by class, as far as they are there."""
        return [curve[kappa] for curve in self.rs.get(method, {}).values() if kappa in curve]

    def mean(self, method: str, kappa: float) -> float | None:
        """Average RS of a method at a scale over the forget classes that are there."""
        found = self.at(method, kappa)
        return fmean(found) if found else None


def read_sweep(kept: Kept) -> Sweep:
    """Arrange the readings of the sweep; several seeds of a model are averaged."""
    rs: dict[str, dict[str, dict[float, list[float]]]] = {}
    floors: dict[str, dict[float, list[float]]] = {}
    for row in sweep_rows(kept):
        rs.setdefault(row["method"], {}).setdefault(row["forget"], {}).setdefault(row["kappa"], []).append(row["rs"])
        if row["method"] == "retrained" and row["floor"] is not None:
            floors.setdefault(row["forget"], {}).setdefault(row["kappa"], []).append(row["floor"])
    return Sweep(
        rs={method: {forget: _means(curve) for forget, curve in some.items()} for method, some in rs.items()},
        floors={forget: _means(curve) for forget, curve in floors.items()},
        broken=frozenset(
            (row["method"], row["forget"], row["kappa"]) for row in sweep_rows(kept) if row["verdict"] == "degenerate"
        ),
    )


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """What the audits of a sweep conclude at one scale."""

    recovered: tuple[str, ...]
    """Forget classes whose control is recovered."""
    above: int
    """Controls whose RS is above their floor."""
    controls: int
    alarms: int
    """Retrained models with another verdict than not-recovered; degenerate ones are among them."""
    references: int
    degenerate: int
    audits: int
    lost: tuple[float, ...]
    """Retain accuracy that each audit lost."""


def outcomes(kept: Kept) -> dict[float, Outcome]:
    """Count the verdicts of the sweep, scale by scale."""
    rows = sweep_rows(kept)
    return {
        kappa: _outcome([row for row in rows if row["kappa"] == kappa])
        for kappa in sorted({row["kappa"] for row in rows})
    }


def _outcome(rows: Sequence[Row]) -> Outcome:
    masked = [row for row in rows if row["method"] == "masked"]
    alarms, references = count_alarms(rows)
    back = sorted((row["forget"] for row in masked if row["verdict"] == "recovered"), key=int)
    return Outcome(
        recovered=tuple(back),
        above=sum(row["floor"] is not None and row["rs"] > row["floor"] for row in masked),
        controls=len(masked),
        alarms=alarms,
        references=references,
        degenerate=sum(row["verdict"] == "degenerate" for row in rows),
        audits=len(rows),
        lost=tuple(row["retain_before"] - row["retain_after"] for row in rows),
    )


def broken_from(found: Mapping[float, Outcome]) -> float | None:
    """Return the scale from which on every audit is degenerate, if there is one."""
    least = None
    for kappa in sorted(found, reverse=True):
        if found[kappa].degenerate < found[kappa].audits:
            break
        least = kappa
    return least


def quiet_scales(sweep: Sweep, limits: Mapping[str, Curve] | float) -> list[float]:
    """List the scales at which every retrained model is at or below a limit, or one of its own.

    >>> quiet_scales(Sweep(rs={"retrained": {"0": {1.0: 0.02, 2.0: 0.4}}}, floors={}), 0.05)
    [1.0]
    """
    found = []
    for kappa in sweep.kappas:
        here = {forget: curve[kappa] for forget, curve in sweep.rs.get("retrained", {}).items() if kappa in curve}
        most = {
            forget: limits.get(forget, {}).get(kappa, -1.0) if isinstance(limits, Mapping) else limits
            for forget in here
        }
        if here and all(rs <= most[forget] for forget, rs in here.items()):
            found.append(kappa)
    return found


def gaps(sweep: Sweep) -> dict[str, dict[float, float]]:
    """Subtract retrained from masked, class by class and scale by scale, where neither audit is degenerate."""
    masked, retrained = (sweep.rs.get(method, {}) for method in ("masked", "retrained"))
    both = [forget for forget in sweep.classes if forget in masked and forget in retrained]
    return {
        forget: {
            kappa: rs - retrained[forget][kappa]
            for kappa, rs in masked[forget].items()
            if kappa in retrained[forget] and not sweep.broken & {(m, forget, kappa) for m in ("masked", "retrained")}
        }
        for forget in both
    }


def mean_gap(some: Sequence[Curve]) -> dict[float, float]:
    """Average gaps over classes, at the scales that all have."""
    shared = set.intersection(*map(set, some)) if some else set()
    return {kappa: fmean(curve[kappa] for curve in some) for kappa in sorted(shared)}


def _means(curve: Mapping[float, Sequence[float]]) -> dict[float, float]:
    return {kappa: fmean(curve[kappa]) for kappa in sorted(curve)}
