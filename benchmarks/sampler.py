"""What a draw costs, plain and weighted: the constants of the cost model in ``sfra/attack/probes/choose.py``.

Times are CPU time of one thread, for heads of random rows; the constants are fitted without negative ones. The last two
columns are what the model says.

    python benchmarks/sampler.py
    python benchmarks/sampler.py --head head.npz --n 50000 --m 25     # the probes of one head instead
    python benchmarks/sampler.py --case c200 --parts                  # what each part of the sampler takes, on one core
"""

from __future__ import annotations

import argparse
import resource
import time
from collections import Counter
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from unittest.mock import patch

import numpy as np
import torch
from scipy.optimize import nnls

from probes import CASES
from sfra.attack.probes import kernels, proposals, sample, sample_probes, scores, weighing
from sfra.attack.probes.choose import plain_cost, plan_weights, weighted_cost
from sfra.attack.probes.lines import TILE
from sfra.attack.probes.rowspace import row_space
from sfra.attack.probes.stream import CompiledStream
from sfra.attack.probes.weighted import WeightedStream
from sfra.core.head import Head

SHAPES = [(150, 149), (300, 299), (300, 64), (600, 599), (1000, 256), (1000, 999), (2000, 512)]
SPREAD = 8.0


def cpu_seconds(work: Callable[[], object], repeats: int = 3) -> float:
    """Return the least CPU time of a few runs, after one that loads everything."""
    work()
    times = []
    for _ in range(repeats):
        began = time.thread_time()
        work()
        times.append(time.thread_time() - began)
    return min(times)


def measure(classes: int, rank: int) -> tuple[float, float]:
    """Return the nanoseconds of one draw, plain and weighted, with limits that nothing exceeds."""
    generator = torch.Generator().manual_seed(classes)
    weight = 2.2 * torch.nn.functional.normalize(torch.randn(classes, rank, generator=generator), dim=1)
    bias = torch.zeros(classes)
    limits = torch.full((classes,), 50.0), torch.full((classes,), -50.0)
    law, ranking = proposals.get("gaussian"), scores.get("softmax")
    plain = CompiledStream(weight, bias, proposal=law, score=ranking, seed=0, threads=1)
    plan = plan_weights(weight, bias, torch.ones(classes, dtype=torch.bool), n=1000, seed=0, max_draws=10**9)
    bounds = plan.bounds / (plan.draws / 1000) * SPREAD
    weighted = WeightedStream(plan.lines, bounds, seed=0, threads=1)
    one = cpu_seconds(lambda: plain._chunk(0, 2048, *limits)) / 2048
    return 1e9 * one, 1e9 * cpu_seconds(lambda: weighted._chunk(0, 2, *limits)) / (2 * TILE)


def probe(head: Head, n: int, m: int) -> None:
    """Print what the probes of one head cost; memory is beyond what the imports take."""
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    probes = sample_probes(head, 0, n=n, m=m)
    seconds = time.process_time() - began
    memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - memory
    inside = (head(probes.samples).argmax(1) == probes.sources).float().mean()
    print(probes)
    print(
        f"{seconds:.1f} CPU seconds, {memory // 1024} MiB, repeats {probes.repeats:.1e}, in their regions {inside:.6f}"
    )


def parts(head: Head, n: int, m: int) -> None:
    """Print the CPU seconds of each part of the sampler on one thread, and what numpy or BLAS would take."""
    spent: Counter[str] = Counter()

    def watch(name: str, function: Callable[..., object]) -> Callable[..., object]:
        def watched(*given: object) -> object:
            began = time.thread_time()
            result = function(*given)
            spent[name] += time.thread_time() - began
            return result

        return watched

    places = {"draw_tile": kernels, "affine": kernels, "weigh_tile": weighing, "scan_draws": kernels}
    places |= {"_complete": sample, "_label": sample}
    for path in ("plain", "weighted"):  # what is not compiled yet
        sample_probes(Head(torch.eye(20)), 0, n=20, m=2, path=path)
    with ExitStack() as stack:
        for name, module in places.items():
            stack.enter_context(patch.object(module, name, watch(name, getattr(module, name))))
        whole = time.process_time()
        probes = sample_probes(head, 0, n=n, m=m, threads=1)
        spent["the rest"] = time.process_time() - whole - sum(spent.values())
    rank = row_space(head).rank
    tile, rows = torch.randn(rank, TILE), torch.randn(head.classes, rank)
    random = np.random.default_rng(0)
    ceilings = {
        "draw_tile": cpu_seconds(lambda: random.standard_normal((rank, TILE), np.float32)),
        "affine": cpu_seconds(lambda: rows @ tile),
    }
    ceilings["scan_draws"] = sum(ceilings.values())
    print(probes)
    for name, seconds in spent.most_common():
        ceiling = f"{ceilings[name] / TILE * probes.draws:8.1f}" if name in ceilings else ""
        print(f"{name:14} {seconds:8.1f} CPU s {seconds / sum(spent.values()):6.1%} {ceiling}")


def main() -> None:
    """Measure, fit, print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--head", type=Path, help="weight and bias of a head")
    parser.add_argument("--case", choices=CASES, help="a head, N and M of benchmarks/probes.py instead")
    parser.add_argument("--parts", action="store_true", help="what each part takes")
    parser.add_argument("--n", type=int, default=50_000)
    parser.add_argument("--m", type=int, default=25)
    given = parser.parse_args()
    if given.head or given.case:
        case = CASES[given.case] if given.case else None
        what = (case.head(), case.n, case.m) if case else (Head.load(given.head), given.n, given.m)
        (parts if given.parts else probe)(*what)
        return
    found = np.array([measure(*shape) for shape in SHAPES])
    C, r = np.array(SHAPES, float).T
    terms = np.stack([C * r, C, r], axis=1)
    plain, _ = nnls(terms / found[:, :1], np.ones(len(C)))
    logits = terms[:, [0, 2]] @ plain[[0, 2]]
    rest = np.column_stack([C, C**2 / SPREAD])
    weighted, _ = nnls(rest / found[:, 1:], 1 - logits / found[:, 1])
    print("   C    r      plain   weighted  (ns)      model, both")
    for (classes, rank), (one, other) in zip(SHAPES, found, strict=True):
        says = 1e9 * plain_cost(classes, rank), 1e9 * weighted_cost(classes, rank, SPREAD)
        print(f"{classes:5} {rank:4} {one:10,.0f} {other:10,.0f} {says[0]:14,.0f} {says[1]:10,.0f}")
    print(f"plain    {plain[0]:.3f} C r + {plain[2]:.1f} r + {plain[1]:.1f} C")
    print(f"weighted {plain[0]:.3f} C r + {plain[2]:.1f} r + {weighted[0]:.1f} C + {weighted[1]:.2f} C²/s")


if __name__ == "__main__":
    main()
