"""``sfra unlearn``: make a model forget classes."""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from sfra.cli import options as opt
from sfra.cli.made import check_place, class_indices, command, deliver, find_recipe
from sfra.cli.progress import showing
from sfra.errors import InputError


def unlearn(
    model: opt.Original,
    data: opt.Images,
    forget: opt.Forgotten,
    method: opt.Method,
    out: opt.Folder,
    recipe: opt.Recipe = None,
    set_: opt.Set = None,
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
    with showing(quiet=quiet) as progress:
        from sfra.backbones.checkpoint import load_model
        from sfra.make import unlearn_model

        check_place(out)
        _check_apart(model, out)
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
    classes = ",".join(map(str, gone))
    following = [
        command("train", "--data", data, "--backbone", original.backbone, "--without", classes, "--out", "REFERENCE"),
        command("audit", out, "--forget", classes, "--data", data, "--reference", "REFERENCE"),
    ]
    deliver(made, out, json=json, quiet=quiet, following=following)


def parse_settings(given: Sequence[str]) -> dict[str, Any]:
    """Read settings ``NAME=VALUE``; a value is a number, true, false, a list in brackets, or text.

    >>> parse_settings(["learning_rate=1e-3", "optimizer=adam", "freeze_batch_norm=true"])
    {'learning_rate': 0.001, 'optimizer': 'adam', 'freeze_batch_norm': True}
    """
    settings = {}
    for text in given:
        name, equals, value = (part.strip() for part in text.partition("="))
        if not (name and equals and value) or name in settings:
            what = "a setting is given twice" if name in settings else "a setting cannot be read"
            raise InputError(what, expected="--set NAME=VALUE, for example --set learning_rate=1e-3", got=text)
        settings[name] = _value(value)
    return settings


def _value(text: str) -> Any:
    try:
        return json_format.loads(text)
    except json_format.JSONDecodeError:
        return text


def _check_apart(model: Path, out: Path) -> None:
    if model.resolve() == out.resolve():
        raise InputError("the original would be replaced", expected="--out with another directory", got=out)
