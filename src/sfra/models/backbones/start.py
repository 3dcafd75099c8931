"""Start from the encoder of a checkpoint: its weights, and a fresh head for other classes."""

from __future__ import annotations

import copy
import re
from collections.abc import Collection
from pathlib import Path
from typing import Any

from torch import Tensor, nn

from sfra.core.errors import InputError
from sfra.core.text import written_out
from sfra.models.backbones.huggingface import differences, require_transformers
from sfra.models.backbones.plain import MODEL_TYPE, check_fit, read_plain, refuse_not_finite
from sfra.models.backbones.registry import Backbone, head_names, seeded, skeleton
from sfra.release.base import one_line
from sfra.release.huggingface import fetch, load_classifier
from sfra.release.huggingface_files import check_config, check_weights


def start_from(
    known: Backbone, pretrained: str | Path, *, classes: int, seed: int | None, keep_head: bool
) -> nn.Module:
    """Build a classifier with the weights of a checkpoint; only its head is drawn, from the seed.

    Args:
        known: The architecture; the checkpoint must have the same.
        pretrained: A model directory, or the Hugging Face id of one.
        classes: Number of outputs.
        seed: Seed of the new head: the same as that of a network built without a checkpoint.
        keep_head: Keep the checkpoint's head, which must have as many outputs.
    """
    directory, head = _find(pretrained), head_names(known)
    with seeded(seed):  # transformers draws a head where the checkpoint has none
        weights, config = _read(known, directory, spare=() if keep_head else head)
    if keep_head:
        _check_outputs({len(weights[name]) for name in head}, classes)
    with seeded(seed):
        model = known.construct(classes) if config is None else _from_config(config, classes)
    own, taken = model.state_dict(), {name: w for name, w in weights.items() if keep_head or name not in head}
    check_fit({**own, **taken}, skeleton(known, classes), f"{directory.name} is not a {known.name}")
    model.load_state_dict({**own, **taken}, strict=True)
    return model


def _find(pretrained: str | Path) -> Path:
    """Return the directory; one on the hub is fetched first."""
    directory, name = written_out(pretrained), str(pretrained)
    if directory.is_dir():
        return directory
    if re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", name):
        return fetch(name)
    raise InputError(
        "there is no such checkpoint", expected="a model directory, or an id owner/name", got=name, do="check the path"
    )


def _read(known: Backbone, directory: Path, *, spare: Collection[str]) -> tuple[dict[str, Tensor], Any]:
    """Return the weights, and the transformers configuration; None for a plain module."""
    config = check_config(directory)
    family, wanted = config["model_type"], known.family or MODEL_TYPE
    if family != wanted or (known.family is None and config.get("backbone") != known.name):
        _refuse(known, directory, [str(config.get("backbone")) if family == MODEL_TYPE else f"model_type {family!r}"])
    if known.family is None:
        return dict(read_plain(directory, config)[0].state_dict()), None
    model = load_classifier(directory, check_weights(directory), spare=spare)
    _refuse(known, directory, differences(known, model.config))
    weights = dict(model.state_dict())
    refuse_not_finite(weights, directory.name)
    return weights, model.config


def _from_config(config: Any, classes: int) -> nn.Module:
    """Build the network as the checkpoint's own configuration says, with another number of outputs."""
    config = copy.deepcopy(config)
    if config.num_labels != classes:
        config.num_labels = classes
    model: nn.Module = require_transformers().AutoModelForImageClassification.from_config(config)
    return model


def _check_outputs(outputs: set[int], classes: int) -> None:
    if outputs != {classes}:
        raise InputError(
            "the head of the checkpoint has another number of outputs",
            expected=f"{classes} classes",
            got=", ".join(map(str, sorted(outputs))),
            do="leave keep_head out to get a new head",
        )


def _refuse(known: Backbone, directory: Path, differ: list[str]) -> None:
    if differ:
        raise InputError(
            f"{directory.name} is another architecture than {known.name}",
            expected=f"a checkpoint of {known.description}",
            got=one_line("; ".join(differ)),
        )
