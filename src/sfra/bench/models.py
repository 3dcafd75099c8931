"""The cells of models: originals, references, unlearned and masked ones, and what they make of each split."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from typing import TYPE_CHECKING

from sfra.bench.engine.cell import Cell
from sfra.bench.protocol import CONTROLS, Protocol
from sfra.core.errors import InputError

if TYPE_CHECKING:
    from sfra.models.recipes import Recipe

Forget = tuple[int, ...]


def forget_name(forget: Sequence[int]) -> str:
    """Name a forget set.

    >>> forget_name((6, 1))
    '1+6'
    """
    return "+".join(map(str, sorted(forget)))


class Models:
    """The models of a protocol for one training seed."""

    def __init__(self, protocol: Protocol, seed: int) -> None:
        self.protocol = protocol
        self.seed = seed
        self._made: dict[tuple[object, ...], Cell] = {}

    @cached_property
    def recipe(self) -> Recipe:
        """How models are trained and unlearned."""
        from sfra.models import recipes

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

    def made(self, method: str, forget: Forget) -> Cell:
        """The model that a method or control makes forget some classes."""
        if method in CONTROLS:
            return self._mask(forget)
        return self.trained(forget) if method == "retrained" else self._unlearned(method, forget)

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

    def _unlearned(self, name: str, forget: Forget) -> Cell:
        from sfra import unlearn

        settings = {
            "data": self.protocol.dataset,
            "augment": self.recipe.augment,
            "method": name,
            "settings": asdict(unlearn.make_method(name, self.recipe.methods.get(name, {}))),
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

    def _once(self, make: Callable[[], Cell], *place: object) -> Cell:
        """Make a cell that many others need only once: hashing thousands of them takes seconds."""
        if place not in self._made:
            self._made[place] = make()
        return self._made[place]

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
