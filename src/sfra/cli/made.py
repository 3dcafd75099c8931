"""What ``sfra train`` and ``sfra unlearn`` share: the recipe, the place of the model, and the summary."""

from __future__ import annotations

import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from sfra.cli.command import check_folder, print_json, when_stopped
from sfra.core.errors import printable
from sfra.core.progress import duration

if TYPE_CHECKING:
    from sfra.models.backbones.checkpoint import Checkpoint
    from sfra.models.recipes import Recipe

WORDS = {"original": "Trained", "reference": "Trained without", "unlearned": "Unlearned"}


def check_place(out: Path) -> None:
    """Refuse, before the work, a place that no model directory can be written to."""
    from sfra.models.backbones import checkpoint

    check_folder(out)
    checkpoint.check_place(out)


def find_recipe(given: str | None, data: str, backbone: str) -> Recipe | None:
    """Load the recipe that was asked for, or else the one of the data and the backbone."""
    from sfra.models import recipes

    return recipes.load(given) if given is not None else recipes.find(data, backbone)


def class_indices(given: Sequence[str], names: Sequence[str] | None) -> tuple[int, ...]:
    """Turn names and indices of classes into indices; ``3,cat`` is two of them."""
    from sfra.auditing.naming import forget_classes
    from sfra.cli.audit import split_classes

    return forget_classes(split_classes([*given]), names)


def class_label(label: int, names: Sequence[str] | None) -> str:
    """Call a class by its index, and by its name where that says more.

    >>> class_label(1, ["cat", "dog"]), class_label(1, None)
    ('1 (dog)', '1')
    """
    name = printable(" ".join(names[label].split())) if names and 0 <= label < len(names) else str(label)
    return str(label) if name == str(label) else f"{label} ({name})"


def deliver(made: Checkpoint, out: Path, *, json: bool, quiet: bool, following: Sequence[str]) -> None:
    """Write the model directory, then print the facts as JSON, or a summary with what to do next."""
    with when_stopped(lambda: f"nothing was written to {out}; give the same command again"):
        made.save(out)
    if json:
        print_json({"schema": f"sfra.{made.notes['kind']}/1", "out": str(out), **made.notes})
    elif not quiet:
        typer.echo("\n".join(_summary(made, out)))
        print_next(following)


def print_next(lines: Sequence[str]) -> None:
    """Print what may be typed next, unbroken, so that it can be copied."""
    typer.echo("\n".join(["", "Next:", *(f"  {line}" for line in lines)]))


def _summary(made: Checkpoint, out: Path) -> list[str]:
    """Say in a few lines what was made, how good it is on the validation split, and where it is."""
    facts, quality = made.notes, made.notes["validation"]
    what = WORDS[facts["kind"]]
    if facts["kind"] == "reference":
        gone = [class_label(label, made.class_names) for label in facts["without"]]
        what += f" {'class' if len(gone) == 1 else 'classes'} {', '.join(gone)}"
    how = f" by {facts['method']}, epoch {facts['epoch']} kept" if "method" in facts else ""
    lines = [f"{what}{how}: {made.backbone} on {facts['data']}, {duration(facts['seconds'])}."]
    if quality is not None:
        shown = [f"{name} {100 * value:.1f} %" for name, value in quality.items() if name != "aus"]
        score = f"; AUS {quality['aus']:.3f}" if "aus" in quality else ""
        lines.append(f"On the validation split: {', '.join(shown)}{score}.")
    return [*lines, *facts["notes"], f"Written to {out}."]


def reference_beside(out: Path, gone: Sequence[int]) -> Path:
    """Return where a reference without some classes lies, or may go, beside a model."""
    return out.parent / f"reference-{'-'.join(map(str, gone))}"


def command(*words: object, **options: object) -> str:
    """Return a command line as it can be typed; options that are None are left out.

    >>> command("train", data="digits", learning_rate=0.1, recipe=None)
    'sfra train --data digits --learning-rate 0.1'
    """
    given = [(f"--{name.replace('_', '-')}", value) for name, value in options.items() if value is not None]
    return shlex.join(["sfra", *map(str, words), *(str(word) for pair in given for word in pair)])
