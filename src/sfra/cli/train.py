"""``sfra train``: make an original, or a reference that never saw some classes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from sfra.cli import options as opt
from sfra.cli.command import say
from sfra.cli.made import adapted, check_place, class_indices, command, deliver, find_recipe
from sfra.cli.progress import showing


def train(
    data: opt.Images,
    backbone: opt.Backbone,
    out: opt.Folder,
    without: opt.Without = None,
    recipe: opt.Recipe = None,
    epochs: opt.TrainingEpochs = None,
    learning_rate: opt.LearningRate = None,
    batch_size: opt.BatchSize = None,
    pretrained: opt.Pretrained = None,
    compile_: opt.Compile = False,
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
        from dataclasses import replace

        from sfra.models import backbones
        from sfra.unlearn.make import train_model

        check_place(out)
        backbones.find(backbone)
        settings = {"epochs": epochs, "learning_rate": learning_rate, "batch_size": batch_size}
        chosen = adapted(find_recipe(recipe, data, backbone), data, backbone, {**settings, "compile": compile_ or None})
        gone = class_indices(without, _names(data)) if without else ()
        resume = out.parent / f"{out.name}.resume"
        with _resumable(resume):
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
    asked = {"recipe": recipe, **settings, "pretrained": pretrained, "seed": seed or None}
    same = [
        word for name, value in asked.items() if value is not None for word in (f"--{name.replace('_', '-')}", value)
    ]
    deliver(made, out, json=json, quiet=quiet, following=_following(data, backbone, out, gone, same))
    resume.unlink(missing_ok=True)


@contextmanager
def _resumable(state: Path) -> Iterator[None]:
    """Say, when the run is stopped, how to go on."""
    try:
        yield
    except KeyboardInterrupt:
        kept = f"the run so far is in {state}" if state.exists() else "nothing was kept yet"
        say(f"stopped: {kept}; give the same command again to go on")
        raise


def _names(data: str) -> tuple[str, ...] | None:
    from sfra.data import has_split, load_data

    return load_data(data, split="validation" if has_split(data, "validation") else "train").class_names


def _following(data: str, backbone: str, out: Path, gone: tuple[int, ...], same: Sequence[object]) -> list[str]:
    """Suggest what to do with the model; a reference is to be trained in the same way."""
    if gone:
        classes = ",".join(map(str, gone))
        return [command("audit", "UNLEARNED", "--forget", classes, "--data", data, "--reference", out)]
    beside = out.parent
    return [
        command("train", "--data", data, "--backbone", backbone, "--without", 0, *same, "--out", beside / "reference"),
        command("unlearn", out, "--data", data, "--forget", 0, "--method", "delete", "--out", beside / "unlearned"),
    ]
