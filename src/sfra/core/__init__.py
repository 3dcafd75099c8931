"""What every room stands on: the head, errors, files, metrics. It imports nothing else of the package."""

from importlib import import_module
from typing import Any


def __getattr__(name: str) -> Any:
    """Import the metrics on first use: they need torch, and errors and paths do not."""
    if name != "metrics":
        raise AttributeError(f"module 'sfra.core' has no attribute {name!r}")
    return import_module("sfra.core.metrics")
