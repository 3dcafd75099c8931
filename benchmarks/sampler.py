"""What a draw costs, plain and weighted: the constants of the cost model in ``sfra/attack/probes/choose.py``.

Times are CPU time of one thread, for heads of random rows; the constants are fitted without negative ones. The last two
columns are what the model says.

    python benchmarks/sampler.py
"""

from __future__ import annotations

import time

import numpy as np
import torch
from scipy.optimize import nnls

from sfra.attack.probes import proposals, scores
from sfra.attack.probes.choose import plain_cost, plan_weights, weighted_cost
from sfra.attack.probes.lines import TILE
from sfra.attack.probes.stream import CompiledStream
from sfra.attack.probes.weighted import WeightedStream
from timing import shortest

SHAPES = [(150, 149), (300, 299), (300, 64), (600, 599), (1000, 256), (1000, 999), (2000, 512)]
SPREAD = 8.0


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
    one = shortest(lambda: plain._chunk(0, 2048, *limits), 3, time.thread_time) / 2048
    other = shortest(lambda: weighted._chunk(0, 2, *limits), 3, time.thread_time) / (2 * TILE)
    return 1e9 * one, 1e9 * other


def main() -> None:
    """Measure, fit, print."""
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
