"""The counter-based random numbers of :mod:`sfra.attack.probes.kernels` in plain torch, on any device.

The bits are those of the compiled loops: Philox4x32-10 of ``(index, quad, stream)`` under a seed. The normals made of
them may differ in the last digits, for logarithm and sine are the device's own.
"""

from __future__ import annotations

import math

import torch
from jaxtyping import Float, Int
from torch import Tensor

_LOW = 0xFFFFFFFF
_MULTIPLIER_0, _MULTIPLIER_1 = 0xD2511F53, 0xCD9E8D57
_WEYL_0, _WEYL_1 = 0x9E3779B9, 0xBB67AE85
_NUMBERS = 2**24


def philox(
    index: Int[Tensor, ...], word: Int[Tensor, ...] | int, stream: Int[Tensor, ...] | int, seed: int
) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Return four tensors of 32-bit words, as int64, for counters that broadcast against each other.

    >>> [int(word) for word in philox(torch.tensor(0), 0, 0, 0)] == [0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8]
    True
    """
    c0, c1 = index & _LOW, index >> 32
    c2, c3 = (torch.as_tensor(c, device=index.device) for c in (word, stream))
    k0, k1 = seed & _LOW, seed >> 32
    for _ in range(10):
        p0, p1 = _MULTIPLIER_0 * c0, _MULTIPLIER_1 * c2  # the sign is that of the 64th bit, and masked away
        c0, c2 = ((p1 >> 32) & _LOW) ^ c1 ^ k0, ((p0 >> 32) & _LOW) ^ c3 ^ k1
        c1, c3 = p1 & _LOW, p0 & _LOW
        k0, k1 = (k0 + _WEYL_0) & _LOW, (k1 + _WEYL_1) & _LOW
    return c0, c1, c2, c3


def uniforms(
    index: Int[Tensor, " n"], word: Int[Tensor, " n"] | int, stream: Int[Tensor, " n"] | int, seed: int
) -> Float[Tensor, " n"]:
    """Return the uniform numbers in (0, 1) of counters, in float64."""
    w0, w1, _, _ = philox(index, word, stream, seed)
    return (((w0 << 21) | (w1 >> 11)).double() + 0.5) * 2.0**-53


def normals(indices: Int[Tensor, " n"], stream: int, width: int, seed: int) -> Float[Tensor, "n r"]:
    """Return the standard normal draws of the given indices, one per row."""
    quads = torch.arange(-(-width // 4), device=indices.device)
    out = torch.empty(len(indices), width, device=indices.device)
    step = max(1, _NUMBERS // width)
    for start in range(0, len(indices), step):
        part = indices[start : start + step]
        words = philox(part[:, None], quads, stream, seed)
        pairs = [_box_muller(words[half], words[half + 1]) for half in (0, 2)]
        made = torch.stack([value for pair in pairs for value in pair], dim=2)
        out[start : start + step] = made.flatten(1)[:, :width]
    return out


def _box_muller(magnitude: Int[Tensor, "n q"], angle: Int[Tensor, "n q"]) -> tuple[Tensor, Tensor]:
    """Turn two words each into two independent standard normals."""
    energy = -(((magnitude >> 1).float() + 0.5) * 2.0**-31).log()
    radius = (2.0 * energy.clamp_min(0.0)).sqrt()
    turn = (angle - ((angle >> 31) << 32)).float() * 2.0**-32
    a = 2.0 * math.pi * (turn.abs() - 0.25)
    return -radius * a.sin(), torch.where(turn >= 0.0, radius, -radius) * a.cos()
