"""Compute the published experiments on a GPU, in as many sittings as it takes, and take the results home.

    python benchmarks/reproduce.py run --store STORE --device cuda --workers 12     # goes on where it stopped
    sfra bench pack PROTOCOL… --store STORE --out results.tar.gz                    # megabytes, without the models
    python benchmarks/reproduce.py heads --store STORE --out heads.tar.gz --protocols PROTOCOL…   # of one group
    sfra bench unpack results.tar.gz --store STORE                                  # on another machine
    python benchmarks/reproduce.py keep --store STORE --out reproduction            # what is committed of it
    python benchmarks/reproduce.py report --out reproduction-report                 # all that is made of that

All protocols are one grid, so that the GPU is never idle between them; NVIDIA's multi-process service is started where
it is installed. Goals are finished class by class, so that a sitting may end at any time; only the cells that were
being computed are lost. Linear probes starve beside trainings: ``--ready --only what=linear-probe --device cpu``
computes those whose features are there, in a process of its own. ``--only NAME=VALUE,…`` computes a part, as
``sfra bench run`` does: ``--only method=original`` the originals.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from reproduction.heads import own_goals, take_heads
from sfra.bench.engine.run import run
from sfra.bench.engine.store import Store
from sfra.bench.engine.summary import Progress
from sfra.bench.plan import Goal, parse_only

PROTOCOLS = (
    "cifar10-resnet18",
    "cifar10-resnet18-multi",
    "cifar10-resnet18-ablations",
    "cifar10-resnet18-published",
    "cifar10-resnet18-steps",
    "cifar10-resnet18-long-steps",
    "cifar100-resnet18",
    "cifar100-resnet18-scales",
)


def turn(goal: Goal) -> tuple[bool, bool, str, bool]:
    """Sort goals so that a run that is cut short has whole classes.

    Class by class, its reference first, then the linear probes, which are slow beside others, then ablations.
    """
    reference = goal.identity["method"] in ("original", "retrained")
    main = goal.identity.get("audit", "main") == "main"
    return not main, goal.what == "linear-probe", str(goal.identity.get("forget", "")), not reference


def share_gpu() -> None:
    """Start the multi-process service, if it is there and not running yet."""
    control = shutil.which("nvidia-cuda-mps-control")
    if control is None or "CUDA_MPS_PIPE_DIRECTORY" in os.environ:
        return
    folder = tempfile.mkdtemp(prefix="mps-")
    os.environ |= {"CUDA_MPS_PIPE_DIRECTORY": folder, "CUDA_MPS_LOG_DIRECTORY": folder}
    if subprocess.run([control, "-d"], check=False).returncode != 0:  # noqa: S603 - as the PATH has it
        del os.environ["CUDA_MPS_PIPE_DIRECTORY"], os.environ["CUDA_MPS_LOG_DIRECTORY"]


def tell(progress: Progress) -> None:
    """Print a line for each cell that ends."""
    if progress.event in ("written", "failed", "again"):
        note = f": {progress.message}" if progress.event != "written" else ""
        counts = f"{progress.done} done, {progress.left} left, {progress.failed} failed"
        label = progress.cell.label if progress.cell else ""
        print(f"{time.strftime('%H:%M:%S')}  {counts}  {progress.event} {label}{note}", flush=True)


def compute(asked: argparse.Namespace) -> int:
    """Compute what the store lacks."""
    store, only = Store(asked.store), parse_only(asked.only)
    goals = [goal for _, some in own_goals(asked.protocols) for goal in some if goal.matches(only)]
    cells = [goal.cell for goal in sorted(goals, key=turn)]
    if asked.ready:
        cells = [cell for cell in cells if all(store.is_done(need) for need in cell.needs.values())]
    if asked.device.startswith("cuda"):
        share_gpu()
    devices = tuple(asked.device.split(","))
    summary = run(cells, store, workers=asked.workers, devices=devices, in_turn=True, progress=tell)
    print(summary)
    return 0 if summary.complete else 1


def main() -> int:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True, dest="command")
    for name in ("run", "heads", "keep", "report"):
        command = commands.add_parser(name)
        if name != "report":
            command.add_argument("--store", type=Path, required=True)
            command.add_argument("--protocols", nargs="+", default=PROTOCOLS)
        if name == "run":
            command.add_argument("--device", default="cpu")
            command.add_argument("--workers", type=int)
            command.add_argument("--only", help="only a part, such as method=retrained")
            command.add_argument("--ready", action="store_true", help="only what no model has to be made for")
        else:
            command.add_argument("--out", type=Path, required=True)
        if name == "keep":
            command.add_argument("--models", type=Path, nargs="*", default=[], help="archives with facts and heads")
    asked = parser.parse_args()
    if asked.command == "run":
        return compute(asked)
    if asked.command == "heads":
        print(f"{asked.out}: {take_heads(asked.protocols, Store(asked.store, read_only=True), asked.out)} heads")
    elif asked.command == "keep":
        from reproduction.keep import keep

        keep(asked.protocols, Store(asked.store, read_only=True), asked.out, asked.models)
    else:
        from reproduction.report import make_documents, make_report

        make_documents()
        make_report(asked.out)
    return 0


if __name__ == "__main__":
    sys.exit(main())
