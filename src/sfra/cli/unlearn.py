"""``sfra unlearn``: make a model forget classes."""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from sfra.auditing.naming import typed
from sfra.cli import options as opt
from sfra.cli.command import check_there, when_stopped
from sfra.cli.made import check_place, class_indices, command, deliver, find_recipe, reference_beside
from sfra.cli.options import argument, making, way
from sfra.cli.progress import showing
from sfra.core.errors import InputError
from sfra.core.text import parse_json

if TYPE_CHECKING:
    from sfra.models.backbones.checkpoint import Checkpoint

EXPECTED = "--set NAME=VALUE, for example --set learning_rate=1e-3"


def unlearn(
    model: Annotated[Path, argument("What is made", "MODEL", "The original: a model directory of sfra train.")],
    data: opt.Images,
    forget: Annotated[
        list[str], making("CLASS", "Class to forget, by name or index; several with commas.", default=False)
    ],
    method: Annotated[
        str, making("NAME", "Method (sfra list methods), or ./file.py:Class, package.module:Class.", default=False)
    ],
    out: opt.Folder,
    recipe: opt.Recipe = None,
    set_: Annotated[
        list[str] | None,
        way("NAME=VALUE", "A setting of the method; may be repeated.", "--set", default="recipe's, else as published"),
    ] = None,
    seed: opt.MakingSeed = 0,
    device: opt.Device = "cpu",
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
    json: opt.Json = False,
) -> None:
    """Make a trained classifier forget a class.

    The original stays as it is. The validation split picks the epoch: forget accuracy near 0, retain accuracy near
    the original's. How the model would fare in an audit plays no part.

    Example: sfra unlearn original/ --data digits --forget 7 --method delete --out unlearned/
    """
    settings = parse_settings(set_ or ())
    check_there(model)
    untouched = when_stopped(lambda: f"nothing was written to {out}; give the same command again")
    with untouched, showing(quiet=quiet) as progress:
        from sfra.models.backbones.checkpoint import load_model
        from sfra.unlearn.make import unlearn_model

        check_place(out)
        if model.resolve() == out.resolve():
            raise InputError("the original would be replaced", expected="--out with another directory", got=out)
        original = load_model(model)
        gone = class_indices(forget, original.class_names)
        made = unlearn_model(
            original,
            data=data,
            method=method,
            forget=gone,
            recipe=find_recipe(recipe, data, original.backbone),
            settings=settings,
            seed=seed,
            device=device,
            progress=progress,
        )
    about = {"forget": typed(gone, made.class_names), "data": data}
    if made.notes["method"] == "retrained":
        following = [command("audit", "UNLEARNED", **about, reference=out)]
    else:
        reference = reference_beside(out, gone)
        same = {"recipe": recipe or _own_recipe(original, data), "device": None if device == "cpu" else device}
        train = command("unlearn", model, **about, method="retrained", **same, out=reference)
        following = [*([] if reference.exists() else [train]), command("audit", out, **about, reference=reference)]
    deliver(made, out, json=json, quiet=quiet, following=following)


def _own_recipe(original: Checkpoint, data: str) -> str | None:
    """Return the recipe that a model was trained by, where it is one of ours and not the usual one for the data."""
    from sfra.models import recipes

    name, usual = original.notes.get("recipe"), f"{data}-{original.backbone}"
    return name if isinstance(name, str) and name in recipes.names() and name != usual else None


def parse_settings(given: Sequence[str]) -> dict[str, Any]:
    """Read settings ``NAME=VALUE``; a value is a number, true, false, a list in brackets, or text.

    >>> parse_settings(["learning_rate=1e-3", "optimizer=adam", "freeze_batch_norm=true"])
    {'learning_rate': 0.001, 'optimizer': 'adam', 'freeze_batch_norm': True}
    """
    settings: dict[str, Any] = {}
    for text in given:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value) or name in settings:
            what = f"{name} is set twice" if name in settings else "cannot read a setting"
            raise InputError(what, expected=EXPECTED, got=text)
        try:
            settings[name] = parse_json(value, constants=True)
        except json_format.JSONDecodeError:
            settings[name] = value
        except ValueError as problem:
            raise InputError("cannot read a setting", expected=EXPECTED, got=f"{name}: {problem}") from None
    return settings
