"""Checkpoints: ordinary model directories, for us and for transformers, that appear whole or not at all."""

from __future__ import annotations

import copy
import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file
from torch import Tensor, nn

from sfra._version import __version__
from sfra.core.errors import InputError
from sfra.core.text import written_out
from sfra.models.backbones.huggingface import differences
from sfra.models.backbones.images import processor_config
from sfra.release.architecture import Backbone, check_fit, find, names, refuse_not_finite
from sfra.release.base import clean_names, one_line, read_json, require
from sfra.release.directory import MODEL_TYPE, check_config, read_plain, read_preprocess
from sfra.release.forward import check_watchable, unwrap
from sfra.release.huggingface import load_classifier, quiet
from sfra.release.preprocess import Preprocess

NOTES = "sfra.json"
"""What the other files have no room for; its presence makes a directory ours."""

FORMAT = 1
"""Version of that file."""

FILES = ("config.json", "model*.safetensors", "model.safetensors.index.json", "preprocessor_config.json", NOTES)
"""All that a checkpoint may hold if it is to be replaced."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Checkpoint:
    """A classifier with what is needed to use it."""

    model: nn.Module
    """The classifier, on the CPU, in float32 and eval mode."""
    backbone: str
    """Its architecture, a name of :func:`sfra.models.backbones.names`."""
    classes: int
    """Number of outputs."""
    preprocess: Preprocess | None = None
    """How it wants its images; None: as they are."""
    class_names: tuple[str, ...] | None = None
    """One name per output."""
    notes: dict[str, Any] = field(default_factory=dict)
    """Whatever its maker wrote down: values of JSON."""

    def __repr__(self) -> str:
        """Say what it is and how large, without the network and its notes."""
        weights = sum(weight.numel() for weight in self.model.parameters())
        return f"Checkpoint({self.backbone!r}, {self.classes:,} classes, {weights:,} weights)"

    def save(self, folder: str | Path) -> Path:
        """Write a model directory that ``sfra audit`` and transformers can load; see :func:`save_model`."""
        parts = {entry.name: getattr(self, entry.name) for entry in fields(self) if entry.name != "model"}
        return save_model(folder, self.model, **parts)


def save_model(
    folder: str | Path,
    model: nn.Module,
    *,
    backbone: str,
    classes: int,
    preprocess: Preprocess | None = None,
    class_names: Sequence[str] | None = None,
    notes: Mapping[str, object] | None = None,
) -> Path:
    """Write a model directory: config.json, model.safetensors, preprocessor_config.json and sfra.json.

    It is written beside ``folder`` and then renamed, so a reader never sees a part of it. An existing directory is
    replaced only if it is empty or a checkpoint written here. The model is not changed.

    Args:
        folder: The directory.
        model: A classifier that :func:`sfra.models.backbones.build` made, on any device, compiled or not.
        backbone: The name it was built under.
        classes: Number of outputs.
        preprocess: How it wants its images.
        class_names: One name per output.
        notes: Values of JSON to keep with it.
    """
    known, target = find(backbone), written_out(folder).resolve()
    labels = list(class_names or (f"LABEL_{index}" for index in range(classes)))
    if len(labels) != classes:
        raise InputError("every output needs a name", expected=f"{classes} class names", got=len(labels))
    check_place(target)
    about = _json({"format": FORMAT, "sfra": __version__, "backbone": backbone, "notes": dict(notes or {})})
    weights = _copy_weights(model)
    with _written_whole(target) as new:
        write = _write_plain if known.family is None else _write_transformers
        write(new, unwrap(model), weights, known, labels)
        if preprocess is not None:
            images = processor_config(preprocess, channels=known.shape[0])
            (new / "preprocessor_config.json").write_text(_json(images), encoding="utf-8")
        (new / NOTES).write_text(about, encoding="utf-8")
    return target


def load_model(folder: str | Path) -> Checkpoint:
    """Read a model directory: one that :func:`save_model` wrote, or any of transformers with a known architecture.

    Only configuration and safetensors are read; the plain backbones do not need transformers.
    """
    directory = written_out(folder)
    if not directory.is_dir():
        is_file = directory.is_file()
        raise InputError(
            f"{directory.name} is not a model directory" if is_file else "the directory does not exist",
            expected="a folder with config.json and model.safetensors",
            got="a file" if is_file else folder,
            do="make one with sfra train, or save_pretrained of transformers" if is_file else "check the path",
        )
    config, about = check_config(directory), _about(directory)
    if config["model_type"] == MODEL_TYPE:
        model, known, classes = read_plain(directory, config)
        labels = config.get("id2label")
    else:
        model = load_classifier(directory)
        refuse_not_finite(model.state_dict(), directory.name)
        known, classes, labels = _recognise(model.config, about), int(model.config.num_labels), model.config.id2label
    return Checkpoint(
        model=model,
        backbone=known.name,
        classes=classes,
        preprocess=read_preprocess(directory, config),
        class_names=clean_names(labels, classes),
        notes=about["notes"],
    )


def check_place(target: Path) -> None:
    """Refuse a place that holds something else than a checkpoint written here: nothing of it is ever deleted."""
    if not target.exists():
        return
    files = sorted(target.iterdir()) if target.is_dir() else [target]
    known = all(file.is_file() and any(file.match(pattern) for pattern in FILES) for file in files)
    ours = known and (target / NOTES).is_file() and (target / "config.json").is_file()
    if target.is_dir() and (ours or not files):
        return
    raise InputError(
        f"{target.name} is already there and is not a checkpoint of ours: nothing was written",
        expected="a new or empty directory, or a checkpoint with no other files in it",
        got=", ".join(file.name for file in files[:6]) if target.is_dir() else "a file",
        do="choose another directory, or move this one away",
    )


@contextmanager
def _written_whole(target: Path) -> Iterator[Path]:
    """Give a temporary neighbour to write into; once that has succeeded, it becomes ``target``.

    An interrupted writer leaves the old directory as it was. While one directory replaces another there is a
    moment without either; the old one then lies beside it under a name that starts with a dot.
    """
    target.parent.mkdir(parents=True, exist_ok=True)
    beside = Path(tempfile.mkdtemp(dir=target.parent, prefix=f".{target.name}."))
    try:
        new, old = beside / "new", beside / "old"
        new.mkdir()
        yield new
        for file in new.iterdir():  # safetensors makes them readable to their owner alone
            file.chmod(new.stat().st_mode & 0o666)
        check_place(target)
        if target.exists():
            os.rename(target, old)
        try:
            os.rename(new, target)
        except BaseException:
            if old.exists():
                os.rename(old, target)
            raise
    finally:
        shutil.rmtree(beside, ignore_errors=True)


def _copy_weights(model: nn.Module) -> dict[str, Tensor]:
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


def _write_plain(
    folder: Path, model: nn.Module, weights: Mapping[str, Tensor], known: Backbone, labels: list[str]
) -> None:
    """Write what transformers reads too, after ``import sfra.models.backbones.pretrained``, without it."""
    what = f"the model is not a {known.name} with {len(labels)} outputs"
    check_fit(weights, known.skeleton(len(labels)), what)
    config = {
        "model_type": MODEL_TYPE,
        "architectures": ["SfraForImageClassification"],
        "backbone": known.name,
        "num_labels": len(labels),
        "id2label": dict(enumerate(labels)),
        "label2id": {label: index for index, label in enumerate(labels)},
    }
    (folder / "config.json").write_text(_json(config), encoding="utf-8")
    save_file(dict(weights), folder / "model.safetensors", metadata={"format": "pt"})


def _write_transformers(
    folder: Path, model: nn.Module, weights: Mapping[str, Tensor], known: Backbone, labels: list[str]
) -> None:
    """Let transformers write a copy of the model, so that the caller's keeps its configuration and its tensors."""
    what = f"the model is not a {known.name} with {len(labels)} outputs"
    config: Any = copy.deepcopy(getattr(model, "config", None))
    transformers = require("transformers", extra="huggingface")
    if not isinstance(config, transformers.PreTrainedConfig):
        raise InputError(what, expected="a classifier of transformers", got=type(model).__name__)
    if differences(known, config):
        raise InputError(what, got="; ".join(differences(known, config)))
    config.id2label, config.label2id = dict(enumerate(labels)), {label: index for index, label in enumerate(labels)}
    with quiet():
        with torch.device("meta"):
            copied = transformers.AutoModelForImageClassification.from_config(config)
        check_fit(weights, copied.state_dict(), what)
        copied.load_state_dict(dict(weights), strict=True, assign=True)
        copied.save_pretrained(folder)


def _recognise(config: Any, about: Mapping[str, Any]) -> Backbone:
    """Return the backbone that sfra.json names, or else the one whose settings these are."""
    named = about.get("backbone")
    candidates = [find(name) for name in ([named] if named in names() else names()) if find(name).family]
    for known in candidates:
        if not differences(known, config):
            return known
    close = [known for known in candidates if known.family == config.model_type]
    raise InputError(
        "the architecture of this directory is not one that can be built here",
        expected=f"one of {', '.join(known.name for known in candidates) or ', '.join(names())}",
        got=one_line("; ".join(differences(close[0], config)) if close else f"model_type {config.model_type!r}"),
        do="sfra.load and sfra audit take any architecture of transformers",
    )


def _about(directory: Path) -> dict[str, Any]:
    """Read sfra.json; a directory of another maker has none."""
    file = directory / NOTES
    about = read_json(file) if file.is_file() else {"format": FORMAT, "notes": {}}
    if about.get("format") != FORMAT or not isinstance(about.get("notes"), dict):
        raise InputError(
            f"{NOTES} cannot be used",
            expected=f"format {FORMAT} with an object of notes",
            got=one_line(f"format {about.get('format')}, notes {type(about.get('notes')).__name__}"),
            do="it may come from a newer version: update sfra, or remove the file to do without the notes",
        )
    return about


def _json(content: Mapping[str, object]) -> str:
    try:
        return json.dumps(content, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
    except (TypeError, ValueError, RecursionError) as problem:
        raise InputError("the notes cannot be written", expected="finite values of JSON", got=problem) from None
