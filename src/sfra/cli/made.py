"""What the commands that make models share: the recipe, the place of the result, and the summary."""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfra.cli.output import check_folder, dump, print_json
from sfra.cli.progress import duration
from sfra.errors import InputError

if TYPE_CHECKING:
    from sfra.make import Made
    from sfra.recipes import Recipe


def check_place(out: Path) -> None:
    """Refuse, before the work, a place that no model directory can be written to."""
    from sfra.backbones.checkpoint import is_ours
    from sfra.backbones.directory import refuse_foreign

    check_folder(out)
    refuse_foreign(out, ours=is_ours)


def find_recipe(given: str | None, data: str, backbone: str) -> Recipe | None:
    """Load the recipe that was asked for, or else the one of the data and the backbone."""
    from sfra import recipes

    return recipes.load(given) if given is not None else recipes.find(data, backbone)


def adapted(recipe: Recipe | None, data: str, backbone: str, training: Mapping[str, Any]) -> Recipe:
    """Put settings of the training into a recipe; without one they must suffice."""
    from sfra.recipes import Recipe as Empty
    from sfra.recipes.check import check_group
    from sfra.train import Training

    given = {name: value for name, value in training.items() if value is not None}
    if recipe is None and not {"epochs", "learning_rate"} <= given.keys():
        raise InputError(
            f"there is no recipe for {backbone} on {data}",
            expected="a recipe, or how long and how fast to train",
            do="pass --recipe, or --epochs and --learning-rate",
        )
    recipe = recipe or Empty(
        name="",
        dataset=data,
        backbone=backbone,
        pretrained=None,
        training={},
        preprocess={},
        augment=None,
        methods={},
        sources={},
    )
    return replace(recipe, training=check_group("training", {**recipe.training, **given}, Training))


def class_indices(given: Sequence[str], names: Sequence[str] | None) -> tuple[int, ...]:
    """Turn names and indices of classes into indices; ``3,cat`` is two of them."""
    from sfra.cli.audit import split_classes
    from sfra.naming import forget_classes

    return forget_classes(split_classes([*given]), names)


def deliver(made: Made, out: Path, *, json: bool, quiet: bool, following: Sequence[str]) -> None:
    """Write the model directory, then print the facts as JSON, or a summary with what to do next."""
    try:
        made.save(out)
    except OSError as problem:
        raise InputError("the model could not be written", got=f"{out}: {problem}") from None
    if json:
        print_json(dump({"schema": f"sfra.{made.facts['kind']}/1", "out": str(out), **made.facts}))
    elif not quiet:
        typer.echo("\n".join([*summary(made, out), "", "Next:", *(f"  {line}" for line in following)]))


def summary(made: Made, out: Path) -> list[str]:
    """Say in a few lines what was made, how good it is on the validation split, and where it is."""
    facts, quality = made.facts, made.facts["validation"]
    what = {"original": "Trained", "reference": "Trained without the class", "unlearned": "Unlearned"}[facts["kind"]]
    how = f" by {facts['method']}, epoch {facts['epoch']} kept" if "method" in facts else ""
    lines = [f"{what}{how}: {made.checkpoint.backbone} on {facts['data']}, {duration(facts['seconds'])}."]
    if quality is not None:
        shown = [f"{name} {100 * value:.1f} %" for name, value in quality.items() if name != "aus"]
        score = f"; AUS {quality['aus']:.3f}" if "aus" in quality else ""
        lines.append(f"On the validation split: {', '.join(shown)}{score}.")
    return [*lines, *facts["notes"], f"Written to {out}."]


def command(*words: object) -> str:
    """Return a command line as it can be typed."""
    return shlex.join(["sfra", *map(str, words)])
