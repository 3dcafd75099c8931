"""Model directories: looked at before anything opens them, and those of our own networks read without transformers."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from torch import Tensor, nn

from sfra.core.errors import InputError, UnsafeFileError
from sfra.release.architecture import Backbone, check_fit, find, names, refuse_not_finite
from sfra.release.base import Loader, Options, Release, clean_names, one_line, read_json, unreadable
from sfra.release.checkpoint import read_index
from sfra.release.foreign import KERAS, MERGE, ORIGINAL
from sfra.release.module import load_module
from sfra.release.preprocess import Preprocess
from sfra.release.processors import preprocess_from
from sfra.release.size import entries

MODEL_TYPE = "sfra"
"""``model_type`` of directories that hold a plain backbone."""

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
PICKLED, PICKLED_INDEX = "pytorch_model.bin", "pytorch_model.bin.index.json"
"""What older versions of transformers wrote: read as data, like every file that torch.save wrote."""
MAX_CLASSES = 1_000_000
"""Outputs that a configuration may claim: transformers makes a name for each before it looks at the weights."""
KNOWN = {"adapter_config.json": MERGE, "saved_model.pb": KERAS, "Manifest.json": ORIGINAL}
"""Files by which the directory of another format is known (an adapter, TensorFlow, Core ML), with the way out."""
OTHER_FILE = "pass the model file itself if one of these is it"
PICKLES = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack"}


class SfraDirectory(Loader):
    """A directory that ``sfra train`` or ``sfra unlearn`` wrote for a network of ours; transformers is not needed."""

    name = "sfra-directory"
    description = "a model directory that sfra wrote"

    def accepts(self, source: object) -> bool:
        """Look at the kind of model in config.json."""
        if not (isinstance(source, Path) and (source / "config.json").is_file()):
            return False
        try:
            return read_json(source / "config.json").get("model_type") == MODEL_TYPE
        except InputError:  # whoever loads it says so
            return False

    def load(self, source: Path, options: Options) -> Release:
        """Build the backbone, fill it with the checked weights and split it."""
        config = check_config(source)
        model, known, classes = read_plain(source, config)
        return load_module(
            model,
            options,
            shapes=(known.shape,),
            source=f"{options.source or f'model directory {source.resolve().name}'} ({known.name})",
            names=clean_names(config.get("id2label"), classes),
            preprocess=options.preprocess or read_preprocess(source, config),
        )


def read_plain(directory: Path, config: Mapping[str, Any]) -> tuple[nn.Module, Backbone, int]:
    """Read a directory whose ``model_type`` is ours: the model in float32 and eval mode, its backbone and classes.

    Names, types and shapes in the file are compared with those of the backbone before anything is allocated.
    """
    known = _backbone_of(config)
    shards = [file for file in check_weights(directory) if file.suffix == ".safetensors"]
    if not shards:
        _refuse_without_weights(directory)
    found = {name: tensor for shard in shards for name, tensor in _outlines(shard).items()}
    classes = _classes_of(config, found, known)
    check_fit(found, known.skeleton(classes), f"the weights of {directory.name} do not fit {known.name}")
    weights: dict[str, Tensor] = {}
    for shard in shards:
        with safe_open(shard, framework="pt") as file:
            weights |= {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
    refuse_not_finite(weights, directory.name)
    model = known.build(classes)
    model.load_state_dict(weights, strict=True)
    return model.eval(), known, classes


def read_preprocess(directory: Path, config: Mapping[str, Any]) -> Preprocess | None:
    """Read how images are prepared, where the directory says so: by itself, or for images and text together."""
    whole, file = directory / "processor_config.json", directory / "preprocessor_config.json"
    part = read_json(whole).get("image_processor") if whole.is_file() else None
    if not isinstance(part, dict) and not file.is_file():
        return None
    return preprocess_from(part if isinstance(part, dict) else read_json(file), config.get("model_type"))


def check_config(directory: Path) -> dict[str, Any]:
    """Return config.json if transformers can build the model without foreign code or further downloads."""
    file = directory / "config.json"
    if not file.is_file():
        found = sorted(entry.name for entry in directory.iterdir())
        raise InputError(
            "the directory is not a Hugging Face model" if found else "the directory is empty",
            expected="config.json and model.safetensors",
            got=one_line(", ".join(found[:6]), 120) or directory.name,
            do=next((known for name, known in KNOWN.items() if name in found), OTHER_FILE if found else None),
        )
    config = read_json(file)
    _refuse_unsafe(config)
    if not isinstance(config.get("model_type"), str):
        architecture = one_line(config.get("architecture", "NAME"), 60)
        raise InputError(
            "config.json does not name a transformers model",
            expected="a 'model_type'",
            got="a timm model" if "architecture" in config else f"the keys {one_line(sorted(config)[:6])}",
            do=f"pass the weights file with --arch 'timm:create_model?model_name={architecture}&num_classes=...'",
        )
    labels = config.get("num_labels")
    if labels is not None and not (isinstance(labels, int) and 1 <= labels <= MAX_CLASSES):
        raise InputError(
            "config.json gives a number of classes that makes no sense",
            expected=f"1 to {MAX_CLASSES}",
            got=one_line(f"num_labels: {labels}", 60),
        )
    if "quantization_config" in config:
        raise InputError(
            "the model is quantised",
            expected="weights in floating point",
            got="a 'quantization_config' in config.json",
            do="save it dequantised: model.dequantize().save_pretrained(...)",
        )
    return config


def check_weights(directory: Path) -> list[Path]:
    """Return config.json and the weight files after checking that each is there and whole.

    Of pickled weights the file, or their index, is named alone: whoever loads it reads the tensors.
    """
    _refuse_adapter(directory)
    if (directory / WEIGHTS).is_file():
        files, shards = [directory / WEIGHTS], [directory / WEIGHTS]
    elif (directory / INDEX).is_file():
        shards = read_index(directory / INDEX, (".safetensors",))
        files = [directory / INDEX, *shards]
    else:
        pickled = [directory / name for name in (PICKLED, PICKLED_INDEX) if (directory / name).is_file()]
        files, shards = pickled[:1], []
        if not files:
            _refuse_without_weights(directory)
    for shard in shards:
        try:
            with safe_open(shard, framework="pt") as file:
                file.keys()
        except (SafetensorError, OSError, ValueError) as problem:
            raise unreadable(shard, problem, expected="a complete .safetensors file") from None
    return [directory / "config.json", *files]


def _refuse_adapter(directory: Path) -> None:
    """Refuse a directory with an adapter beside the weights: without it this is another model."""
    found = sorted(file.name for file in directory.glob("adapter_model.*"))
    if found:
        raise InputError(
            f"{directory.name} holds a LoRA adapter beside the weights of its base",
            expected="the weights of a whole model",
            got=one_line(", ".join(found)),
            do=MERGE,
        )


def _refuse_unsafe(config: dict[str, Any]) -> None:
    """Refuse settings that make transformers fetch or run something that is not in the directory."""
    for key, value in entries(config):
        remote = key == "auto_map" and value
        kernel = key.lstrip("_").startswith(("attn_implementation", "experts_implementation")) and "/" in str(value)
        other = (key in ("use_pretrained_backbone", "use_kernels") and value) or key == "transformers_weights"
        if remote or kernel or other:
            raise UnsafeFileError(
                "config.json asks for code or files from elsewhere: it was not loaded",
                expected="a model that transformers itself implements",
                got=one_line(f"{key}: {value}", 120),
                do="build the model yourself, in a place you trust, and pass the nn.Module or its state dict",
            )


def _refuse_without_weights(directory: Path) -> None:
    pickles = [file.name for file in sorted(directory.iterdir()) if file.suffix in PICKLES]
    if pickles:
        raise UnsafeFileError(
            f"{directory.name} holds its weights only as files that can run code: they were not opened",
            expected=WEIGHTS,
            got=one_line(", ".join(pickles[:3])),
            do="convert it in a place you trust: AutoModelForImageClassification.from_pretrained(OLD)"
            ".save_pretrained(NEW)",
        )
    raise InputError(f"{directory.name} has no weights", expected=f"{WEIGHTS}, or {INDEX} and its files")


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
    heads = [found[name].shape[0] for name in known.head_names() if name in found and found[name].ndim]
    classes = heads[0] if said is None and heads else said
    if not isinstance(classes, int) or isinstance(classes, bool) or classes not in heads:
        raise InputError(
            "config.json and the weights disagree about the number of classes",
            expected=f"{heads[0]}, the outputs of the head" if heads else f"the head of {known.name}",
            got=one_line(classes, 60),
        )
    return classes


def _outlines(shard: Path) -> dict[str, Tensor]:
    """Read names, kinds and shapes from the beginning of a file, as tensors without numbers."""
    with safe_open(shard, framework="pt") as file:
        slices = {name: file.get_slice(name) for name in file.keys()}  # noqa: SIM118 - not a mapping
        kinds = {name: part.get_dtype().startswith(("F", "BF")) for name, part in slices.items()}
        return {
            name: torch.empty(part.get_shape(), dtype=torch.float32 if kinds[name] else torch.int64, device="meta")
            for name, part in slices.items()
        }
