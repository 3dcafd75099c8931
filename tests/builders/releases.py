"""What a loaded model answers, and a file that would run code."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from torch import Tensor

from sfra.release import Encoder, Release


class Bomb:
    """What makes a folder when it is unpickled."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.folder),)


def encoder(release: Release) -> Encoder:
    """Return the encoder of a release that has one."""
    assert release.encoder is not None
    return release.encoder


def answer(release: Release, images: Tensor) -> Tensor:
    """Return the logits of the head on the encoder's features."""
    return release.head(encoder(release)(images))
