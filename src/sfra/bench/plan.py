"""From a protocol to cells: what has to be computed, each thing once, and which cells are the goals."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from functools import cache, cached_property
from typing import TYPE_CHECKING, Any

import msgspec

from sfra.bench.engine.cell import Cell
from sfra.bench.protocol import CONTROLS, Forget, Pra, Protocol, read_as
from sfra.bench.tasks.diagnosing import OF_PROBES  # registers the tasks
from sfra.core.errors import InputError, meant

if TYPE_CHECKING:
    from sfra.models.recipes import Recipe
    from sfra.unlearn import UnlearningMethod

UNBOUND = ("device", "threads")
"""Settings of an audit that do not change its result."""


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A cell that the tables read, and where in the tables it belongs."""

    what: str
    """``accuracy``, ``audit``, ``pra``, ``linear-probe``, ``diagnostics`` or ``geometry``."""
    cell: Cell
    identity: Mapping[str, Any]
    """Data set, backbone, seed, forget set and method; for an audit also its name and what it varies."""

    @property
    def model(self) -> Cell:
        """The model that it is about."""
        return (self.cell if self.what == "accuracy" else self.cell.needs["test"]).needs["model"]

    def matches(self, only: Mapping[str, str]) -> bool:
        """Say whether the goal is among those asked for, such as ``{"method": "delete", "forget": "7"}``."""
        return all(str(self.identity.get(name, self.what if name == "what" else None)) == only[name] for name in only)


def plan(protocol: Protocol, only: Mapping[str, str] | None = None) -> list[Goal]:
    """List the goals of a protocol, in the order of the tables; ``only`` keeps those that match."""
    from sfra.models.backbones import find

    find(protocol.backbone)
    goals = [goal for seed in protocol.seeds for goal in _Plan(protocol, seed).goals()]
    chosen = [goal for goal in goals if goal.matches(only or {})]
    for name, value in (only or {}).items():
        values = {str(goal.identity.get(name, goal.what if name == "what" else "")) for goal in goals} - {""}
        if value not in values:
            named = {"what", *(other for goal in goals for other in goal.identity)} - {"varied"}
            expected = f"{name} of {', '.join(sorted(values))}" if values else f"a name of {', '.join(sorted(named))}"
            do = meant(value, values) if values else meant(name, named)
            raise InputError(
                f"nothing in the protocol has {name}={value}", expected=expected, got=f"{name}={value}", do=do
            )
    return chosen


def parse_only(text: str | None) -> dict[str, str]:
    """Read ``method=delete,forget=7``.

    >>> parse_only("method=delete, forget=1+6")
    {'method': 'delete', 'forget': '1+6'}
    """
    pairs = [part.partition("=") for part in (text or "").split(",") if part.strip()]
    if not all(name.strip() and sign and value.strip() for name, sign, value in pairs):
        raise InputError("the selection cannot be read", expected="method=delete,forget=7", got=text)
    return {name.strip(): value.strip() for name, _, value in pairs}


class _Plan:
    """The cells of one training seed."""

    def __init__(self, protocol: Protocol, seed: int) -> None:
        self.protocol = protocol
        self.seed = seed
        self.trained = cache(self._trained)  # hashing a cell that thousands need takes seconds
        self.features = cache(self._features)

    def goals(self) -> Iterator[Goal]:
        original = self.features(self.trained(()), "test")
        yield Goal(what="accuracy", cell=original, identity=self._identity(method="original"))
        for method in self.protocol.methods + self.protocol.controls:
            for forget in self.protocol.forget:
                yield from self._goals_of(method, forget)

    def _goals_of(self, method: str, forget: Forget) -> Iterator[Goal]:
        identity = self._identity(method=method, forget=_name_of(forget))
        model = self._made(method, forget)
        yield self._audit(model, forget, identity | {"audit": "main"}, {})
        for ablation in self.protocol.ablations:
            if ablation.covers(method, forget):
                for varied in ablation.variants():
                    labelled = identity | {"audit": ablation.name, "varied": varied}
                    yield self._audit(model, forget, labelled, {**ablation.audit, **varied})
        for what, settings in self._controls.items():
            needs = self._splits(model, "train", "test")
            yield _goal(what, {"forget": forget, **settings}, needs, identity)
        yield from self._diagnoses(model, forget, identity)

    @cached_property
    def _controls(self) -> dict[str, dict[str, Any]]:
        """Settings of the two controls that see real samples, as far as they are wanted."""
        from sfra.controls import linear_probe

        name, wanted = self.protocol.name, dict[str, dict[str, Any]]()
        if self.protocol.pra is not None:
            wanted["pra"] = msgspec.structs.asdict(read_as(Pra, self.protocol.pra, f"[pra] of {name} cannot be used"))
        if self.protocol.linear_probe is not None:
            parameters = inspect.signature(linear_probe).parameters.values()
            known = {one.name for one in parameters if one.kind is one.KEYWORD_ONLY} - {"classes", "device"}
            unknown = sorted(set(self.protocol.linear_probe) - known)
            if unknown:
                raise InputError(f"[linear_probe] of {name} cannot be used", expected=sorted(known), got=unknown)
            wanted["linear-probe"] = {"seed": 0, **self.protocol.linear_probe}
        return wanted

    def _diagnoses(self, model: Cell, forget: Forget, identity: Mapping[str, Any]) -> Iterator[Goal]:
        """Explain the main audit: only what decides its probes is in the key, since nothing is relearned."""
        asked, method = self.protocol.diagnostics, identity["method"]
        if asked is None:
            return
        whole = self._audit_settings(forget, {})
        settings = whole | {"config": {name: whole["config"][name] for name in OF_PROBES}}
        wanted = {
            "diagnostics": asked.covers(method, forget),
            "geometry": asked.maps(method, forget, self.protocol.forget),
        }
        for what in (what for what, asked_for in wanted.items() if asked_for):
            yield _goal(what, settings, self._splits(model, "test"), identity)

    def _audit(self, model: Cell, forget: Forget, identity: Mapping[str, Any], changes: Mapping[str, Any]) -> Goal:
        settings = self._audit_settings(forget, changes)
        needs = self._splits(model, "test", "validation")
        reference = self.trained(forget)
        if self.protocol.references and reference != model:
            measured = self._splits(reference, "test", "validation")
            needs["reference"] = _goal("audit", settings, measured, {**identity, "method": "retrained"}).cell
        return _goal("audit", settings, needs, identity)

    def _audit_settings(self, forget: Forget, changes: Mapping[str, Any]) -> dict[str, Any]:
        from sfra.auditing.config import LATER, AuditConfig

        given = {**LATER, **self.protocol.audit, **changes}
        missing = bool(given.pop("missing_row", False))
        try:
            config = AuditConfig(**given).to_dict()
        except TypeError as problem:
            raise InputError(
                f"the protocol {self.protocol.name}: these audit settings cannot be used", got=problem
            ) from None
        if given.get("scale") == "calibrated":
            raise InputError(
                f"the protocol {self.protocol.name}: a benchmark reads all models at one scale",
                expected="a scale that is the same for each, such as canonical, sweep or a number",
                got="calibrated",
            )
        left_out = {name for name, value in LATER.items() if config[name] == value}.union(UNBOUND)
        kept = {name: value for name, value in config.items() if name not in left_out}
        return {"forget": forget, "missing_row": missing, "config": kept}

    def _splits(self, model: Cell, *splits: str) -> dict[str, Cell]:
        return {split: self.features(model, split) for split in splits}

    def _features(self, model: Cell, split: str) -> Cell:
        """What the model makes of a split."""
        settings = {"data": self.protocol.dataset, "split": split, "type": self.protocol.feature_type}
        label = f"{split} features of {model.label}"
        return Cell(kind="features", settings=settings, needs={"model": model}, label=label)

    def _trained(self, without: Forget) -> Cell:
        """An original, or a reference that never saw some classes."""
        recipe = self.recipe
        settings = {
            "data": self.protocol.dataset,
            "backbone": self.protocol.backbone,
            "pretrained": recipe.pretrained,
            "training": recipe.training,
            "preprocess": recipe.preprocess,
            "augment": recipe.augment,
            "seed": self.seed,
            "without": without,
        }
        name = f"retrained {_name_of(without)}" if without else "original"
        return Cell(kind="train", settings=settings, label=self._name(name))

    def _made(self, method: str, forget: Forget) -> Cell:
        """The model that a method or control makes forget some classes."""
        from sfra import unlearn

        if method == "retrained":
            return self.trained(forget)
        settings: dict[str, Any] = {"forget": forget}
        if method not in CONTROLS:
            settings |= {
                "data": self.protocol.dataset,
                "augment": self.recipe.augment,
                "method": method,
                "settings": _settings(unlearn.make_method(method, self.recipe.methods.get(method, {}))),
                "seed": self.seed,
            }
            if (source := unlearn.source_of(method)) is not None:
                settings["source"] = source
        return Cell(
            kind="mask" if method in CONTROLS else "unlearn",
            settings=settings,
            needs={"original": self.trained(())},
            label=self._name(f"{method} {_name_of(forget)}"),
        )

    @cached_property
    def recipe(self) -> Recipe:
        """How models are trained and unlearned; data of the user's own may borrow the recipe of other data."""
        from sfra.data import datasets
        from sfra.models import recipes

        protocol = self.protocol
        found = recipes.load(protocol.recipe) if protocol.recipe else recipes.find(protocol.dataset, protocol.backbone)
        if found is None:
            raise InputError(
                f"there is no recipe for {protocol.backbone} on {protocol.dataset}",
                expected=f"one of {', '.join(recipes.names())}, or a file of your own",
                do="name it in the protocol: recipe = …",
            )
        own = protocol.dataset if protocol.dataset in datasets() else found.dataset
        if (found.backbone, found.dataset) != (protocol.backbone, own):
            raise InputError(
                f"the protocol {protocol.name}: the recipe is one for something else",
                expected=f"a recipe for {protocol.backbone} on {own}",
                got=f"{found.name}, for {found.backbone} on {found.dataset}",
                do="name the right one in the protocol (recipe = …), or copy it to a file of your own",
            )
        return replace(found, pretrained=protocol.pretrained or found.pretrained)

    def _identity(self, **more: Any) -> dict[str, Any]:
        return {"dataset": self.protocol.dataset, "backbone": self.protocol.backbone, "seed": self.seed, **more}

    def _name(self, name: str) -> str:
        return f"{name} ({self.protocol.dataset}, {self.protocol.backbone}, seed {self.seed})"


def _settings(method: UnlearningMethod) -> dict[str, Any]:
    """List a method's settings; one that was added later is left out at its default, so that earlier keys stay."""
    later = {one.name: one.default for one in fields(method) if one.metadata.get("later")}
    return {name: value for name, value in asdict(method).items() if name not in later or value != later[name]}


def _name_of(forget: Sequence[int]) -> str:
    return "+".join(map(str, sorted(forget)))


def _goal(what: str, settings: dict[str, Any], needs: dict[str, Cell], identity: Mapping[str, Any]) -> Goal:
    varied = " ".join(f"{name}={value}" for name, value in identity.get("varied", {}).items())
    label = f"{what} of {identity['method']} {identity['forget']}" + (f" [{varied}]" if varied else "")
    return Goal(what=what, cell=Cell(kind=what, settings=settings, needs=needs, label=label), identity=identity)
