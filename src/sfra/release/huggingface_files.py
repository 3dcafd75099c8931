"""Look at a Hugging Face directory before anything opens it: data only, complete, inside the directory."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from sfra.core.errors import InputError, UnsafeFileError
from sfra.core.text import parse_json
from sfra.release.base import one_line

WEIGHTS, INDEX = "model.safetensors", "model.safetensors.index.json"
MAX_CLASSES = 1_000_000
"""Outputs that a configuration may claim: transformers makes a name for each before it looks at the weights."""
LONGEST = 200
"""Letters of a file's name; longer ones are no names that file systems take."""
PICKLES = {".bin", ".pt", ".pth", ".ckpt", ".pkl", ".h5", ".msgpack"}


def read_json(file: Path) -> dict[str, Any]:
    """Read a JSON object, or say what is wrong with the file."""
    try:
        content = parse_json(file.read_text(encoding="utf-8"), constants=True)
    except (ValueError, OSError) as problem:
        raise InputError(
            f"{file.name} cannot be read",
            expected="a JSON object",
            got=one_line(problem),
            do="it may be truncated or damaged: download or copy it again",
        ) from None
    if not isinstance(content, dict):
        raise InputError(f"{file.name} cannot be used", expected="a JSON object", got=type(content).__name__)
    return content


def check_config(directory: Path) -> dict[str, Any]:
    """Return config.json if transformers can build the model without foreign code or further downloads."""
    file = directory / "config.json"
    if not file.is_file():
        _refuse_directory(directory)
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
    """Return config.json and the weight files after checking that each is there and whole."""
    if (directory / WEIGHTS).is_file():
        files, shards = [directory / WEIGHTS], [directory / WEIGHTS]
    elif (directory / INDEX).is_file():
        shards = _shards(directory)
        files = [directory / INDEX, *shards]
    else:
        _refuse_without_weights(directory)
    for shard in shards:
        _check_whole(shard)
    return [directory / "config.json", *files]


def _refuse_unsafe(config: dict[str, Any]) -> None:
    """Refuse settings that make transformers fetch or run something that is not in the directory."""
    for key, value in _entries(config):
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


def _entries(config: Any) -> Iterator[tuple[str, Any]]:
    """Yield every key with its value, of nested parts too."""
    waiting = [config]
    while waiting:
        part = waiting.pop()
        if isinstance(part, dict):
            yield from part.items()
        waiting.extend(part.values() if isinstance(part, dict) else part if isinstance(part, list) else ())


def _shards(directory: Path) -> list[Path]:
    mapping = read_json(directory / INDEX).get("weight_map")
    if not isinstance(mapping, dict) or not mapping or not all(isinstance(n, str) for n in mapping.values()):
        raise InputError(f"{INDEX} cannot be used", expected="a 'weight_map' from names to files")
    names = sorted(set(mapping.values()))
    outside = [name for name in names if Path(name).name != name or not name.endswith(".safetensors")]
    outside += [name for name in names if len(name) > LONGEST]
    if outside:
        raise UnsafeFileError(
            f"{INDEX} names files that are not weights of this directory: none was opened",
            expected="names of .safetensors files next to it",
            got=one_line(outside[0], 120),
        )
    missing = [name for name in names if not (directory / name).is_file()]
    if missing:
        raise InputError(
            f"{directory.name} is incomplete",
            expected=f"all {len(names)} weight files that {INDEX} names",
            got=f"{len(missing)} missing: {one_line(', '.join(missing[:3]))}",
            do="download or copy the directory again",
        )
    return [directory / name for name in names]


def _check_whole(shard: Path) -> None:
    try:
        with safe_open(shard, framework="pt") as file:
            file.keys()
    except (SafetensorError, OSError, ValueError) as problem:
        raise InputError(
            f"{shard.name} cannot be read",
            expected="a complete .safetensors file",
            got=one_line(problem),
            do="it may be truncated: download or copy it again",
        ) from None


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


def _refuse_directory(directory: Path) -> None:
    found = sorted(file.name for file in directory.iterdir())
    if not found:
        raise InputError("the directory is empty", expected="config.json and model.safetensors", got=directory.name)
    raise InputError(
        "the directory is not a Hugging Face model",
        expected="config.json and model.safetensors",
        got=one_line(", ".join(found[:6]), 120),
        do="pass the model file itself if one of these is it",
    )
