"""From a protocol to cells: what has to be computed, each thing once, and which cells are the goals."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from sfra.bench import measurements as measurements
from sfra.bench import works as works
from sfra.bench.cell import Cell
from sfra.bench.protocol import Ablation, Protocol
from sfra.bench.shapes import check_controls
from sfra.errors import InputError

if TYPE_CHECKING:
    from sfra.recipes import Recipe

UNBOUND = ("device", "threads")
"""Settings of an audit that do not change its result."""

Forget = tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class Goal:
    """A cell that the tables read, and where in the tables it belongs."""

    what: str
    """``accuracy``, ``audit``, ``pra`` or ``linear-probe``."""
    cell: Cell
    identity: Mapping[str, Any]
    """Data set, backbone, seed, forget set and method; for an audit also its name and what it varies."""

    def matches(self, only: Mapping[str, str]) -> bool:
        """Say whether the goal is among those asked for, such as ``{"method": "delete", "forget": "7"}``."""
        return all(str(self.identity.get(name, self.what if name == "what" else None)) == only[name] for name in only)


def plan(protocol: Protocol, only: Mapping[str, str] | None = None) -> list[Goal]:
    """List the goals of a protocol, in the order of the tables; ``only`` keeps those that match."""
    from sfra.backbones.registry import find

    find(protocol.backbone)
    check_controls(protocol.name, protocol.pra, protocol.linear_probe)
    goals = [goal for seed in protocol.seeds for goal in _Plan(protocol, seed).goals()]
    _check_only(only or {}, goals)
    return [goal for goal in goals if goal.matches(only or {})]


def parse_only(text: str | None) -> dict[str, str]:
    """Read ``method=delete,forget=7``.

    >>> parse_only("method=delete, forget=1+6")
    {'method': 'delete', 'forget': '1+6'}
    """
    pairs = [part.partition("=") for part in (text or "").split(",") if part.strip()]
    if not all(name.strip() and sign and value.strip() for name, sign, value in pairs):
        raise InputError("the selection cannot be read", expected="method=delete,forget=7", got=text)
    return {name.strip(): value.strip() for name, _, value in pairs}


def forget_name(forget: Sequence[int]) -> str:
    """Name a forget set.

    >>> forget_name((6, 1))
    '1+6'
    """
    return "+".join(map(str, sorted(forget)))


@dataclass(frozen=True, kw_only=True)
class _Method:
    """A model to audit: how its cell is made."""

    name: str
    make: Callable[[Forget], Cell]


class _Plan:
    """The cells of one training seed."""

    def __init__(self, protocol: Protocol, seed: int) -> None:
        self.protocol = protocol
        self.seed = seed
        self._made: dict[tuple[object, ...], Cell] = {}

    @cached_property
    def recipe(self) -> Recipe:
        from sfra import recipes

        protocol = self.protocol
        found = recipes.load(protocol.recipe) if protocol.recipe else recipes.find(protocol.dataset, protocol.backbone)
        if found is None:
            raise InputError(
                f"there is no recipe for {protocol.backbone} on {protocol.dataset}",
                expected=f"one of {', '.join(recipes.names())}, or a file of your own",
                do="name it in the protocol: recipe = …",
            )
        _check_recipe(found, protocol)
        return replace(found, pretrained=protocol.pretrained or found.pretrained)

    def goals(self) -> Iterator[Goal]:
        yield Goal(
            what="accuracy", cell=self.features(self.trained(()), "test"), identity=self.identity(method="original")
        )
        for method in self.methods:
            for forget in self.protocol.forget:
                yield from self._goals_of(method, forget)

    def _goals_of(self, method: _Method, forget: Forget) -> Iterator[Goal]:
        identity = self.identity(method=method.name, forget=forget_name(forget))
        model = method.make(forget)
        yield self._audit(model, forget, identity | {"audit": "main"}, {})
        for ablation in self.protocol.ablations:
            if _covers(ablation, method.name, forget):
                for varied in ablation.variants():
                    labelled = identity | {"audit": ablation.name, "varied": varied}
                    yield self._audit(model, forget, labelled, {**ablation.audit, **varied})
        yield from self._controls(model, forget, identity)

    def _controls(self, model: Cell, forget: Forget, identity: Mapping[str, Any]) -> Iterator[Goal]:
        needs = {split: self.features(model, split) for split in ("train", "test")}
        if self.protocol.pra is not None:
            given = {"variants": ["cosine", "l2"], "k": 5, "supports": 5, **self.protocol.pra}
            cell = Cell(kind="pra", settings={"forget": forget, **given}, needs=needs, label=_label("pra", identity))
            yield Goal(what="pra", cell=cell, identity=identity)
        if self.protocol.linear_probe is not None:
            settings = {"forget": forget, "seed": 0, **self.protocol.linear_probe}
            cell = Cell(kind="linear-probe", settings=settings, needs=needs, label=_label("linear-probe", identity))
            yield Goal(what="linear-probe", cell=cell, identity=identity)

    def _audit(self, model: Cell, forget: Forget, identity: Mapping[str, Any], changes: Mapping[str, Any]) -> Goal:
        settings = self._audit_settings(forget, changes)
        needs = self._measured(model)
        reference = self.trained(forget)
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
        from sfra.config import AuditConfig

        given = {**self.protocol.audit, **changes}
        missing = bool(given.pop("missing_row", False))
        try:
            config = AuditConfig(**given).to_dict()
        except TypeError as problem:
            raise InputError(f"the protocol {self.protocol.name}: an audit cannot be set so", got=problem) from None
        kept = {name: value for name, value in config.items() if name not in UNBOUND}
        return {"forget": forget, "missing_row": missing, "config": kept}

    def _measured(self, model: Cell) -> dict[str, Cell]:
        return {split: self.features(model, split) for split in ("test", "validation")}

    def _once(self, make: Callable[[], Cell], *place: object) -> Cell:
        """Make a cell that many others need only once: hashing thousands of them takes seconds."""
        if place not in self._made:
            self._made[place] = make()
        return self._made[place]

    def features(self, model: Cell, split: str) -> Cell:
        """What the model makes of a split."""
        return self._once(lambda: self._features(model, split), "features", model, split)

    def trained(self, without: Forget) -> Cell:
        """An original, or a reference that never saw some classes."""
        return self._once(lambda: self._trained(without), "train", without)

    def _features(self, model: Cell, split: str) -> Cell:
        settings = {"data": self.protocol.dataset, "split": split, "type": self.protocol.feature_type}
        return Cell(
            kind="features", settings=settings, needs={"model": model}, label=f"{split} features of {model.label}"
        )

    def _trained(self, without: Forget) -> Cell:
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
        name = f"retrained {forget_name(without)}" if without else "original"
        return Cell(kind="train", settings=settings, label=self._name(name))

    @cached_property
    def methods(self) -> list[_Method]:
        return [
            *(_Method(name=name, make=self._maker(name)) for name in self.protocol.methods),
            *(_Method(name=name, make=self._mask) for name in self.protocol.controls),
        ]

    def _maker(self, name: str) -> Callable[[Forget], Cell]:
        return self.trained if name == "retrained" else lambda forget: self._unlearned(name, forget)

    def _unlearned(self, name: str, forget: Forget) -> Cell:
        from sfra import unlearn

        settings = {
            "data": self.protocol.dataset,
            "augment": self.recipe.augment,
            "method": name,
            "settings": asdict(unlearn.get(name)(**self.recipe.methods.get(name, {}))),
            "forget": forget,
            "seed": self.seed,
        }
        return Cell(
            kind="unlearn",
            settings=settings,
            needs={"original": self.trained(())},
            label=self._name(f"{name} {forget_name(forget)}"),
        )

    def _mask(self, forget: Forget) -> Cell:
        label = self._name(f"masked {forget_name(forget)}")
        return Cell(kind="mask", settings={"forget": forget}, needs={"original": self.trained(())}, label=label)

    def identity(self, **more: Any) -> dict[str, Any]:
        """Say where in the tables something belongs."""
        return {"dataset": self.protocol.dataset, "backbone": self.protocol.backbone, "seed": self.seed, **more}

    def _name(self, name: str) -> str:
        return f"{name} ({self.protocol.dataset}, {self.protocol.backbone}, seed {self.seed})"


def _check_recipe(recipe: Recipe, protocol: Protocol) -> None:
    """Refuse the recipe of another backbone or named data set; data of the user's own may borrow one."""
    from sfra.data import datasets

    own = protocol.dataset if protocol.dataset in datasets() else recipe.dataset
    if (recipe.backbone, recipe.dataset) != (protocol.backbone, own):
        raise InputError(
            f"the protocol {protocol.name}: the recipe is one for something else",
            expected=f"a recipe for {protocol.backbone} on {own}",
            got=f"{recipe.name}, for {recipe.backbone} on {recipe.dataset}",
            do="name the right one in the protocol (recipe = …), or copy it to a file of your own",
        )


def _covers(ablation: Ablation, method: str, forget: Forget) -> bool:
    return (ablation.methods is None or method in ablation.methods) and (
        ablation.forget is None or forget in ablation.forget
    )


def _label(kind: str, identity: Mapping[str, Any]) -> str:
    varied = " ".join(f"{name}={value}" for name, value in identity.get("varied", {}).items())
    return f"{kind} of {identity['method']} {identity['forget']}" + (f" [{varied}]" if varied else "")


def _check_only(only: Mapping[str, str], goals: Sequence[Goal]) -> None:
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
