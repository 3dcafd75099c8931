"""The loops of the streams on a torch device, in torch and as Triton kernels."""

from __future__ import annotations

import os
import sys
from importlib.metadata import version
from importlib.util import find_spec
from types import ModuleType

import pytest
import torch

from sfra.attack.probes import torch_loops

DEVICE = torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""Where tests of them run: on a GPU the kernels as they are, elsewhere in Triton's interpreter."""


def open_loops(name: str) -> ModuleType:
    """Return the loops of a name; those in torch show that a test itself is right.

    The interpreter must be chosen before Triton is imported for the first time.
    """
    if name == "torch":
        return torch_loops
    if not find_spec("triton"):
        pytest.skip("Triton is not installed")
    if DEVICE.type == "cpu":
        if "triton" in sys.modules and os.environ.get("TRITON_INTERPRET") != "1":
            pytest.skip("Triton was imported without its interpreter: set TRITON_INTERPRET=1")
        if tuple(map(int, version("triton").split(".")[:2])) < (3, 7):
            pytest.skip("Triton's interpreter runs loops with the numpy of today from 3.7 on")
        os.environ["TRITON_INTERPRET"] = "1"
    from sfra.attack.probes import triton_loops

    return triton_loops
