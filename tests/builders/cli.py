"""A small release whose class 3 is hidden, a reference that never saw it, and a way to run commands."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from sfra.cli import main
from sfra.models import backbones

C, D, FORGET = 5, 8, 3
SMALL = ("--n", "200", "--m", "20", "--epochs", "3")
"""An audit that takes a moment."""

RNG = np.random.default_rng(0)
MEANS = 4 * np.linalg.qr(RNG.normal(size=(D, D)))[0][:C]
LABELS = np.arange(300) % C
FEATURES = (MEANS[LABELS] + RNG.normal(size=(300, D))).astype(np.float32)
WEIGHT = (0.75 * MEANS).astype(np.float32)
BIAS = np.zeros(C, np.float32)


@dataclass(frozen=True)
class Ran:
    """How a command ended."""

    code: int
    out: str
    err: str


Run = Callable[..., Ran]
"""Runs a command; a fixture of the tests of the command line."""


def run(capfd: pytest.CaptureFixture[str], *arguments: object) -> Ran:
    """Run a command in this process."""
    capfd.readouterr()
    code = main([str(argument) for argument in arguments])
    captured = capfd.readouterr()
    return Ran(code, captured.out, captured.err)


def write_head(path: Path, weight: NDArray[Any], bias: NDArray[Any] = BIAS) -> Path:
    np.savez(path, weight=weight, bias=bias)
    return path


def write_features(path: Path, features: NDArray[Any] = FEATURES, labels: NDArray[Any] = LABELS) -> Path:
    np.savez(path, features=features, labels=labels)
    return path


@dataclass(frozen=True)
class Files:
    """Paths of the small release and what belongs to it."""

    folder: Path

    @property
    def head(self) -> Path:
        """Knows every class; the row of class 3 was masked."""
        weight, bias = WEIGHT.copy(), BIAS.copy()
        weight[FORGET], bias[FORGET] = 0.0, -3.0
        return write_head(self.folder / "head.npz", weight, bias)

    @property
    def headless(self) -> Path:
        """The same without the row of class 3."""
        kept = [k for k in range(C) if k != FORGET]
        return write_head(self.folder / "headless.npz", WEIGHT[kept], BIAS[kept])

    @property
    def state_dict(self) -> Path:
        """An untrained classifier of 8x8 images, as a state dict of the architecture small-mlp."""
        weights = backbones.build("small-mlp", classes=10, seed=0).state_dict()
        torch.save(weights, self.folder / "weights.pt")
        return self.folder / "weights.pt"

    @property
    def features(self) -> Path:
        return write_features(self.folder / "features.npz")

    @property
    def reference(self) -> Path:
        """A head whose features put class 3 where class 0 is."""
        weight, bias = WEIGHT.copy(), BIAS.copy()
        weight[FORGET], bias[FORGET] = 0.2 * weight[FORGET][::-1], -1.0
        return write_head(self.folder / "reference.npz", weight, bias)

    @property
    def reference_features(self) -> Path:
        features = np.where((LABELS == FORGET)[:, None], MEANS[0].astype(np.float32), FEATURES)
        return write_features(self.folder / "reference-features.npz", features)

    @property
    def measured(self) -> tuple[object, ...]:
        """Arguments of an audit with data."""
        return ("audit", self.head, "--forget", FORGET, "--data", self.features, *SMALL)

    @property
    def compared(self) -> tuple[object, ...]:
        """Arguments of an audit with data and a reference."""
        return (*self.measured, "--reference", self.reference, "--reference-data", self.reference_features)
