"""State dicts: tensors without code, put into an architecture that the user names, or reduced to their last layer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TypeVar

from torch import Tensor

from sfra.core.errors import InputError, meant
from sfra.core.head import Head
from sfra.release.architecture import forms, is_count, open_architecture
from sfra.release.base import Loader, Options, Release, one_line
from sfra.release.checkpoint import Checkpoint, looks_like_tensors, read_checkpoint
from sfra.release.foreign import known_names
from sfra.release.head import head_release
from sfra.release.module import load_module

MOST_PREFIXES = 8
"""Names are looked for behind this many parts of longer names, such as ``module.model.``."""

HEAD_NAMES = {"fc", "classifier", "head", "heads", "linear", "logits", "output"}
"""How the last layer is usually called: one of these tells it where the file has lost the order of the layers."""

Found = TypeVar("Found")
Weights = Mapping[str, Tensor]
Layer = tuple[Tensor, Tensor | None]


class StateDictLoader(Loader):
    """A file of tensors: a whole state dict, as training scripts save it, or the two tensors of a head."""

    name = "state-dict"
    description = "a state dict (.safetensors, .pt, .pth, .bin, .ckpt, ...) with --arch"
    suffixes = (".safetensors", ".pt", ".pth", ".bin", ".ckpt")
    takes_arch = True

    def accepts(self, source: object) -> bool:
        """Look at the first bytes of a file with another name."""
        return super().accepts(source) or (isinstance(source, Path) and source.is_file() and looks_like_tensors(source))

    def load(self, source: Path, options: Options) -> Release:
        """Put the tensors into the architecture that the user names, and split the model; or take the head alone."""
        checkpoint = read_checkpoint(source)
        of_key = "" if options.key is None else f" [{one_line(options.key, 120)}]"
        if options.arch is None:
            _refuse_derived(checkpoint, {})
            layer, head = last_layer(checkpoint, key=options.key, head_key=options.head_key)
            of_layer = f" (layer {one_line(layer, 120)})" if layer else ""
            return head_release(head, f"head file {source.name}{of_key}{of_layer}")
        if options.head_key is not None:
            raise InputError(
                "a head by name belongs to a state dict without an architecture",
                got=f"--head-key {options.head_key} with --arch",
                do="leave one of them out: with --arch the head is found by running the model",
            )
        network = open_architecture(options.arch)
        _refuse_derived(checkpoint, network.own)
        part, prefix = choose(_candidates(checkpoint, network.own), checkpoint, options.key) or ("", "")
        tensors = checkpoint.parts[part].items()
        weights = {name[len(prefix) :]: tensor for name, tensor in tensors if name.startswith(prefix)}
        try:
            model = network.filled(weights)
        except RuntimeError as problem:
            raise InputError(f"{source.name} cannot be loaded into {network.name}", got=one_line(problem)) from problem
        name = f"state dict {source.name}{of_key} ({network.name})"
        return load_module(model, options, shapes=network.shapes, source=name)


def _refuse_derived(checkpoint: Checkpoint, own: Weights) -> None:
    """Refuse what is not the weights themselves: an adapter, or quantised weights."""
    known = known_names((name for part in checkpoint.parts.values() for name in part), own)
    if known is not None:
        what, do = known
        raise InputError(f"{checkpoint.name} holds {what}", expected="the weights of a whole model", do=do)


def last_layer(checkpoint: Checkpoint, *, key: str | None, head_key: str | None) -> tuple[str, Head]:
    """Return name and head of the last linear layer of a state dict, or of the layer that the user names."""
    found = {part: (_linear_layers(tensors, head_key), tensors) for part, tensors in checkpoint.parts.items()}
    layers, tensors = choose({part: some for part, some in found.items() if some[0]}, checkpoint, key) or ({}, {})
    if not layers:
        names = [name for tensors in checkpoint.parts.values() for name in tensors]
        linear = [name for tensors in checkpoint.parts.values() for name in _linear_layers(tensors, None)]
        what = "has no linear layer" if head_key is None else f"has no linear layer {head_key!r}"
        raise InputError(
            f"{checkpoint.name} is a state dict, and {what}",
            expected="NAME.weight [classes, features] and NAME.bias [classes], to audit the head alone;"
            f" or the architecture: {forms()}",
            got=one_line(f"{len(names)} tensors: {', '.join((linear or names)[-3:])}, ...", 160),
            do=meant(head_key or "", linear) or "pass --arch (in Python: arch=), or --head-key NAME (head_key=)",
        )
    usual = [name for name in layers if _usual(name)]
    last = list(layers)[-1] if checkpoint.ordered or len(layers) == 1 else usual[0] if len(usual) == 1 else None
    alike = [name for name in layers if last is None or layers[name][0].shape == layers[last][0].shape]
    if last is not None and last not in (wanted(head_key), ""):
        alike += _rivals(last, tensors, ordered=checkpoint.ordered)
    if last is None or len(alike) > 1:
        weights = {name: tensors[f"{name}.weight" if name not in tensors else name] for name in reversed(alike)}
        raise InputError(
            f"{checkpoint.name} does not say which of its layers is the head",
            expected="--arch, or --head-key with the name of the last linear layer (in Python: arch=, head_key=)",
            got=one_line(", ".join(f"{name} {list(weight.shape)}" for name, weight in weights.items()), 300),
            do="pass --arch: the network puts together what is kept in parts"
            if alike[-1] in tensors
            else f"for the head alone, such as --head-key {one_line(alike[-1], 120)}",
        )
    return last, Head(*layers[last])


def wanted(head_key: str | None) -> str | None:
    """Return the name of the layer that the user names."""
    return None if head_key is None else head_key.removesuffix(".weight")


def _usual(name: str) -> bool:
    return bool(HEAD_NAMES & set(name.split(".")))


def _rivals(last: str, tensors: Weights, *, ordered: bool) -> list[str]:
    """Name what may be the head in the place of a layer with a bias: a matrix without one, a convolution, parts of it.

    Where the order of the layers is known, that is what comes after the layer; else all matrices without a bias, unless
    the layer has the usual name of a head.
    """
    names = [name for name, tensor in tensors.items() if tensor.is_floating_point() and tensor.ndim > 1]
    if ordered:
        found = names[names.index(f"{last}.weight") + 1 :]
    else:
        found = [] if _usual(last) else [name for name in names if f"{name.removesuffix('weight')}bias" not in tensors]
    return [name.removesuffix(".weight") for name in found]


def _linear_layers(tensors: Weights, head_key: str | None) -> dict[str, Layer]:
    """Return the layers with a bias for each row; the one that the user names may be a convolution, or have no bias."""
    layers: dict[str, Layer] = {}
    for key, weight in tensors.items():
        name, bias = key.removesuffix("weight"), tensors.get(f"{key.removesuffix('weight')}bias")
        bare = not tensors.keys() - {"weight", "bias"}
        asked = bare or wanted(head_key) in (None, name.removesuffix("."))
        if name == key or not weight.is_floating_point() or not asked:
            continue
        alone = bare or head_key is not None
        matrix = weight.flatten(1) if alone and weight.shape[2:] == (1, 1) else weight
        if matrix.ndim == 2 and (alone if bias is None else bias.shape == matrix.shape[:1]):
            layers[name.removesuffix(".")] = matrix, bias
    return layers


def _candidates(checkpoint: Checkpoint, own: Weights) -> dict[str, tuple[str, str]]:
    """Find everything in a checkpoint that has exactly the names of an architecture: part and prefix, by its full name.

    A key such as ``model.conv.weight`` counts for the prefixes ``""``, ``model.`` and ``model.conv.``: a prefix fits if
    the names behind it are those of the architecture, all of them and no other. Where none fits, the one that comes
    closest is returned, for the message that says what differs.
    """
    fitting: dict[str, tuple[str, str]] = {}
    best, closest = -1, ("", "")
    for part, tensors in checkpoint.parts.items():
        behind, shared = Counter[str](), Counter[str]()
        for name in (one for one in tensors if not is_count(one)):
            for prefix in _prefixes(name):
                behind[prefix] += 1
                shared[prefix] += name[len(prefix) :] in own
        for prefix, count in shared.items():
            if count == behind[prefix] == len([name for name in own if not is_count(name)]):
                fitting[f"{part}.{prefix}".strip(".")] = part, prefix
            if count > best:
                best, closest = count, (part, prefix)
    return fitting or {"": closest}


def _prefixes(name: str) -> Iterator[str]:
    """Yield the beginnings of a name that end in a dot, the empty one first.

    >>> list(_prefixes("module.fc.weight"))
    ['', 'module.', 'module.fc.']
    """
    yield ""
    parts = name.split(".", MOST_PREFIXES)[:-1]
    for count in range(1, len(parts) + 1):
        yield ".".join(parts[:count]) + "."


def choose(candidates: Mapping[str, Found], checkpoint: Checkpoint, key: str | None) -> Found | None:
    """Return the only candidate, or the one under a key."""
    if len(candidates) <= 1 and key is None:
        return next(iter(candidates.values()), None)
    exact = [name for name in candidates if name == key]
    under = exact or [name for name in candidates if key is None or name.startswith(f"{key}.")]
    if len(under) == 1:
        return candidates[under[0]]
    several = f"{checkpoint.name} holds {len(candidates)} sets of weights that fit"
    first = one_line(next(iter(candidates), ""), 120)
    raise InputError(
        several if under else f"{checkpoint.name} has no weights that fit under the key {key!r}",
        expected="one, or the name of the one to audit",
        got=one_line(", ".join(name or "one, at the top" for name in candidates) or "none", 300),
        do=f"pass --key NAME (in Python: key=), such as --key {first}" if first else "leave the key out",
    )


def leads_somewhere(file: Path, key: str) -> bool:
    """Tell whether a checkpoint has tensors under a key, or several sets of them: a bare state dict has neither."""
    parts = read_checkpoint(file).parts
    under = any(f"{part}.{name}".strip(".").startswith(f"{key}.") for part, names in parts.items() for name in names)
    return under or parts.keys() != {""}
