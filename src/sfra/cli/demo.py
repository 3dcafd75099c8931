"""``sfra demo``: the whole story on embedded real data."""

from __future__ import annotations

from pathlib import Path

from sfra.cli import options as opt
from sfra.cli.output import check_folder, dump, print_json, show
from sfra.cli.progress import showing

EXPLANATION = (
    "Accuracies in percent, before and after relearning from nothing but the head. RS: how much of the forgotten "
    "digit comes back. ΔRS: RS minus that of the reference, which never saw the digit."
)
"""How to read the table."""


def demo(
    out: opt.Out = None,
    json: opt.Json = False,
    seed: opt.Seed = 0,
    quiet: opt.Quiet = False,
    debug: opt.Debug = False,
) -> None:
    """Run the whole story on handwritten digits.

    Trains small classifiers, lets each forget a class in its own way, and audits them all. Nothing is downloaded.
    """
    check_folder(out, "demo.json", "report.html")
    with showing(quiet=quiet) as progress:
        from sfra.demo.story import run_demo

        result = run_demo(out, seed=seed, progress=progress)
    if json:
        print_json(dump(result.to_dict()))
    elif not quiet:
        from sfra.cli.tables import demo_table

        show(demo_table(result.rows), "", EXPLANATION, "", *_kept(out, result.page))


def _kept(out: Path | None, page: Path | None) -> list[str]:
    """Say what was written, and where to look."""
    if out is None:
        return ["Nothing was written: pass --out DIR to keep it all."]
    look = f"To look at it, open {page} in a browser." if page else "A page of it needs pip install 'sfra[report]'."
    return [f"Written to {out}.", look]
