"""The goals of speed and memory in one table, beside what the machine itself can do.

Every piece of work runs in a fresh process, and seconds are those of the clock: leave the machine alone meanwhile. The
plain procedure is that of ``probes.py``. ``bound`` is what the random numbers and the products of the probes, or the
products of relearning, would take alone at the speeds of the same run: nothing that makes them can be faster.

    python benchmarks/goals.py                              # ten minutes on two cores
    python benchmarks/goals.py c100 audit                   # these alone; the other rows of the file stay
    python benchmarks/goals.py imagenet-head audit1000 --head head.npz     # weight and bias of a head of 1000 classes
    python benchmarks/goals.py --device cuda --head head.npz                # printed alone, without bounds
    python benchmarks/goals.py --table                      # print the stored rows and write them into the page
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch

import grid
import probes
from sfra.attack import adam_kernels
from sfra.attack.probes import codes, kernels
from sfra.bench.tables.table import Column, Table, make_table
from sfra.core.head import Head
from timing import shortest

RESULTS = Path(__file__).parent / "results"
ROWS, CEILINGS = RESULTS / "goals.csv", RESULTS / "goals-ceilings.csv"
PAGE = Path(__file__).parents[1] / "docs" / "performance.md"
SFRA = [sys.executable, "-m", "sfra"]
CORES = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
MIB = 2**20


@dataclass(frozen=True, kw_only=True)
class Row:
    """What one piece of work took; None is what was not measured."""

    name: str
    seconds: float
    memory_mib: float | None = None
    draws: int | None = None
    plain_seconds: float | None = None
    """Seconds of the plain procedure, scaled."""
    bound_seconds: float | None = None
    """Seconds of the products and random numbers alone."""


@dataclass(frozen=True, kw_only=True)
class Ceilings:
    """What all cores do at most."""

    normals: float
    """Random numbers of the normal law, per second."""
    product: float
    """Operations of a product of float32 matrices, per second."""
    half_product: float
    """The same of bfloat16 matrices."""
    copy: float
    """Bytes read and written, per second."""

    def probes(self, draws: int, classes: int, rank: int) -> float:
        """Return the seconds that the random numbers and logits of some draws take at least."""
        return draws * rank * (1 / self.normals + 2 * classes / self.product)

    def relearning(self, runs: int, classes: int, width: int, m: int, epochs: int) -> float:
        """Return the seconds that the products of some runs with ``2 M (C - 1)`` probes take at least."""
        return 4.0 * runs * classes * width * 2 * m * (classes - 1) * epochs / self.product


def ceilings() -> Ceilings:
    """Measure random numbers on one core, times the cores; products and copies with all threads.

    Products are torch's or the compiled ones of one core, times the cores: torch's leave half of some processors idle.
    """
    indices, out = np.arange(20_000), np.empty((20_000, 128), np.float32)
    normal = shortest(lambda: kernels.make_draws(indices, 0, np.uint64(0), codes.GAUSSIAN, out))
    a, b = torch.randn(2048, 2048), torch.randn(2048, 2048)
    low, many = a.bfloat16(), torch.empty(64 * MIB)
    other = torch.empty_like(many)
    rows, row, z = torch.arange(256).numpy(), a[0, :256].numpy(), torch.empty(257, 260).numpy()
    x, w = torch.randn(256, 512).numpy(), torch.randn(256, 512).numpy()
    own = shortest(lambda: adam_kernels.logits(w, row, x, rows, z, 0, 256))
    return Ceilings(
        normals=CORES * out.size / normal,
        product=max(2 * 2048**3 / shortest(lambda: a @ b), CORES * 2 * 256 * 256 * 512 / own),
        half_product=2 * 2048**3 / shortest(lambda: low @ low),
        copy=8 * len(many) / shortest(lambda: other.copy_(many)),
    )


def run(command: list[str], repeats: int = 1, code: int = 0) -> tuple[float, float]:
    """Return the shortest time of a command in seconds and its peak memory in MiB."""
    taken, peak = list[float](), 0.0
    for _ in range(repeats):
        began = time.perf_counter()
        child = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)  # noqa: S603
        while child.poll() is None:
            peak = max(peak, probes.memory("VmHWM", child.pid) / MIB)
            time.sleep(0.002)
        taken.append(time.perf_counter() - began)
        if child.returncode != code:
            sys.exit(f"{' '.join(command)} ended with {child.returncode}")
    return min(taken), peak


def draw(name: str, most: Ceilings | None, device: str) -> Row:
    """Measure the probes of a case of ``probes.py``, and the plain procedure on a part of it."""
    found = probes.measure(name, device)
    row = drawn(name, probes.CASES[name].head(), found["fast"], most)
    return replace(row, plain_seconds=found["plain"]["whole_seconds"])


def drawn(name: str, head: Head, fast: dict[str, Any], most: Ceilings | None) -> Row:
    """Set what the probes of a head took beside the bound."""
    bound = None if most is None else most.probes(fast["draws"], head.classes, min(head.classes - 1, head.width))
    spent = {"seconds": fast["seconds"], "memory_mib": fast["peak_mib"], "draws": fast["draws"]}
    return Row(name=name, bound_seconds=bound, **spent)


def write_inputs(folder: Path, head: Head) -> None:
    """Write the head with its first class masked, and features that it knows: the time does not depend on them."""
    rows = torch.nn.functional.normalize(head.weight - head.weight.mean(0), dim=1)
    labels = torch.arange(10_000) % head.classes
    features = torch.randn(len(labels), head.width, generator=torch.Generator().manual_seed(0)) + 6 * rows[labels]
    weight, bias = head.weight.clone(), head.bias.clone()
    weight[0], bias[0] = 0.0, -20.0
    np.savez(folder / "head.npz", weight=weight.numpy(), bias=bias.numpy())
    np.savez(folder / "features.npz", features=features.numpy(), labels=labels.numpy())


def audit(name: str, head: Head, most: Ceilings | None, *, repeats: int = 1, **options: int | str) -> Row:
    """Time an audit from the shell; relearning is canonical, native and with a fresh row."""
    with tempfile.TemporaryDirectory() as folder:
        write_inputs(Path(folder), head)
        named = [text for option, value in options.items() for text in (f"--{option.replace('_', '-')}", str(value))]
        files = [f"{folder}/head.npz", "--data", f"{folder}/features.npz", "--out", f"{folder}/out"]
        seconds, memory = run([*SFRA, "audit", *files, "--forget", "0", "--quiet", *named], repeats)
    runs = 3 * int(options.get("seeds", 1)) + int(options.get("self_controls", 4))
    m, epochs = int(options["m"]), int(options["epochs"])
    bound = None if most is None else most.relearning(runs, head.classes, head.width, m, epochs)
    return Row(name=name, seconds=seconds, memory_mib=memory, bound_seconds=bound)


WORK: dict[str, tuple[str, str]] = {
    "c10": ("probes, C=10 d=512 N=500K M=500", "800×"),
    "c100": ("probes, C=100 d=512 N=100K M=50", "3 s"),
    "c200": ("probes, C=200 d=768 N=50K M=25", "6 s"),
    "imagenet-head": ("probes, a real ImageNet head (1000 × 1280), N=50K M=25", "60 s, 1 GiB"),
    "c21841": ("probes, 21,841 × 768, N=5K M=5", "20 min, 4 GiB"),
    "audit": ("audit from the shell, C=10, 10,000 × 512 features, 100 epochs", "3 s"),
    "audit-hidden": ("the same with four hidden classes, the default", "–"),
    "audit100": ("audit, C=100, 10,000 × 512 features, 500 epochs, 3 seeds", "2 min"),
    "audit1000": ("audit of the ImageNet head, 10,000 × 1280 features, 100 epochs", "15 min"),
    "grid": ("110 audits of the CIFAR-10 grid from stored features, 100 epochs", "8 min"),
    "help": ("sfra --help", "0.11 s"),
    "error": ("first error", "1 s"),
}
"""Names, what they are, and the goals of two cores."""
USUAL = {
    "cpu": ("c10", "c100", "c200", "audit", "audit-hidden", "audit100", "grid", "help", "error"),
    "cuda": ("c10", "c100", "c200", "imagenet-head", "c21841", "audit", "audit100", "audit1000", "grid"),
}


def measure(name: str, head: Path | None, most: Ceilings | None, device: str) -> Row:
    """Do one piece of work."""
    if name in probes.CASES:
        return draw(name, most, device)
    ten, hundred = (probes.CASES[case].head() for case in ("c10", "c100"))
    workers = CORES if device == "cpu" else 8
    usual: dict[str, Any] = {"self_controls": 0, "device": device}
    works: dict[str, Callable[[], Row]] = {
        "audit": lambda: audit(name, ten, most, repeats=3, m=500, epochs=100, **usual),
        "audit-hidden": lambda: audit(name, ten, most, repeats=3, m=500, epochs=100, device=device),
        "audit100": lambda: audit(name, hundred, most, n=100_000, m=50, epochs=500, seeds=3, **usual),
        "grid": lambda: Row(name=name, seconds=grid.seconds_of(110, workers, {"epochs": 100}, device)),
        "help": lambda: Row(name=name, seconds=run([*SFRA, "--help"], repeats=3)[0]),
        "error": lambda: Row(
            name=name, seconds=run([*SFRA, "audit", "nowhere.npz", "--forget", "0"], repeats=3, code=2)[0]
        ),
    }
    if name in works:
        return works[name]()
    if head is None:
        sys.exit(f"{name} needs --head, the weight and bias of a head of 1000 classes")
    if name == "imagenet-head":
        fast = probes.in_process("fast", "imagenet", device, head)
        if fast["inside"] < 1:
            sys.exit(f"a share of {1 - fast['inside']:.1e} of the probes lies outside the region of its class")
        return drawn(name, Head.load(head), fast, most)
    return audit(name, Head.load(head), most, n=50_000, m=25, epochs=100, **usual)


def table() -> Table:
    """Set the rows beside the goals."""
    rows, most = read(ROWS), read(CEILINGS)[0]
    for row in rows:
        row["work"], row["goal"] = WORK[row["name"]]
        row["ratio"] = row["plain_seconds"] and row["plain_seconds"] / row["seconds"]
        row["millions"] = row["draws"] and row["draws"] / 1e6

    def column(name: str, heading: str, form: str) -> Column:
        write = lambda value: None if value is None else f"{value:{form}}"  # noqa: E731
        return Column(names=(name,), heading=heading, numeric=bool(form), write=write)

    columns = (
        *(column("work", "work", ""), column("seconds", "seconds", ".3g"), column("goal", "goal", "")),
        *(column("bound_seconds", "bound", ".3g"), column("ratio", "plain / fast", ",.0f")),
        *(column("millions", "million draws", ".2f"), column("memory_mib", "MiB", ",.0f")),
    )
    giga = {name: value / 1e9 for name, value in most.items()}
    note = (
        f"What all cores of this machine do in a second: {giga['normals']:.2f} billion normal numbers, "
        f"{giga['product']:.0f} billion operations of float32 products, {giga['half_product']:.0f} of bfloat16, "
        f"{giga['copy']:.0f} GB copied."
    )
    ordered = sorted(rows, key=lambda row: list(WORK).index(row["name"]))
    return make_table("goals", "Goals", columns, ordered, notes=(note,))


def main() -> None:
    """Measure, keep the rows, print the table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help=f"any of {', '.join(WORK)}")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu")
    parser.add_argument("--head", type=Path, help="weight and bias of a head of 1000 classes")
    parser.add_argument("--table", action="store_true", help="only show what is stored")
    given = parser.parse_args()
    if unknown := set(given.names) - set(WORK):
        parser.error(f"there is no {', '.join(sorted(unknown))}; choose from {', '.join(WORK)}")
    own = given.device == "cpu"
    most = ceilings() if own and not given.table else None
    if most:
        write(CEILINGS, [asdict(most)])
    for name in () if given.table else given.names or USUAL[given.device]:
        row = measure(name, given.head, most, given.device)
        print(row, flush=True)
        if own:
            keep(row)
    if own:
        from reproduction.report import include

        made = table()
        PAGE.write_text(include(PAGE.read_text(encoding="utf-8"), {"goals": [made]}), encoding="utf-8")
        print("", *(" | ".join(line) for line in made.display().rows), sep="\n")


def keep(row: Row) -> None:
    """Put a row into the file, in place of an older one of the same name."""
    write(ROWS, [*(old for old in read(ROWS) if old["name"] != row.name), asdict(row)])


def read(file: Path) -> list[dict[str, Any]]:
    """Read rows; what was not measured is None."""
    import polars as pl  # a machine with a GPU, which keeps no rows, may lack it

    return pl.read_csv(file).to_dicts() if file.is_file() else []


def write(file: Path, rows: list[dict[str, Any]]) -> None:
    """Write rows, which all have the same columns."""
    import polars as pl

    pl.DataFrame(rows, infer_schema_length=None).write_csv(file)


if __name__ == "__main__":
    main()
