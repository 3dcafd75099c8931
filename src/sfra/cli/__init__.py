"""The command line: one thin file per command, each calling a public function with the same parameter names.

Nothing heavy is imported before a command really runs, so that ``sfra --help`` answers at once.
"""

from __future__ import annotations

import atexit
import gc
import io
import sys
import warnings
from collections.abc import Sequence

__all__ = ["main"]

ALLOCATED = 100_000
"""Objects after which Python looks for garbage; at its own 700 it looks a thousand times during the imports."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command and return its exit code.

    0: done. 1: a gate failed. 2: the user can fix it. 70: a defect of this program. 130: interrupted.
    """
    gc.set_threshold(ALLOCATED)
    atexit.register(gc.freeze)  # else Python looks through all modules for garbage three times before it ends
    from sfra.cli.app import app
    from sfra.cli.command import report

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a terminal that has no Δ must not end an audit
    try:
        with warnings.catch_warnings():
            # Images of that size are refused, in one message: Pillow need not warn of them as well.
            warnings.filterwarnings("ignore", message="Image size .* decompression bomb")
            app(args=None if arguments is None else [*arguments], prog_name="sfra")
    except SystemExit as end:
        return end.code if isinstance(end.code, int) else 0
    except Exception as problem:
        return report(problem)
    return 0
