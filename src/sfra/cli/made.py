"""What the commands that make models share: the recipe, the place of the result, and the summary."""

from __future__ import annotations

import json as json_format
import shlex
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from sfra.cli.command import say
from sfra.cli.output import check_folder, dump, print_json
from sfra.cli.progress import duration
from sfra.core.errors import InputError

if TYPE_CHECKING:
    from sfra.models.backbones.checkpoint import Checkpoint
    from sfra.models.recipes import Recipe
    from sfra.unlearn.make import Made


def check_place(out: Path) -> None:
    """Refuse, before the work, a place that no model directory can be written to."""
    from sfra.models.backbones.checkpoint import is_ours
    from sfra.models.backbones.directory import refuse_foreign

    check_folder(out)
    refuse_foreign(out, ours=is_ours)


def find_recipe(given: str | None, data: str, backbone: str) -> Recipe | None:
    """Load the recipe that was asked for, or else the one of the data and the backbone."""
    from sfra.models import recipes

    return recipes.load(given) if given is not None else recipes.find(data, backbone)


def own_recipe(original: Checkpoint, data: str) -> str | None:
    """Return the recipe that a model was trained by, where it is one of ours and not the usual one for the data."""
    from sfra.models import recipes

    name = original.notes.get("recipe")
    usual = f"{data}-{original.backbone}"
    return name if isinstance(name, str) and name in recipes.names() and name != usual else None


def adapted(recipe: Recipe | None, data: str, backbone: str, training: Mapping[str, Any]) -> Recipe:
    """Put settings of the training into a recipe; without one they must suffice."""
    from sfra.models.recipes import Recipe as Empty
    from sfra.models.recipes.check import check_group
    from sfra.models.training.train import Training

    given = {name: value for name, value in training.items() if value is not None}
    if recipe is None and not {"epochs", "learning_rate"} <= given.keys():
        _check_data(data)
        raise InputError(
            f"there is no recipe for {backbone} on {data}",
            expected="a recipe, or how long and how fast to train",
            do="pass --recipe (sfra list recipes), or --epochs and --learning-rate",
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


def _check_data(data: str) -> None:
    """Refuse data that are not there: a misspelt name has no recipe either."""
    from sfra.data import has_split, load_data

    if not has_split(data, "train"):
        load_data(data, split="train")


def class_indices(given: Sequence[str], names: Sequence[str] | None) -> tuple[int, ...]:
    """Turn names and indices of classes into indices; ``3,cat`` is two of them."""
    from sfra.auditing.naming import forget_classes
    from sfra.cli.audit import split_classes

    return forget_classes(split_classes([*given]), names)


@contextmanager
def unwritten(out: Path) -> Iterator[None]:
    """Say, when the work is stopped, that there is no half of a model: directories are written whole or not at all."""
    try:
        yield
    except KeyboardInterrupt:
        say(f"stopped: nothing was written to {out}; give the same command again")
        raise


def deliver(made: Made, out: Path, *, json: bool, quiet: bool, following: Sequence[str]) -> None:
    """Write the model directory, then print the facts as JSON, or a summary with what to do next."""
    try:
        with unwritten(out):
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
    what = {"original": "Trained", "reference": "Trained without", "unlearned": "Unlearned"}[facts["kind"]]
    if facts["kind"] == "reference":
        what += f" {'class' if len(facts['without']) == 1 else 'classes'} {', '.join(map(str, facts['without']))}"
    how = f" by {facts['method']}, epoch {facts['epoch']} kept" if "method" in facts else ""
    lines = [f"{what}{how}: {made.checkpoint.backbone} on {facts['data']}, {duration(facts['seconds'])}."]
    if quality is not None:
        shown = [f"{name} {100 * value:.1f} %" for name, value in quality.items() if name != "aus"]
        score = f"; AUS {quality['aus']:.3f}" if "aus" in quality else ""
        lines.append(f"On the validation split: {', '.join(shown)}{score}.")
    return [*lines, *facts["notes"], f"Written to {out}."]


def reference_beside(out: Path, data: str, backbone: str, gone: Sequence[int]) -> tuple[Path, bool]:
    """Return where a reference without some classes lies or may go, beside a model, and whether it is there already."""
    names = ("reference", "reference-" + "-".join(map(str, gone)))
    places = [out.parent / name for name in names if out.parent / name != out]
    there = [place for place in places if _is_reference(place, data, backbone, gone)]
    free = [place for place in places if not place.exists()]
    return (there or free or places[-1:])[0], bool(there)


def _is_reference(folder: Path, data: str, backbone: str, gone: Sequence[int]) -> bool:
    """Say whether a model directory is known to hold a model that was trained on the data without these classes."""
    try:
        about = json_format.loads((folder / "sfra.json").read_text(encoding="utf-8"))
        notes = about["notes"]
        lacks = notes["forget"] if notes.get("method") == "retrained" else notes["without"]
        return bool((about["backbone"], notes["data"], lacks) == (backbone, data, sorted(gone)))
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return False


def command(*words: object) -> str:
    """Return a command line as it can be typed."""
    return shlex.join(["sfra", *map(str, words)])
