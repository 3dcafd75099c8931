"""What a case is, and the networks that the cases save."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sfra.models import backbones

ARCH, CLASSES, IMAGE = "small-cnn", 7, (1, 8, 8)
Weights = dict[str, Tensor]
Logits = Callable[[Tensor], Tensor]


@dataclass(frozen=True, kw_only=True)
class Made:
    """What is passed to ``sfra.load``, and what it must come to."""

    source: object
    """A file, a directory, or a module in memory."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """``arch``, ``key`` and ``head_key``, as on the command line."""
    logits: Logits | None = None
    """The network before it was saved, up to its logits; None where the checkpoint is to be refused."""
    shape: tuple[int, ...] = IMAGE
    """One input of the network; one vector of features for a head alone."""


Maker = Callable[[Path], Made]


@dataclass(frozen=True, kw_only=True)
class Case:
    """A kind of checkpoint, and what must come of it."""

    group: str
    make: Maker
    way_out: str | None = None
    """What the refusal must say; None: it is loaded, with equal logits."""


CASES: dict[str, Case] = {}
"""Every kind of checkpoint by what it is."""

EXAMPLE = torch.randn(2, *IMAGE, generator=torch.Generator().manual_seed(2))
"""A batch for networks that say nothing of their input."""


def add(group: str, cases: Mapping[str, Maker | tuple[Maker, str]], to: dict[str, Case] = CASES) -> None:
    """Add cases: makers of what is loaded, and pairs of a maker and the way out of its refusal."""
    for name, case in cases.items():
        make, way_out = case if isinstance(case, tuple) else (case, None)
        assert name not in to
        to[name] = Case(group=group, make=make, way_out=way_out)


def refused(name: str, write: Callable[[Path], object], **options: Any) -> Maker:
    """Let a function write a file that is refused; ``options`` are those of ``load``."""

    def make(folder: Path) -> Made:
        with silent():
            write(folder / name)
        return Made(source=folder / name, options=options)

    return make


@contextmanager
def silent() -> Iterator[None]:
    """Keep exporters and old functions of torch from warning."""
    logging.disable(logging.WARNING)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logging.disable(logging.NOTSET)


def network(seed: int = 3) -> nn.Module:
    """The network of most cases, with batch norm that remembers something."""
    model = backbones.build(ARCH, classes=CLASSES, seed=seed)
    model.train()(torch.randn(16, *IMAGE, generator=torch.Generator().manual_seed(0)))
    return model.eval()


def seeded(build: Callable[[], nn.Module]) -> nn.Module:
    """Build a network from a seed of its own, in eval mode."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return build().eval()


def behind(prefix: str, weights: Mapping[str, Tensor]) -> Weights:
    """Put a prefix before every name."""
    return {f"{prefix}{name}": tensor for name, tensor in weights.items()}


def dense(classes: int = CLASSES) -> nn.Module:
    """A network of two layers, that of ``SOURCE``."""
    return seeded(lambda: nn.Sequential(nn.Flatten(), nn.Linear(64, 16), nn.ReLU(), nn.Linear(16, classes)))


def shrunk() -> nn.Module:
    """Quantise a network dynamically."""
    with silent():
        small: nn.Module = torch.ao.quantization.quantize_dynamic(dense(), {nn.Linear}, dtype=torch.qint8)
    return small
