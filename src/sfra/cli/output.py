"""Where results go: checked before the work begins, written at its end."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from sfra.core.errors import InputError

if TYPE_CHECKING:
    from rich.console import RenderableType

WIDEST = 104
"""Columns beyond which lines of text become hard to follow."""


def check_folder(out: Path | None, *names: str, option: str = "--out") -> None:
    """Refuse a folder that files of these names cannot be written to; creates nothing that stays."""
    if out is None:
        return
    for path in (out, *out.parents):
        if path.exists():
            _check_existing(path, out, option)
            break
    for name in names:
        if (out / name).exists() and not (out / name).is_file():
            raise InputError(
                "a result cannot be written", expected=f"a file or nothing at {out / name}", got="a folder"
            )


def _check_existing(path: Path, out: Path, option: str) -> None:
    """Refuse the nearest existing part of a path if it is no folder or takes no new file."""
    if not path.is_dir():
        raise InputError(
            "the results cannot be written there",
            expected=f"{option} with a folder, existing or not",
            got=f"{path} is a file",
        )
    try:
        with tempfile.TemporaryFile(dir=path):
            pass
    except OSError as problem:
        raise InputError(
            "the results cannot be written there",
            expected=f"{option} with a folder that you may write to",
            got=f"{out}: {problem.strerror}",
        ) from None


def print_json(text: str) -> None:
    """Print JSON on stdout as it is, with an end of line, in UTF-8 whatever the terminal's encoding."""
    lines = text if text.endswith("\n") else text + "\n"
    sys.stdout.flush()
    buffer = getattr(sys.stdout, "buffer", None)
    if buffer is None:
        sys.stdout.write(lines)
    else:
        buffer.write(lines.encode("utf-8", "replace"))
        buffer.flush()


def dump(content: Any) -> str:
    """Return plain data as the text of a JSON file."""
    return json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n"


def show(*content: RenderableType) -> None:
    """Print on stdout; without a terminal at 80 columns and without colours, never with blanks at the end of a line."""
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    console.width = min(console.width, WIDEST)
    with console.capture() as captured:
        console.print(*content, sep="\n")
    sys.stdout.write("\n".join(line.rstrip() for line in captured.get().split("\n")))
