"""Try sizes of the tiles of the GPU's kernels: what to look at before a change, or on another GPU.

    python benchmarks/tiles.py                  # a minute and a half of an H200, most of it compiling

Prints, best first, what the kernel of the plain stream takes for two million draws, with the share of labels that equal
those of float32 products and the largest difference of log-odds; then whole runs of ``probes.py``'s cases.
"""

from __future__ import annotations

import itertools
from unittest.mock import patch

import torch

import probes
from sfra.attack.probes import counter_stream, device_lines, device_weights, sample_probes, triton_loops
from sfra.attack.probes.rowspace import row_space
from timing import shortest

GPU = torch.device("cuda")
SEED = 7


def scans(case: str) -> list[tuple[object, ...]]:
    """Time the kernel of the plain stream in every form, best first."""
    head = probes.CASES[case].head()
    weight, bias = row_space(head, GPU).weight.to(GPU), head.bias.to(GPU)
    none, every = ((sign * torch.full_like(bias, 1e9), -sign * torch.full_like(bias, 1e9)) for sign in (1, -1))
    with patch.object(triton_loops, "PRECISION", "ieee"):
        exact = triton_loops.scan(0, 2**16, weight, bias, SEED, *every)
    found = []
    for precision, quads, warps, logits in itertools.product(("ieee", "tf32x3"), (4, 8), (4, 8), (4096, 8192, 16384)):
        blocks = {**triton_loops.BLOCKS, "scan": {"QUADS": quads, "num_warps": warps}}
        with patch.multiple(triton_loops, PRECISION=precision, BLOCKS=blocks, LOGITS=logits):
            made = triton_loops.scan(0, 2**16, weight, bias, SEED, *every)
            same = made.labels == exact.labels
            error = float((made.scores - exact.scores)[same].abs().max())
            spent = 1e3 * shortest(lambda: triton_loops.scan(0, 2**21, weight, bias, SEED, *none))
        found.append((round(spent, 2), precision, quads, warps, logits, float(same.float().mean()), error))
    return sorted(found)


def whole(case: str, path: str) -> str:
    """Time a whole construction of probes and its peak memory."""
    made = probes.CASES[case]
    head = made.head()
    torch.cuda.reset_peak_memory_stats()
    spent = 1e3 * shortest(lambda: sample_probes(head, 0, n=made.n, m=made.m, device="cuda", path=path))  # type: ignore[arg-type]
    return f"{spent:.1f} ms, {torch.cuda.max_memory_allocated() / 2**20:.0f} MiB"


def main() -> None:
    """Print all of it."""
    for case in ("c10", "c100"):
        for line in scans(case)[:6]:
            print(case, "scan, ms, precision, quads, warps, logits, same labels, error:", *line, flush=True)
        for first, longest in ((2**16, 2**21), (2**17, 2**22), (2**18, 2**22)):
            with patch.multiple(counter_stream, _FIRST=first, LONGEST=longest):
                print(case, f"whole, chunks from {first:,} to {longest:,} draws:", whole(case, "plain"), flush=True)
    for case, (blocks, tiles) in itertools.product(("c200", "imagenet"), ((512, 4), (1024, 4), (2048, 4), (4096, 2))):
        with patch.object(device_lines, "MOST_BLOCKS", blocks), patch.object(device_weights, "_LONGEST", tiles):
            print(case, f"whole, tiles of {blocks} blocks, {tiles} a chunk:", whole(case, "weighted"), flush=True)


if __name__ == "__main__":
    main()
