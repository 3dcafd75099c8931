"""``sfra demo``: the whole story on embedded real data."""

from __future__ import annotations

from sfra.cli import options as opt
from sfra.cli.command import check_folder, print_json, show
from sfra.cli.made import command, print_next
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
        print_json(result.to_dict())
    elif not quiet:
        from sfra.cli.summary import demo_table

        look = f"Open {result.page} in a browser." if result.page else "Its page needs pip install 'sfra[report]'."
        kept = [f"Written to {out}.", look] if out else ["Nothing was written: pass --out DIR to keep it all."]
        show(demo_table(result.rows), "", EXPLANATION, "", *kept)
        model = {"arch": "small-cnn", "data": "digits"} if out else {}
        look_at = command("doctor", out / "models" / "delete.safetensors" if out else "MODEL", **model)
        print_next([command("explain", "recovered"), look_at])
