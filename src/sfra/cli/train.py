"""``sfra train``: make an original, or a reference that never saw some classes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from sfra.auditing.naming import typed
from sfra.cli import options as opt
from sfra.cli.command import when_stopped
from sfra.cli.made import check_place, class_indices, command, deliver, find_recipe, reference_beside
from sfra.cli.options import Count, Text, making, way
from sfra.cli.progress import showing
from sfra.core.errors import InputError

if TYPE_CHECKING:
    from sfra.models.recipes import Recipe


def train(
    data: opt.Images,
    backbone: Annotated[str, making("NAME", "Architecture (sfra list backbones).", default=False)],
    out: opt.Folder,
    without: Annotated[
        list[str] | None,
        making(
            "CLASS", "Leave this class out, to make a reference; several with commas.", default="every class is seen"
        ),
    ] = None,
    recipe: opt.Recipe = None,
    epochs: Annotated[Count, way("N", "Passes over the data.", default="as in the recipe")] = None,
    learning_rate: Annotated[float | None, way("RATE", "Highest learning rate.", default="as in the recipe")] = None,
    batch_size: Annotated[Count, way("N", "Samples per step.", default="as in the recipe")] = None,
    pretrained: Annotated[
        Text, way("MODEL", "Start from this directory or hub id.", default="as in the recipe")
    ] = None,
    compile_: Annotated[bool, way(None, "Compile the network first; pays off on CUDA.", "--compile")] = False,
    seed: opt.MakingSeed = 0,
    device: opt.Device = "cpu",
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
    json: opt.Json = False,
) -> None:
    """Train a classifier, or a reference without a class.

    The result is an ordinary model directory. A run that was stopped goes on when the same command is given again:
    until it is done, its state lies beside the directory, in DIR.resume.

    Example: sfra train --data digits --backbone small-cnn --without 7 --out reference/
    """
    with showing(quiet=quiet) as progress:
        from sfra.models import backbones
        from sfra.unlearn.make import train_model

        check_place(out)
        backbones.find(backbone)
        settings = {"epochs": epochs, "learning_rate": learning_rate, "batch_size": batch_size}
        chosen = _adapted(
            find_recipe(recipe, data, backbone), data, backbone, {**settings, "compile": compile_ or None}
        )
        gone = class_indices(without, _class_names(data)) if without else ()
        resume = out.parent / f"{out.name}.resume"

        def advice() -> str:
            kept = f"the run so far is in {resume}" if resume.exists() else "nothing was kept yet"
            return f"{kept}; give the same command again to continue"

        with when_stopped(advice):
            made = train_model(
                data=data,
                backbone=backbone,
                recipe=chosen if pretrained is None else replace(chosen, pretrained=pretrained),
                without=gone,
                seed=seed,
                device=device,
                resume=resume,
                progress=progress,
            )
    if gone:
        following = [command("audit", "UNLEARNED", forget=typed(gone, made.class_names), data=data, reference=out)]
    else:
        first = typed([0], made.class_names)
        same = {"recipe": recipe, **settings, "pretrained": pretrained, "seed": seed or None}
        following = [
            command("train", data=data, backbone=backbone, without=first, **same, out=reference_beside(out, [0])),
            command("unlearn", out, data=data, forget=first, method="delete", out=out.parent / "unlearned"),
        ]
    deliver(made, out, json=json, quiet=quiet, following=following)
    resume.unlink(missing_ok=True)


def _class_names(data: str) -> tuple[str, ...] | None:
    from sfra.data import has_split, load_data

    return load_data(data, split="validation" if has_split(data, "validation") else "train").class_names


def _adapted(recipe: Recipe | None, data: str, backbone: str, training: Mapping[str, Any]) -> Recipe:
    """Put settings of the training into a recipe; without one they must suffice."""
    from sfra.data import has_split, load_data
    from sfra.models.recipes import Recipe as Empty
    from sfra.models.recipes import make_settings
    from sfra.models.training.train import Training

    given = {name: value for name, value in training.items() if value is not None}
    if recipe is None and not {"epochs", "learning_rate"} <= given.keys():
        if not has_split(data, "train"):
            load_data(data, split="train")  # a misspelt name has no recipe either: say that instead
        raise InputError(
            f"there is no recipe for {backbone} on {data}",
            expected="a recipe, or how long and how fast to train",
            do="pass --recipe (sfra list recipes), or --epochs and --learning-rate",
        )
    recipe = recipe or Empty(dataset=data, backbone=backbone, training={})
    settings = {**recipe.training, **given}
    made = make_settings(Training, settings, where="training")
    return replace(recipe, training={key: getattr(made, key) for key in settings})
