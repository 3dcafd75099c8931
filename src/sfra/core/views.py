"""How a result is shown. Results stand below the rooms that draw; the package hands their functions down, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

VIEWS: dict[str, Callable[..., Any]] = {}
"""``summary``, ``card``, ``page`` and ``plot``, each of a result; filled where :mod:`sfra` puts its rooms together."""
