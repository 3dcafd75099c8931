"""A stand-in for the Hugging Face hub."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest


class Hub:
    """Answers with a folder, or an error, and notes what it was asked."""

    def __init__(self, answer: Path | Exception) -> None:
        self.answer = answer
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def __call__(self, name: str, **options: Any) -> str:
        """Fetch."""
        self.asked.append((name, options))
        if isinstance(self.answer, Exception):
            raise self.answer
        return str(self.answer)

    @property
    def patterns(self) -> list[list[str]]:
        """The files that were asked for, call by call."""
        return [options["allow_patterns"] for _, options in self.asked]


def stand_in(monkeypatch: pytest.MonkeyPatch, folder: Path, answer: Path | Exception) -> Hub:
    """Work in a folder, with the hub out of reach."""
    hub = Hub(answer)
    monkeypatch.chdir(folder)
    monkeypatch.setattr("huggingface_hub.snapshot_download", hub)
    return hub
