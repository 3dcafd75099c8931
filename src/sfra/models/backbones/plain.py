"""Model directories of plain modules: what transformers reads too, written and read without it."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors import safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from sfra.core.errors import InputError
from sfra.models.backbones.registry import Backbone, build, find, head_names, names, skeleton
from sfra.release.base import one_line
from sfra.release.forward import check_watchable, unwrap
from sfra.release.huggingface_files import check_weights

MODEL_TYPE = "sfra"
"""``model_type`` of these directories."""

ARCHITECTURE = "SfraForImageClassification"
"""The class of :mod:`sfra.models.backbones.pretrained` that transformers loads them into."""


def write_plain(
    folder: Path, weights: Mapping[str, Tensor], known: Backbone, classes: int, class_names: Sequence[str] | None
) -> None:
    """Write config.json and model.safetensors."""
    check_fit(weights, skeleton(known, classes), f"the model is not a {known.name} with {classes} outputs")
    labels = list(class_names or (f"LABEL_{index}" for index in range(classes)))
    config = {
        "model_type": MODEL_TYPE,
        "architectures": [ARCHITECTURE],
        "backbone": known.name,
        "num_labels": classes,
        "id2label": dict(enumerate(labels)),
        "label2id": {label: index for index, label in enumerate(labels)},
    }
    (folder / "config.json").write_text(json.dumps(config, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    save_file(dict(weights), folder / "model.safetensors", metadata={"format": "pt"})


def read_plain(directory: Path, config: Mapping[str, Any]) -> tuple[nn.Module, Backbone, int]:
    """Read a directory whose ``model_type`` is ours: the model in float32 and eval mode, its backbone and classes.

    Names, types and shapes in the file are compared with those of the backbone before anything is allocated.
    """
    known = _backbone_of(config)
    shards = [file for file in check_weights(directory) if file.suffix == ".safetensors"]
    found = {name: tensor for shard in shards for name, tensor in _outlines(shard).items()}
    classes = _classes_of(config, found, known)
    check_fit(found, skeleton(known, classes), f"the weights of {directory.name} do not fit {known.name}")
    weights = {name: tensor for shard in shards for name, tensor in _tensors(shard).items()}
    refuse_not_finite(weights, directory.name)
    model = build(known.name, classes=classes)
    model.load_state_dict(weights, strict=True)
    return model.eval(), known, classes


def copy_weights(model: nn.Module) -> dict[str, Tensor]:
    """Copy a model's weights and buffers to the CPU, each contiguous and apart from the others."""
    plain = unwrap(model)
    check_watchable(plain)
    weights = {
        name: tensor.detach().cpu().clone(memory_format=torch.contiguous_format)
        for name, tensor in plain.state_dict().items()
        if isinstance(tensor, Tensor)
    }
    refuse_not_finite(weights, type(plain).__name__)
    return weights


def check_fit(found: Mapping[str, Tensor], own: Mapping[str, Tensor], what: str) -> None:
    """Refuse weights that are not exactly those of an architecture."""
    shared = [name for name in own if name in found]
    wrong = {
        "missing": [name for name in own if name not in found],
        "unexpected": [name for name in found if name not in own],
        "of another shape": [
            f"{name} {list(found[name].shape)} instead of {list(own[name].shape)}"
            for name in shared
            if found[name].shape != own[name].shape
        ],
        "of another kind": [
            f"{name} {found[name].dtype} instead of {own[name].dtype}"
            for name in shared
            if found[name].is_floating_point() != own[name].is_floating_point()
        ],
    }
    parts = [f"{len(some)} {kind} ({', '.join(some[:3])})" for kind, some in wrong.items() if some]
    if parts:
        expected = f"its {len(own)} tensors, of the same shapes"
        raise InputError(what, expected=expected, got=one_line("; ".join(parts), 600))


def refuse_not_finite(weights: Mapping[str, Tensor], name: str) -> None:
    """Refuse NaN and infinity."""
    bad = [key for key, tensor in weights.items() if not bool(torch.isfinite(tensor).all())]
    if bad:
        raise InputError(
            f"the weights of {name} are not finite",
            got=one_line(f"NaN or infinity in {', '.join(bad[:3])}"),
            do="the model is damaged, or its training diverged: train it with a smaller learning rate",
        )


def _backbone_of(config: Mapping[str, Any]) -> Backbone:
    name = config.get("backbone")
    if name not in names() or find(name).family is not None:
        plain = ", ".join(name for name in names() if find(name).family is None)
        raise InputError(
            "config.json names a backbone that is not known here",
            expected=f"one of {plain}",
            got=one_line(name, 120),
            do="if it is an architecture of your own, import the module that registers it first",
        )
    return find(name)


def _classes_of(config: Mapping[str, Any], found: Mapping[str, Tensor], known: Backbone) -> int:
    """Return the number of outputs: as the configuration says, or else as the head in the file has."""
    labels = config.get("id2label")
    said = config.get("num_labels", len(labels) if isinstance(labels, Mapping) else None)
    heads = [found[name].shape[0] for name in head_names(known) if name in found and found[name].ndim]
    classes = heads[0] if said is None and heads else said
    if not isinstance(classes, int) or isinstance(classes, bool) or classes not in heads:
        raise InputError(
            "config.json and the weights disagree about the number of classes",
            expected=f"{heads[0]}, the outputs of the head" if heads else f"the head of {known.name}",
            got=one_line(classes, 60),
        )
    return classes


def _outlines(shard: Path) -> dict[str, Tensor]:
    """Read names, types and shapes from the head of a file, as tensors without numbers."""
    with safe_open(shard, framework="pt") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        return {
            name: torch.empty(part.get_shape(), dtype=_kind(part.get_dtype()), device="meta")
            for name, part in slices.items()
        }


def _kind(name: str) -> torch.dtype:
    """Return a stand-in of the same kind: the sizes of the numbers do not matter here."""
    return torch.float32 if name.startswith(("F", "BF")) else torch.int64


def _tensors(shard: Path) -> dict[str, Tensor]:
    with safe_open(shard, framework="pt") as file:
        return {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
