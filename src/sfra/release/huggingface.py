"""Hugging Face models: a directory, or a hub id whose data files (never its code) are fetched first."""

from __future__ import annotations

import re
import shutil
import tempfile
import warnings
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

from sfra.core.errors import InputError, MissingPackageError
from sfra.release.base import LOADERS, Loader, Options, Release, clean_names, loader_of, one_line, read_json, require
from sfra.release.checkpoint import read_checkpoint
from sfra.release.directory import PICKLED, PICKLED_INDEX, WEIGHTS, check_config, check_weights, read_preprocess
from sfra.release.module import load_module
from sfra.release.size import limited

PREPARATION = ["preprocessor_config.json", "processor_config.json"]
DATA_FILES = ["config.json", *PREPARATION, "model.safetensors.index.json", "model*.safetensors"]
"""What is fetched from the hub: neither code nor pickles."""
OLD_FILES = [*DATA_FILES, PICKLED_INDEX, "pytorch_model*.bin"]
"""What is fetched of a model that has no safetensors."""


class HuggingFaceDirectory(Loader):
    """Any other directory: one that ``save_pretrained`` wrote, checked before it is opened."""

    name = "huggingface-directory"
    description = "a Hugging Face directory (config.json, model.safetensors or pytorch_model.bin)"

    def accepts(self, source: object) -> bool:
        """Take every directory, and say in :meth:`load` what is wrong with it."""
        return isinstance(source, Path) and source.is_dir()

    def load(self, source: Path, options: Options) -> Release:
        """Let transformers build the model, then split it."""
        config = check_config(source)
        prepare = options.preprocess or read_preprocess(source, config)  # a refusal need not wait for transformers
        model = load_classifier(source)
        what = options.source or f"Hugging Face directory {source.resolve().name}"
        release = load_module(
            model,
            options,
            source=f"{what} ({type(model).__name__})",
            names=clean_names(getattr(model.config, "id2label", None), int(model.config.num_labels)),
            preprocess=prepare,
        )
        return replace(release, silent=prepare is None)


class HuggingFaceId(Loader):
    """A model on the hub: its data files, never its code, are fetched first."""

    name = "huggingface-id"
    description = "a Hugging Face id (owner/name)"

    def accepts(self, source: object) -> bool:
        """Take ``owner/name`` where no such path exists; a file that is missing is no id."""
        files = tuple(suffix for loader in LOADERS for suffix in loader.suffixes)
        return isinstance(source, str) and is_id(source) and not source.endswith(files)

    def load(self, source: str, options: Options) -> Release:
        """Fetch the directory, then load it as what it is."""
        directory = fetch(source)
        return loader_of(directory).load(directory, replace(options, source=f"Hugging Face model {source}"))


def is_id(name: str) -> bool:
    """Tell whether a name has the form of an id on the hub."""
    return re.fullmatch(r"[\w-][\w.-]*/[\w-][\w.-]*", name) is not None


def fetch(name: str) -> Path:
    """Fetch ``owner/name`` from the hub: data files only, and its weights only if its configuration is harmless."""
    check_config(_fetch(name, ["config.json"]))
    directory = _fetch(name, DATA_FILES)
    return directory if any(directory.glob("model*.safetensors")) else _fetch(name, OLD_FILES)


def _fetch(name: str, patterns: list[str]) -> Path:
    hub = require("huggingface_hub", extra="huggingface")
    try:
        with quiet():
            return Path(hub.snapshot_download(name, allow_patterns=patterns))
    except Exception as problem:
        raise InputError(
            f"{name} is neither a file or directory here nor a model that the Hugging Face hub gave us",
            got=one_line(f"{type(problem).__name__}: {problem}"),
            do="check the path or the id (owner/name), the network, and HF_TOKEN for a private model",
        ) from None


def load_classifier(directory: Path, *, spare: Collection[str] = ()) -> Any:
    """Let transformers build the model from a folder that holds the checked files and nothing else.

    Parameters in ``spare`` may be missing, and are then random.
    """
    files = check_weights(directory)
    auto = require("transformers", extra="huggingface").AutoModelForImageClassification
    with quiet(), tempfile.TemporaryDirectory(prefix="sfra-") as folder:
        for file in files:
            if file.name in (PICKLED, PICKLED_INDEX):
                _write_tensors(file, Path(folder) / WEIGHTS)
                continue
            try:
                (Path(folder) / file.name).symlink_to(file.resolve())
            except OSError:  # a system without symbolic links
                shutil.copyfile(file, Path(folder) / file.name)
        try:
            with limited(read_json(Path(folder) / "config.json"), sorted(Path(folder).glob("*.safetensors"))):
                model, report = auto.from_pretrained(
                    folder,
                    trust_remote_code=False,
                    use_safetensors=True,
                    local_files_only=True,
                    output_loading_info=True,
                    dtype=torch.float32,
                )
        except InputError:
            raise
        except ImportError as problem:
            raise MissingPackageError(
                f"{directory.name} needs a package that is not installed",
                got=one_line(problem),
                do="install the package that is named above",
            ) from None
        except Exception as problem:
            raise InputError(
                f"transformers cannot load {directory.name} as an image classifier",
                expected="a model that AutoModelForImageClassification knows, with its weights",
                got=one_line(str(problem).replace(folder, directory.name)),
                do="audit the last layer of another kind of model: its weights with --head-key, and features in --data",
            ) from None
    _check_complete(directory, report, spare=spare)
    return own_memory(model)


def _write_tensors(pickled: Path, target: Path) -> None:
    """Read pickled weights as data, and write them as safetensors: transformers itself opens no pickle."""
    parts = read_checkpoint(pickled).parts
    if parts.keys() != {""}:
        raise InputError(
            f"{pickled.name} is not what save_pretrained writes",
            expected="names with tensors and nothing else",
            got=one_line(", ".join(parts), 120),
            do="pass the file itself, with --arch",
        )
    save_file({name: tensor.contiguous().clone() for name, tensor in parts[""].items()}, target, {"format": "pt"})


def own_memory(model: Any) -> Any:
    """Copy the weights out of the mapped file, to addresses with the alignment that torch's kernels like.

    Products of misaligned matrices are rounded differently, so a loaded model would not repeat the logits of the
    saved one; and what happens to the file later does not reach the model.
    """
    for tensor in (*model.parameters(), *model.buffers()):
        tensor.data = tensor.data.clone()
    return model


def _check_complete(directory: Path, report: Mapping[str, Any], *, spare: Collection[str]) -> None:
    """Refuse what transformers would only warn about: weights that it had to invent."""
    missing = sorted({str(key) for key in report.get("missing_keys") or ()} - set(spare))
    mismatched = sorted(map(str, report.get("mismatched_keys") or ()))
    if missing or mismatched:
        raise InputError(
            f"the weights of {directory.name} are incomplete: the rest would be random",
            expected="a value for every parameter of the model",
            got=f"{len(missing)} missing, {len(mismatched)} of another shape: "
            + one_line(", ".join((missing + mismatched)[:4])),
            do="use the directory of the fine-tuned classifier, not of its backbone",
        )


@contextmanager
def quiet() -> Iterator[None]:
    """Keep transformers from writing progress bars, logs and warnings; its settings are put back."""
    logs = require("transformers", extra="huggingface").utils.logging
    bars = require("huggingface_hub", extra="huggingface").utils
    verbosity, had_bars, had_hub_bars = (
        logs.get_verbosity(),
        logs.is_progress_bar_enabled(),
        not bars.are_progress_bars_disabled(),
    )
    logs.set_verbosity_error()
    logs.disable_progress_bar()
    bars.disable_progress_bars()
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logs.set_verbosity(verbosity)
        if had_bars:
            logs.enable_progress_bar()
        if had_hub_bars:
            bars.enable_progress_bars()
