"""Triton kernels of the streams on a GPU; :mod:`counters` and :mod:`torch_loops` say in torch what each computes.

Random numbers come from Philox in registers, with the counters of :mod:`sfra.attack.probes.kernels` and its polynomials
(a library's sine takes several times as long as all the rest). No kernel adds floating-point numbers atomically or
appends in the order of arrival, so that repeated runs give the same bits.
"""

from __future__ import annotations

from typing import no_type_check

import triton
import triton.language as tl


@triton.jit
@no_type_check
def philox(c0, c1, c2, c3, seed):
    """Return the four words of Philox4x32-10 for unsigned counters; a product gives both of its halves at once."""
    key = seed.to(tl.uint64)
    k0, k1 = (key & 0xFFFFFFFF).to(tl.uint32), (key >> 32).to(tl.uint32)
    for _ in tl.static_range(10):
        p0, p1 = c0.to(tl.uint64) * 0xD2511F53, c2.to(tl.uint64) * 0xCD9E8D57
        c0, c2 = (p1 >> 32).to(tl.uint32) ^ c1 ^ k0, (p0 >> 32).to(tl.uint32) ^ c3 ^ k1
        c1, c3 = p1.to(tl.uint32), p0.to(tl.uint32)
        k0, k1 = k0 + 0x9E3779B9, k1 + 0xBB67AE85
    return c0, c1, c2, c3


@triton.jit
@no_type_check
def minus_twice_log(x):
    """Return ``-2 log x`` for normal numbers up to 1, from the exponent and a polynomial of the mantissa."""
    bits = x.to(tl.int32, bitcast=True)
    m = ((bits & 0x7FFFFF) | 0x3F800000).to(tl.float32, bitcast=True) - 1.5
    p = -0.007324484642595053 * m + 0.012295834720134735
    p = p * m + -0.0163673534989357
    p = p * m + 0.02868022583425045
    p = p * m + -0.052707284688949585
    p = p * m + 0.09881868213415146
    p = p * m + -0.1975298374891281
    p = p * m + 0.4444427490234375
    p = p * m + -1.3333333730697632
    p = p * m + -0.8109301924705505
    return tl.maximum(((bits >> 23) - 127).to(tl.float32) * -1.3862943649291992 + p, 0.0)


@triton.jit
@no_type_check
def box_muller(magnitude, angle):
    """Turn two random words into two independent standard normals."""
    unit = (magnitude >> 1).to(tl.int32, bitcast=True).to(tl.float32) * 4.656612873077393e-10
    radius = tl.sqrt(minus_twice_log(unit + 2.3283064365386963e-10))
    turn = angle.to(tl.int32, bitcast=True).to(tl.float32) * 2.3283064365386963e-10
    a = tl.abs(turn) - 0.25
    q = a * a
    s = -14.393965721130371 * q + 42.00978088378906
    s = s * q + -76.70427703857422
    s = s * q + 81.605224609375
    s = s * q + -41.34170150756836
    s = s * q + 6.2831854820251465
    c = 7.536600589752197 * q + -26.394948959350586
    c = c * q + 60.24331283569336
    c = c * q + -85.456787109375
    c = c * q + 64.93939208984375
    c = c * q + -19.739208221435547
    c = c * q + 1.0
    return -radius * (s * a), tl.where(turn >= 0.0, radius, -radius) * c


@triton.jit
@no_type_check
def normal_tile(index, quad, stream, seed):
    """Return the normals ``4 quad`` to ``4 quad + 3`` of draws, [B, 4 Q] for ``index`` [B] and ``quad`` [Q]."""
    low, high = (index & 0xFFFFFFFF).to(tl.uint32), (index >> 32).to(tl.uint32)
    low, c2 = tl.broadcast(low[:, None], quad.to(tl.uint32)[None, :])
    none = tl.zeros_like(low)
    w0, w1, w2, w3 = philox(low, none + high[:, None], c2, (none + stream).to(tl.uint32), seed)
    n0, n1 = box_muller(w0, w1)
    n2, n3 = box_muller(w2, w3)
    return tl.interleave(tl.interleave(n0, n2), tl.interleave(n1, n3))


@triton.jit(do_not_specialize=["stream", "seed", "n"])
@no_type_check
def normals(indices, stream, seed, out, n, width, DRAWS: tl.constexpr, QUADS: tl.constexpr):
    """Write the draws of the given indices, one per row of ``out`` [n, width]."""
    i = tl.program_id(0) * DRAWS + tl.arange(0, DRAWS)
    quad = tl.program_id(1) * QUADS + tl.arange(0, QUADS)
    column = tl.program_id(1) * QUADS * 4 + tl.arange(0, 4 * QUADS)
    index = tl.load(indices + i, mask=i < n, other=0)
    tile = normal_tile(index, quad, stream, seed)
    at = i.to(tl.int64)[:, None] * width + column[None, :]
    tl.store(out + at, tile, mask=(i < n)[:, None] & (column < width)[None, :])


@triton.jit(do_not_specialize=["start", "seed"])
@no_type_check
def scan(
    rows, rest, sizes, bias, start, seed, high, low, labels, scores, ranks, near, counts, blocks, width,
    CLASSES: tl.constexpr, DRAWS: tl.constexpr, QUADS: tl.constexpr
):  # fmt: skip
    """Route ``DRAWS`` draws to their classes; write those that may be extreme, and how many fell to each class.

    The weight is ``sizes (rows + rest)``, [width, CLASSES] of 16 bits each and filled up with zeros; ``bias`` with next
    to nothing for classes that are none. A draw is split likewise, and the product of the two rests left out: an error
    of 2⁻²², as float32 has it, on tensor cores. A rank is that among the draws of the program; ``counts`` is [CLASSES,
    blocks].
    """
    block = tl.program_id(0)
    own, k = tl.arange(0, DRAWS), tl.arange(0, CLASSES)
    i = block * DRAWS + own
    logits = tl.zeros([DRAWS, CLASSES], tl.float32)
    for quad in range(0, width // 4, QUADS):
        tile = normal_tile(start + i.to(tl.int64), quad + tl.arange(0, QUADS), 0, seed)
        main = tile.to(tl.float16)
        at = (quad * 4 + tl.arange(0, 4 * QUADS))[:, None] * CLASSES + k[None, :]
        row = tl.load(rows + at)
        logits = tl.dot(main, row, logits)
        logits = tl.dot((tile - main.to(tl.float32)).to(tl.float16), row, logits)
        logits = tl.dot(main, tl.load(rest + at), logits)
    logits = logits * tl.load(sizes + k)[None, :] + tl.load(bias + k)[None, :]
    first = tl.max(logits, 1)
    label = tl.min(tl.where(logits == first[:, None], k[None, :], CLASSES), 1)
    others = tl.where(k[None, :] == label[:, None], -1e30, logits)
    second = tl.max(others, 1)
    score = first - second - tl.log(tl.sum(tl.exp(others - second[:, None]), 1))
    keep = (score >= tl.load(high + label)) | (score <= tl.load(low + label))
    tl.store(near + i, keep)
    tl.store(counts + k * blocks + block, tl.sum((label[:, None] == k[None, :]).to(tl.int32), 0))
    if tl.max(keep.to(tl.int32), 0) > 0:
        earlier = (label[:, None] == label[None, :]) & (own[None, :] < own[:, None])
        tl.store(labels + i, label, mask=keep)
        tl.store(scores + i, score, mask=keep)
        tl.store(ranks + i, tl.sum(earlier.to(tl.int32), 1), mask=keep)


@triton.jit(do_not_specialize=["seed", "n"])
@no_type_check
def uniforms(indices, words, streams, seed, out, n, SIZE: tl.constexpr):
    """Write the uniform numbers of counters in float64."""
    i = tl.program_id(0) * SIZE + tl.arange(0, SIZE)
    index = tl.load(indices + i, mask=i < n, other=0)
    word = tl.load(words + i, mask=i < n, other=0).to(tl.uint32)
    stream = tl.load(streams + i, mask=i < n, other=0).to(tl.uint32)
    low, high = (index & 0xFFFFFFFF).to(tl.uint32), (index >> 32).to(tl.uint32)
    w0, w1, _, _ = philox(low, high, word, stream, seed)
    bits = (w0.to(tl.int64) << 21) | (w1.to(tl.int64) >> 11)
    tl.store(out + i, (bits.to(tl.float64) + 0.5) * 1.1102230246251565e-16, mask=i < n)


@triton.jit
@no_type_check
def mix(plain, mixing, offset, out, P, G, SIZE: tl.constexpr, COLUMNS: tl.constexpr):
    """Write the logits of every group's mixtures of ``SIZE`` draws, some columns of them."""
    block, x = tl.program_id(0).to(tl.int64), tl.arange(0, SIZE)
    j = (tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS))[None, :]
    tile = tl.load(plain + (block * SIZE + x)[:, None] * P + j, mask=j < P, other=0.0)
    shift = tl.load(offset + j, mask=j < P, other=0.0)
    for g in range(G):
        turn = tl.load(mixing + (g * SIZE + x)[:, None] * SIZE + x[None, :])
        row = (block * G + g) * SIZE + x
        tl.store(out + row[:, None] * P + j, tl.dot(turn, tile, input_precision="ieee") + shift, mask=j < P)


@triton.jit(do_not_specialize=["n"])
@no_type_check
def ends(z, gram, rows, classes, low, high, n, P, PAIRS: tl.constexpr, COLUMNS: tl.constexpr):
    """Write the largest ratio over positive and the smallest over negative denominators of each pair."""
    i = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    row, k = tl.load(rows + i, mask=i < n, other=0), tl.load(classes + i, mask=i < n, other=0)
    own, square = tl.load(z + row * P + k)[:, None], tl.load(gram + k * P + k)[:, None]
    most = tl.full([PAIRS, COLUMNS], -float("inf"), tl.float32)
    least = tl.full([PAIRS, COLUMNS], float("inf"), tl.float32)
    for start in range(0, P, COLUMNS):
        j = start + tl.arange(0, COLUMNS)[None, :]
        logit = tl.load(z + row[:, None] * P + j, mask=j < P, other=0.0)
        product = tl.load(gram + k[:, None] * P + j, mask=j < P, other=0.0)
        below = tl.where((j == k[:, None]) | (j >= P), 0.0, square - product)
        ratio = (logit - own) / tl.where(below == 0.0, 1.0, below)
        most = tl.where(below > 0.0, tl.maximum(most, ratio), most)
        least = tl.where(below < 0.0, tl.minimum(least, ratio), least)
    tl.store(low + i, tl.max(most, 1), mask=i < n)
    tl.store(high + i, tl.min(least, 1), mask=i < n)


@triton.jit(do_not_specialize=["n"])
@no_type_check
def losers(z, gram, rows, classes, steps, top, total, n, P, PAIRS: tl.constexpr, COLUMNS: tl.constexpr):
    """Write ``max_j`` and ``log Σ_j exp`` of ``z_j + y G_kj`` over ``j ≠ k``; each column keeps a maximum and a sum."""
    i = tl.program_id(0) * PAIRS + tl.arange(0, PAIRS)
    row, k = tl.load(rows + i, mask=i < n, other=0), tl.load(classes + i, mask=i < n, other=0)
    y = tl.load(steps + i, mask=i < n, other=0.0)[:, None]
    most = tl.full([PAIRS, COLUMNS], -1e30, tl.float32)
    mass = tl.zeros([PAIRS, COLUMNS], tl.float32)
    for start in range(0, P, COLUMNS):
        j = start + tl.arange(0, COLUMNS)[None, :]
        logit = tl.load(z + row[:, None] * P + j, mask=j < P, other=-1e30)
        product = tl.load(gram + k[:, None] * P + j, mask=j < P, other=0.0)
        value = tl.where(j == k[:, None], -1e30, logit + y * product)
        smaller = tl.exp(-tl.abs(value - most))
        mass = tl.where(value > most, mass * smaller + 1.0, mass + smaller)
        most = tl.maximum(most, value)
    best = tl.max(most, 1)
    mass = tl.sum(mass * tl.exp(most - best[:, None]), 1)
    tl.store(top + i, best, mask=i < n)
    tl.store(total + i, best + tl.log(mass), mask=i < n)


@triton.jit
@no_type_check
def sieve(
    z, gram, shares, slots, phases, taus, lengths, bias, slack, alive, P, K, G, BINS: tl.constexpr,
    DRAWS: tl.constexpr, LEADERS: tl.constexpr, SETS: tl.constexpr, SLOTS: tl.constexpr
):  # fmt: skip
    """Mark the pairs of one group and ``DRAWS`` draws that the largest logits of ``LEADERS`` sets do not rule out."""
    block, group = tl.program_id(0), tl.program_id(1)
    x, lane = tl.arange(0, DRAWS), tl.arange(0, LEADERS)
    row = (block.to(tl.int64) * G + group) * DRAWS + x
    most = tl.full([DRAWS, SETS * LEADERS], -float("inf"), tl.float32)
    where = tl.zeros([DRAWS, SETS * LEADERS], tl.int32)
    for start in range(0, P, SETS * LEADERS):
        j = start + tl.arange(0, SETS * LEADERS)[None, :]
        logit = tl.load(z + row[:, None] * P + j, mask=j < P, other=-float("inf"))
        where = tl.where(logit > most, j, where)
        most = tl.maximum(most, logit)
    most, where = tl.reshape(most, [DRAWS, SETS, LEADERS]), tl.reshape(where, [DRAWS, SETS, LEADERS])
    leader = tl.max(most, 1)
    place = tl.min(tl.where(most == leader[:, None, :], where, P), 1)
    share = tl.load(shares + block * DRAWS + x)[:, None]
    for start in range(0, K, SLOTS):
        c = start + tl.arange(0, SLOTS)
        k = tl.load(slots + group * K + c, mask=c < K, other=0)[None, :]
        u = share + tl.load(phases + k)
        step = ((u - tl.floor(u)) * BINS).to(tl.int32)
        tau = tl.load(taus + k * BINS + step)
        length, own_bias = tl.load(lengths + k), tl.load(bias + k)
        y = (tau - (tl.load(z + row[:, None] * P + k) - own_bias) / length) / length
        best = tl.full([DRAWS, SLOTS], -float("inf"), tl.float32)
        for g in range(LEADERS):
            value = tl.sum(tl.where(lane[None, :] == g, leader, 0.0), 1)[:, None]
            at = tl.sum(tl.where(lane[None, :] == g, place, 0), 1)[:, None]
            best = tl.maximum(best, value + y * tl.load(gram + at.to(tl.int64) * P + k))
        passes = best <= length * tau + own_bias + slack
        tl.store(alive + row[:, None] * K + c[None, :], passes, mask=(c < K)[None, :])
