"""Build a backbone by name: freshly initialised, or with the encoder of a checkpoint and a fresh head."""

from __future__ import annotations

import copy
from collections.abc import Collection
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from sfra.core.errors import InputError
from sfra.core.text import written_out
from sfra.models.backbones.huggingface import differences
from sfra.release.architecture import Backbone, check_fit, find, refuse_not_finite, seeded
from sfra.release.base import one_line, require
from sfra.release.directory import MODEL_TYPE, check_config, read_plain
from sfra.release.huggingface import fetch, is_id, load_classifier


def build(
    name: str,
    *,
    classes: int,
    seed: int | None = None,
    pretrained: str | Path | None = None,
    keep_head: bool = False,
) -> nn.Module:
    """Build a classifier on the CPU, freshly initialised or with the encoder of a checkpoint.

    The weights are drawn from a state of their own, so the global random state stays as it was. The
    classifier maps images ``[n, c, h, w]`` to logits ``[n, classes]``, or to an object with ``.logits``.

    Args:
        name: One of :func:`names`.
        classes: Number of outputs.
        seed: Equal seeds give equal weights; None draws a new seed (for weights that are loaded afterwards).
        pretrained: A model directory, or the Hugging Face id (owner/name) of one, of the same architecture: all
            weights but those of the head are taken from it.
        keep_head: Take the head of ``pretrained`` too; it must have as many outputs.

    >>> import torch
    >>> build("small-cnn", classes=10, seed=0)(torch.zeros(2, 1, 8, 8)).shape
    torch.Size([2, 10])
    """
    known = find(name)
    if classes < 1:
        raise InputError("the classifier has no outputs", expected="at least 1 class", got=classes)
    if pretrained is not None:
        return _start_from(known, pretrained, classes=classes, seed=seed, keep_head=keep_head)
    if keep_head:
        raise InputError("there is no head to keep", expected="pretrained=, the checkpoint that has it")
    return known.build(classes, seed=seed)


def input_shape(name: str) -> tuple[int, int, int]:
    """Return channels, height and width of the images a backbone is made for."""
    return find(name).shape


def describe(name: str) -> str:
    """Describe a backbone in one line."""
    return find(name).description


def _start_from(
    known: Backbone, pretrained: str | Path, *, classes: int, seed: int | None, keep_head: bool
) -> nn.Module:
    """Build a classifier with the weights of a checkpoint; its head is drawn from the seed, unless it is kept."""
    directory, head = written_out(pretrained), known.head_names()
    if not directory.is_dir() and is_id(str(pretrained)):
        directory = fetch(str(pretrained))
    if not directory.is_dir():
        expected = "a model directory, or an id owner/name"
        raise InputError("the checkpoint does not exist", expected=expected, got=pretrained, do="check the path")
    with seeded(seed):  # transformers draws a head where the checkpoint has none
        weights, config = _read(known, directory, spare=() if keep_head else head)
    outputs = {len(weights[name]) for name in head} if keep_head else {classes}
    if outputs != {classes}:
        raise InputError(
            "the head of the checkpoint has another number of outputs",
            expected=f"{classes} classes",
            got=", ".join(map(str, sorted(outputs))),
            do="leave keep_head out to get a new head",
        )
    if config is not None and config.num_labels != classes:  # built as the checkpoint's own configuration says
        config = copy.deepcopy(config)
        config.num_labels = classes
    with seeded(seed):
        if config is None:
            model = known.construct(classes)
        else:
            model = require("transformers", extra="huggingface").AutoModelForImageClassification.from_config(config)
    own, taken = model.state_dict(), {name: w for name, w in weights.items() if keep_head or name not in head}
    check_fit({**own, **taken}, known.skeleton(classes), f"{directory.name} is not a {known.name}")
    model.load_state_dict({**own, **taken}, strict=True)
    return model


def _read(known: Backbone, directory: Path, *, spare: Collection[str]) -> tuple[dict[str, Tensor], Any]:
    """Return the weights, and the transformers configuration; None for a plain module."""
    config = check_config(directory)
    family, wanted = config["model_type"], known.family or MODEL_TYPE
    if family != wanted or (known.family is None and config.get("backbone") != known.name):
        _refuse(known, directory, [str(config.get("backbone")) if family == MODEL_TYPE else f"model_type {family!r}"])
    if known.family is None:
        return dict(read_plain(directory, config)[0].state_dict()), None
    model = load_classifier(directory, spare=spare)
    _refuse(known, directory, differences(known, model.config))
    weights = dict(model.state_dict())
    refuse_not_finite(weights, directory.name)
    return weights, model.config


def _refuse(known: Backbone, directory: Path, differ: list[str]) -> None:
    if differ:
        raise InputError(
            f"{directory.name} is another architecture than {known.name}",
            expected=f"a checkpoint of {known.description}",
            got=one_line("; ".join(differ)),
        )
