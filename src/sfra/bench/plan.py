"""From a protocol to cells: what has to be computed, each thing once, and which cells are the goals."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from sfra.bench.engine.cell import Cell
from sfra.bench.models import Models
from sfra.bench.models import forget_name as forget_name
from sfra.bench.protocol import Protocol
from sfra.bench.selection import check_only
from sfra.bench.selection import parse_only as parse_only
from sfra.bench.shapes import check_controls
from sfra.bench.tasks import diagnosing as diagnosing
from sfra.bench.tasks import measurements as measurements
from sfra.core.errors import InputError

UNBOUND = ("device", "threads")
"""Settings of an audit that do not change its result."""

Forget = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A cell that the tables read, and where in the tables it belongs."""

    what: str
    """``accuracy``, ``audit``, ``pra``, ``linear-probe``, ``diagnostics`` or ``geometry``."""
    cell: Cell
    identity: Mapping[str, Any]
    """Data set, backbone, seed, forget set and method; for an audit also its name and what it varies."""

    def matches(self, only: Mapping[str, str]) -> bool:
        """Say whether the goal is among those asked for, such as ``{"method": "delete", "forget": "7"}``."""
        return all(str(self.identity.get(name, self.what if name == "what" else None)) == only[name] for name in only)


def plan(protocol: Protocol, only: Mapping[str, str] | None = None) -> list[Goal]:
    """List the goals of a protocol, in the order of the tables; ``only`` keeps those that match."""
    from sfra.models.backbones import find

    find(protocol.backbone)
    check_controls(protocol.name, protocol.pra, protocol.linear_probe)
    goals = [goal for seed in protocol.seeds for goal in _Plan(protocol, seed).goals()]
    check_only(only or {}, goals)
    return [goal for goal in goals if goal.matches(only or {})]


class _Plan:
    """The cells of one training seed."""

    def __init__(self, protocol: Protocol, seed: int) -> None:
        self.protocol = protocol
        self.seed = seed
        self.models = Models(protocol, seed)

    def goals(self) -> Iterator[Goal]:
        original = self.models.features(self.models.trained(()), "test")
        yield Goal(what="accuracy", cell=original, identity=self.identity(method="original"))
        for method in self.protocol.methods + self.protocol.controls:
            for forget in self.protocol.forget:
                yield from self._goals_of(method, forget)

    def _goals_of(self, method: str, forget: Forget) -> Iterator[Goal]:
        identity = self.identity(method=method, forget=forget_name(forget))
        model = self.models.made(method, forget)
        yield self._audit(model, forget, identity | {"audit": "main"}, {})
        for ablation in self.protocol.ablations:
            if ablation.covers(method, forget):
                for varied in ablation.variants():
                    labelled = identity | {"audit": ablation.name, "varied": varied}
                    yield self._audit(model, forget, labelled, {**ablation.audit, **varied})
        yield from self._controls(model, forget, identity)
        yield from self._diagnoses(model, forget, identity)

    def _controls(self, model: Cell, forget: Forget, identity: Mapping[str, Any]) -> Iterator[Goal]:
        needs = {split: self.models.features(model, split) for split in ("train", "test")}
        if self.protocol.pra is not None:
            given = {"variants": ["cosine", "l2"], "k": 5, "supports": 5, **self.protocol.pra}
            cell = Cell(kind="pra", settings={"forget": forget, **given}, needs=needs, label=_label("pra", identity))
            yield Goal(what="pra", cell=cell, identity=identity)
        if self.protocol.linear_probe is not None:
            settings = {"forget": forget, "seed": 0, **self.protocol.linear_probe}
            cell = Cell(kind="linear-probe", settings=settings, needs=needs, label=_label("linear-probe", identity))
            yield Goal(what="linear-probe", cell=cell, identity=identity)

    def _diagnoses(self, model: Cell, forget: Forget, identity: Mapping[str, Any]) -> Iterator[Goal]:
        """Explain the main audit: only what decides its probes is in the key, since nothing is relearned."""
        asked, of = self.protocol.diagnostics, (identity["method"], forget)
        if asked is None or not (asked.covers(*of) or asked.maps(*of, self.protocol.forget)):
            return
        whole = self._audit_settings(forget, {})
        settings = whole | {"config": {name: whole["config"][name] for name in diagnosing.OF_PROBES}}
        needs = {"test": self.models.features(model, "test")}
        for kind, wanted in (("diagnostics", asked.covers(*of)), ("geometry", asked.maps(*of, self.protocol.forget))):
            if wanted:
                cell = Cell(kind=kind, settings=settings, needs=needs, label=_label(kind, identity))
                yield Goal(what=kind, cell=cell, identity=identity)

    def _audit(self, model: Cell, forget: Forget, identity: Mapping[str, Any], changes: Mapping[str, Any]) -> Goal:
        settings = self._audit_settings(forget, changes)
        needs = self._measured(model)
        reference = self.models.trained(forget)
        if reference != model:
            needs["reference"] = Cell(
                kind="audit",
                settings=settings,
                needs=self._measured(reference),
                label=_label("audit", {**identity, "method": "retrained"}),
            )
        cell = Cell(kind="audit", settings=settings, needs=needs, label=_label("audit", identity))
        return Goal(what="audit", cell=cell, identity=identity)

    def _audit_settings(self, forget: Forget, changes: Mapping[str, Any]) -> dict[str, Any]:
        from sfra.auditing.config import AuditConfig

        given = {**self.protocol.audit, **changes}
        missing = bool(given.pop("missing_row", False))
        try:
            config = AuditConfig(**given).to_dict()
        except TypeError as problem:
            raise InputError(f"the protocol {self.protocol.name}: an audit cannot be set so", got=problem) from None
        kept = {name: value for name, value in config.items() if name not in UNBOUND}
        return {"forget": forget, "missing_row": missing, "config": kept}

    def _measured(self, model: Cell) -> dict[str, Cell]:
        return {split: self.models.features(model, split) for split in ("test", "validation")}

    def identity(self, **more: Any) -> dict[str, Any]:
        """Say where in the tables something belongs."""
        return {"dataset": self.protocol.dataset, "backbone": self.protocol.backbone, "seed": self.seed, **more}


def _label(kind: str, identity: Mapping[str, Any]) -> str:
    varied = " ".join(f"{name}={value}" for name, value in identity.get("varied", {}).items())
    return f"{kind} of {identity['method']} {identity['forget']}" + (f" [{varied}]" if varied else "")
