"""Paths as people write them."""

from __future__ import annotations

import os
from pathlib import Path


def written_out(path: str | os.PathLike[str]) -> Path:
    """Put the home directory in place of a leading ``~``; that of a user whom nobody knows stays, as in shells.

    >>> written_out("models/mine").as_posix()
    'models/mine'
    """
    return Path(os.path.expanduser(path))
