"""Go on where a training run stopped: everything that determines its remaining steps, in one file."""

from __future__ import annotations

import hashlib
import io
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from sfra.core.batches import Samples
from sfra.core.errors import InputError
from sfra.core.files import write_atomically

FORMAT = "sfra.training/2"

LOOKED_AT = 64
"""Samples, evenly spread, by which a data set is recognised, besides all its labels."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Moving:
    """What changes while a network is trained."""

    student: nn.Module
    """Weights and statistics."""
    optimizer: torch.optim.Optimizer
    """For what it keeps of each weight: momentum, moments, steps."""
    generators: Sequence[torch.Generator]
    """Every source of random numbers, in a fixed order."""

    def state(self) -> dict[str, Any]:
        """Return all of it as tensors."""
        known = [self.optimizer.state[weight] for weight in self.student.parameters()]
        momenta = [{name: value for name, value in one.items() if isinstance(value, Tensor)} for one in known]
        return {
            "model": self.student.state_dict(),
            "momenta": momenta,
            "generators": [generator.get_state() for generator in self.generators],
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Bring all of it back; a momentum gets the memory layout of its weight, as fused steps need."""
        self.student.load_state_dict(state["model"])
        for weight, momenta in zip(self.student.parameters(), state["momenta"], strict=True):
            for name, value in momenta.items():
                alike = value.shape == weight.shape
                kept = torch.empty_like(weight).copy_(value).detach() if alike else value.to(weight.device)
                self.optimizer.state[weight][name] = kept
        for generator, past in zip(self.generators, state["generators"], strict=True):
            generator.set_state(past)


class Resume:
    """A file that a run can go on from: written whole or not at all, read without unpickling."""

    def __init__(self, path: Path, run: dict[str, str], *, seconds: float) -> None:
        self.path, self.run, self.seconds = path, run, seconds
        self.written = time.monotonic()

    def load(self, moving: Moving) -> list[float]:
        """Bring back the last state and return the losses so far; none where there is no file.

        Raises:
            InputError: The file belongs to another run, or is no such file.
        """
        if not self.path.exists():
            return []
        try:
            saved = torch.load(self.path, map_location="cpu", weights_only=True)
            assert saved["format"] == FORMAT
            assert isinstance(saved["run"], dict)
        except Exception as problem:  # whatever lies there, it is not ours
            raise self._unusable(problem) from None
        other = [part for part, value in self.run.items() if saved["run"].get(part) != value]
        if other:
            raise InputError(
                "the unfinished training belongs to another run",
                expected=f"the same {', '.join(self.run)}",
                got=f"another {', '.join(other)} in {self.path}",
                do="repeat the settings of that run to continue it, or delete the file to start over",
            )
        try:
            moving.restore(saved["state"])
            return [float(loss) for loss in saved["losses"]]
        except Exception as problem:  # of this run by its own words, but not of this network
            raise self._unusable(problem) from None

    def save(self, moving: Moving, losses: list[float], *, last: bool) -> None:
        """Write the state after an epoch, if it is the last or enough time has passed."""
        if not last and time.monotonic() - self.written < self.seconds:
            return
        buffer = io.BytesIO()
        torch.save({"format": FORMAT, "run": self.run, "losses": losses, "state": moving.state()}, buffer)
        write_atomically(self.path, buffer.getvalue())
        self.written = time.monotonic()

    def _unusable(self, problem: Exception) -> InputError:
        return InputError(
            "the unfinished training cannot be read",
            expected=f"a file that a training run left ({FORMAT})",
            got=f"{self.path}: {type(problem).__name__}",
            do="delete it to start over",
        )


def describe_run(
    model: nn.Module, data: Samples, settings: dict[str, Any], seed: int, device: torch.device
) -> dict[str, str]:
    """Describe what determines a run, part by part; the data by its labels and a look at some samples."""
    spread = torch.linspace(0, len(data.labels) - 1, min(LOOKED_AT, len(data.labels))).long()
    return {
        "training": json.dumps(settings, sort_keys=True),
        "seed": str(seed),
        "device": device.type,
        "data": _hash(data.labels, data.take(spread)),
        "starting model": _hash(*model.state_dict().values()),
    }


def _hash(*tensors: Tensor) -> str:
    digest = hashlib.sha256()
    for tensor in tensors:
        flat = tensor.detach().cpu().contiguous()
        digest.update(f"{tuple(flat.shape)} {flat.dtype};".encode())
        digest.update(flat.reshape(-1).view(torch.uint8).numpy().data)
    return digest.hexdigest()
