"""The inner loops of the weighted stream as Triton kernels: what :mod:`torch_loops` computes, without working space."""

from __future__ import annotations

import torch
import triton
from jaxtyping import Bool, Float, Int
from torch import Tensor

from sfra.attack.probes import triton_kernels as kernels
from sfra.attack.probes.mixing import SIZE
from sfra.attack.probes.stream import Routed
from sfra.attack.probes.weighing import BINS, LEADERS

BLOCKS: dict[str, dict[str, int]] = {
    "normals": {"DRAWS": 16, "QUADS": 32},
    "uniforms": {"SIZE": 256},
    "mix": {"COLUMNS": 128},
    "ends": {"PAIRS": 8, "COLUMNS": 128},
    "losers": {"PAIRS": 8, "COLUMNS": 128},
    "sieve": {"SETS": 8, "SLOTS": 32},
    "scan": {"QUADS": 4, "num_warps": 4},
}
"""Sizes of the tiles, powers of two, and ``num_warps`` where it is not 4: what to try on another GPU."""

DRAWS = {64: 128, 256: 64, 512: 32}
"""Draws of a program of the plain stream, by the most classes: their logits are in registers."""


def _run(name: str, grid: tuple[int, ...], *given: Tensor | int | float, **fixed: int | str) -> None:
    """Launch a kernel on the device of its first argument."""
    if grid[0]:
        with torch.cuda.device_of(given[0]):  # type: ignore[no-untyped-call]
            getattr(kernels, name)[grid](*given, **fixed, **BLOCKS[name])


def normals(indices: Int[Tensor, " n"], stream: int, width: int, seed: int) -> Float[Tensor, "n r"]:
    """Return the standard normal draws of the given indices, one per row."""
    out = torch.empty(len(indices), width, device=indices.device)
    blocks = BLOCKS["normals"]
    grid = triton.cdiv(len(indices), blocks["DRAWS"]), triton.cdiv(width, 4 * blocks["QUADS"])
    _run("normals", grid, indices, stream, seed, out, len(indices), width)
    return out


def uniforms(
    index: Int[Tensor, " n"], word: Int[Tensor, " n"] | int, stream: Int[Tensor, " n"] | int, seed: int
) -> Float[Tensor, " n"]:
    """Return the uniform numbers in (0, 1) of counters, in float64."""
    out = torch.empty(len(index), dtype=torch.float64, device=index.device)
    words, streams = (c if isinstance(c, Tensor) else torch.full_like(index, c) for c in (word, stream))
    grid = (triton.cdiv(len(index), BLOCKS["uniforms"]["SIZE"]),)
    _run("uniforms", grid, index, words, streams, seed, out, len(index))
    return out


def mix(
    plain: Float[Tensor, "B P"], mixing: Float[Tensor, "M 16"], offset: Float[Tensor, " P"]
) -> Float[Tensor, "R P"]:
    """Return the logits of every group's mixtures, ordered by sixteen draws, group, and draw."""
    blocks, groups, columns = len(plain) // SIZE, len(mixing) // SIZE, plain.shape[1]
    out = plain.new_empty(blocks * len(mixing), columns)
    grid = blocks, triton.cdiv(columns, BLOCKS["mix"]["COLUMNS"])
    _run("mix", grid, plain, mixing, offset, out, columns, groups, SIZE=SIZE)
    return out


def ends(
    z: Float[Tensor, "R P"], gram: Float[Tensor, "P P"], row: Int[Tensor, " n"], k: Int[Tensor, " n"]
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    """Return where each pair's class begins and ends to win."""
    low, high = z.new_empty(len(row)), z.new_empty(len(row))
    grid = (triton.cdiv(len(row), BLOCKS["ends"]["PAIRS"]),)
    _run("ends", grid, z, gram, row, k, low, high, len(row), z.shape[1])
    return low, high


def losers(
    z: Float[Tensor, "R P"],
    gram: Float[Tensor, "P P"],
    row: Int[Tensor, " n"],
    k: Int[Tensor, " n"],
    y: Float[Tensor, " n"],
) -> tuple[Float[Tensor, " n"], Float[Tensor, " n"]]:
    """Return the largest of the other logits, and the logarithm of the sum of their exponentials."""
    top, total = z.new_empty(len(row)), z.new_empty(len(row))
    grid = (triton.cdiv(len(row), BLOCKS["losers"]["PAIRS"]),)
    _run("losers", grid, z, gram, row, k, y, top, total, len(row), z.shape[1])
    return top, total


def sieve(
    z: Float[Tensor, "R P"],
    gram: Float[Tensor, "P P"],
    share: Float[Tensor, " B"],
    slots: Int[Tensor, "G K"],
    phases: Float[Tensor, " C"],
    taus: Float[Tensor, "C bins"],
    lengths: Float[Tensor, " C"],
    bias: Float[Tensor, " C"],
    slack: float,
) -> Bool[Tensor, "N G 16 K"]:
    """Tell which pairs the largest logits of a few sets do not rule out."""
    groups, most = slots.shape
    alive = torch.empty(len(share) // SIZE, groups, SIZE, most, dtype=torch.bool, device=z.device)
    sizes = z.shape[1], most, groups
    fixed = {"BINS": BINS, "DRAWS": SIZE, "LEADERS": LEADERS}
    given = z, gram, share, slots, phases, taus, lengths, bias, slack, alive
    _run("sieve", (len(share) // SIZE, groups), *given, *sizes, **fixed)
    return alive


def prepare(weight: Float[Tensor, "C r"], bias: Float[Tensor, " C"]) -> tuple[Tensor, ...]:
    """Return a head as ``scan`` takes it: rows in two parts of 16 bits, with a size each, and filled up to tiles."""
    classes, rank = weight.shape
    wide = max(16, triton.next_power_of_2(classes))
    largest = weight.abs().amax(1)
    sizes = torch.ldexp(torch.ones_like(largest), torch.frexp(largest)[1])
    whole = torch.nn.functional.pad(weight.T / sizes, (0, wide - classes, 0, -rank % (4 * BLOCKS["scan"]["QUADS"])))
    rows = whole.half().contiguous()
    offset = torch.nn.functional.pad(bias, (0, wide - classes), value=-1e30)
    return rows, (whole - rows).half().contiguous(), torch.nn.functional.pad(sizes, (0, wide - classes)), offset


def scan(
    start: int,
    length: int,
    head: tuple[Tensor, ...],
    seed: int,
    high: Float[Tensor, " C"],
    low: Float[Tensor, " C"],
) -> Routed:
    """Route the draws from ``start`` on to their classes; ``length`` is a power of two, at least 128."""
    width, wide = head[0].shape
    draws = next(draws for most, draws in DRAWS.items() if wide <= most)
    labels, ranks = (torch.empty(length, dtype=torch.int32, device=high.device) for _ in range(2))
    scores, near = torch.empty_like(labels, dtype=torch.float32), torch.empty_like(labels, dtype=torch.bool)
    blocks = length // draws
    counts = torch.empty(wide, blocks, dtype=torch.int32, device=high.device)
    out = labels, scores, ranks, near, counts
    _run("scan", (blocks,), *head, start, seed, high, low, *out, blocks, width, CLASSES=wide, DRAWS=draws)
    found = torch.nonzero(near).flatten()
    label, ends = labels[found].long(), counts[: len(high)].cumsum(1, dtype=torch.int32)
    own = label, found // draws
    rank = ranks[found] + ends[own] - counts[own]
    return Routed(near=found, labels=label, scores=scores[found], ranks=rank, counts=ends[:, -1].long())
