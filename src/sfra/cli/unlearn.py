"""``sfra unlearn``: make a model forget classes."""

from __future__ import annotations

import json as json_format
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfra.cli import options as opt
from sfra.cli.made import (
    check_place,
    class_indices,
    command,
    deliver,
    find_recipe,
    own_recipe,
    reference_beside,
    unwritten,
)
from sfra.cli.progress import showing
from sfra.core.errors import InputError
from sfra.core.json_text import parse_json

if TYPE_CHECKING:
    from sfra.unlearn.make import Made

EXPECTED = "--set NAME=VALUE, for example --set learning_rate=1e-3"


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
    with unwritten(out), showing(quiet=quiet) as progress:
        from sfra.models.backbones.checkpoint import load_model
        from sfra.unlearn.make import unlearn_model

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
    asked = {"recipe": recipe or own_recipe(original, data), "device": device if device != "cpu" else None}
    deliver(made, out, json=json, quiet=quiet, following=_following(model, made, out, data, gone, asked))


def _following(
    model: Path, made: Made, out: Path, data: str, gone: Sequence[int], asked: dict[str, str | None]
) -> list[str]:
    """Suggest the audit and, where none lies beside the model, a reference that is trained as the original was."""
    about = ("--forget", ",".join(map(str, gone)), "--data", data)
    if made.facts["method"] == "retrained":
        return [command("audit", "UNLEARNED", *about, "--reference", out)]
    reference, there = reference_beside(out, data, made.checkpoint.backbone, gone)
    same = [word for name, value in asked.items() if value is not None for word in (f"--{name}", value)]
    train = command("unlearn", model, *about, "--method", "retrained", *same, "--out", reference)
    audit = command("audit", out, *about, "--reference", reference)
    return [audit] if there else [train, audit]


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
            raise InputError(what, expected=EXPECTED, got=text)
        settings[name] = _value(name, value)
    return settings


def _value(name: str, text: str) -> Any:
    try:
        return parse_json(text, constants=True)
    except json_format.JSONDecodeError:
        return text
    except ValueError as problem:
        raise InputError("a setting cannot be read", expected=EXPECTED, got=f"{name}: {problem}") from None


def _check_apart(model: Path, out: Path) -> None:
    if model.resolve() == out.resolve():
        raise InputError("the original would be replaced", expected="--out with another directory", got=out)
