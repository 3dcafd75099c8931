"""What tables call methods, data sets and backbones, and in which order they come."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import PurePath
from typing import Any

from sfra.core.errors import counted

METHODS = {
    "original": "Original",
    "retrained": "Retrained",
    "finetune": "Finetune",
    "negative-gradient": "Negative Gradient",
    "negative-gradient-plus": "Negative Gradient+",
    "random-label": "Random Label",
    "boundary-shrink": "Boundary Shrink",
    "learn-to-unlearn": "Learn to Unlearn",
    "scrub": "SCRUB",
    "bad-teacher": "Bad Teacher",
    "salun": "SalUn",
    "delete": "DELETE",
}
"""In the order of every table; others follow alphabetically."""

CONTROLS = {"masked": "Masked (control)"}
"""Models that check the audit; they come last."""

DATASETS = {"cifar10": "CIFAR-10", "cifar100": "CIFAR-100", "tiny-imagenet": "TinyImageNet", "digits": "Digits"}

BACKBONES = {
    "resnet18-small": "ResNet-18",
    "vit-b-16": "ViT-B/16",
    "swin-t": "Swin-T",
    "swin-t-small": "Swin-T, windows of 3",
    "vit-small": "ViT, patches of 4",
    "small-cnn": "small CNN",
    "small-mlp": "small MLP",
}

STAGES = ("original", "unlearned", "pra", "sfra", "linear_probe")
"""What is measured of a model, in the order of every table."""

LEVELS = ("gaussian", "uniform", "laplace", "relu-gaussian", "abs-gaussian", "softmax", "entropy", "energy")
"""Values of ablated settings, in the order of every table."""

Row = Mapping[str, Any]
"""One audit, control or failure."""


def method_name(name: str) -> str:
    """Return a method's name for readers; an unknown one stays as it is.

    >>> method_name("negative-gradient-plus"), method_name("mine")
    ('Negative Gradient+', 'mine')
    """
    return METHODS.get(name) or CONTROLS.get(name, name)


def count_methods(names: Iterable[str]) -> str:
    """Count methods in a sentence, and the control apart.

    >>> count_methods(["scrub", "masked", "delete"]), count_methods(["scrub"])
    ('2 methods and the control', '1 method')
    """
    some = set(names)
    methods = counted(len(some - set(CONTROLS)), "method", "methods")
    return f"{methods} and the control" if some & set(CONTROLS) else methods


def dataset_name(name: str) -> str:
    """Return a data set's name for readers; of a folder or file, its last part.

    >>> dataset_name("cifar10"), dataset_name("/data/flowers/")
    ('CIFAR-10', 'flowers')
    """
    return DATASETS.get(name) or PurePath(name).name or name


def backbone_name(name: str) -> str:
    """Return a backbone's name for readers."""
    return BACKBONES.get(name, name)


def forget_name(row: Row) -> str:
    """Return the forget classes of a row as text: ``7`` or ``1+6``."""
    return "+".join(map(str, forget_of(row)))


def forget_of(row: Row) -> tuple[int, ...]:
    """Return the forget classes of a row, ascending."""
    classes = row.get("forget_classes")
    return tuple(sorted(map(int, str(row["forget"]).split("+") if classes is None else classes)))


def place(dataset: str, backbone: str) -> tuple[Any, ...]:
    """Order data sets and backbones: known ones first, as listed, then by name."""
    return _rank(dataset, tuple(DATASETS)), _rank(backbone, tuple(BACKBONES))


def method_rank(name: str) -> tuple[int, str]:
    """Order methods: as listed, then others by name, then controls."""
    return (len(METHODS) + 1, name) if name in CONTROLS else _rank(name, tuple(METHODS))


def level_rank(name: str) -> tuple[int, str]:
    """Order the values of an ablated setting."""
    return _rank(name, LEVELS)


def _rank(name: str, known: tuple[str, ...]) -> tuple[int, str]:
    return (known.index(name), "") if name in known else (len(known), name)
