"""Compiled one-dimensional normals: a seeded stream, the quantile, upper tails and draws from them.

A stream is a state of xoshiro256++ (Blackman and Vigna, 2021), filled from ``(seed, index)`` by SplitMix64, so tile
``index`` of a sampler draws the same numbers whichever thread works on it. The quantile is Wichura's AS 241, good
to 1e-15 relative down to probabilities of 1e-300; the upper tail is exact in the logarithm however far out.
"""

from __future__ import annotations

import math
from typing import no_type_check

import numpy as np

from sfra.core.cpu import compiled

kernel = compiled(fastmath={"contract"})

FAR = 35.0
"""From here on the upper tail is handled in the logarithm: its probability, 1e-268, nears the smallest float64."""

_ROOT_HALF = math.sqrt(0.5)
_HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)
_WEYL, _SPREAD = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xD1342543DE82EF95)
_MIX_1, _MIX_2 = np.uint64(0xBF58476D1CE4E5B9), np.uint64(0x94D049BB133111EB)
_11, _17, _19, _23 = np.uint64(11), np.uint64(17), np.uint64(19), np.uint64(23)
_27, _30, _31, _41, _45 = np.uint64(27), np.uint64(30), np.uint64(31), np.uint64(41), np.uint64(45)


@kernel
@no_type_check
def _mix(word):
    """Return SplitMix64's output for a state."""
    word = (word ^ (word >> _30)) * _MIX_1
    word = (word ^ (word >> _27)) * _MIX_2
    return word ^ (word >> _31)


@kernel
@no_type_check
def seed_stream(seed, index):
    """Return the state of stream ``index`` of ``seed``."""
    word = _mix(np.uint64(seed) + _WEYL) + np.uint64(index) * _SPREAD
    state = np.empty(4, np.uint64)
    for i in range(4):
        word += _WEYL
        state[i] = _mix(word)
    return state


@kernel
@no_type_check
def uniform(state):
    """Advance the stream and return a number in the open interval (0, 1), a multiple of 2⁻⁵³ plus half of it."""
    total = state[0] + state[3]
    word = ((total << _23) | (total >> _41)) + state[0]
    shifted = state[1] << _17
    state[2] ^= state[0]
    state[3] ^= state[1]
    state[1] ^= state[2]
    state[0] ^= state[3]
    state[2] ^= shifted
    state[3] = (state[3] << _45) | (state[3] >> _19)
    return (np.float64(word >> _11) + 0.5) * 2.0**-53


@kernel
@no_type_check
def quantile(p):
    """Return the ``p``-quantile of the standard normal, ``0 < p < 1`` (AS 241, PPND16)."""
    q = p - 0.5
    if abs(q) <= 0.425:
        r = 0.180625 - q * q
        top = ((2509.0809287301226727 * r + 33430.575583588128105) * r + 67265.770927008700853) * r
        top = (((top + 45921.953931549871457) * r + 13731.693765509461125) * r + 1971.5909503065514427) * r
        top = (top + 133.14166789178437745) * r + 3.3871328727963666080
        low = ((5226.4952788528545610 * r + 28729.085735721942674) * r + 39307.895800092710610) * r
        low = (((low + 21213.794301586595867) * r + 5394.1960214247511077) * r + 687.18700749205790830) * r
        return q * top / ((low + 42.313330701600911252) * r + 1.0)
    r = math.sqrt(-math.log(p if q < 0.0 else 1.0 - p))
    if r <= 5.0:
        r -= 1.6
        top = ((7.74545014278341407640e-4 * r + 2.27238449892691845833e-2) * r + 2.41780725177450611770e-1) * r
        top = (((top + 1.27045825245236838258) * r + 3.64784832476320460504) * r + 5.76949722146069140550) * r
        top = (top + 4.63033784615654529590) * r + 1.42343711074968357734
        low = ((1.05075007164441684324e-9 * r + 5.47593808499534494600e-4) * r + 1.51986665636164571966e-2) * r
        low = (((low + 1.48103976427480074590e-1) * r + 6.89767334985100004550e-1) * r + 1.67638483018380384940) * r
        low = (low + 2.05319162663775882187) * r + 1.0
    else:
        r -= 5.0
        top = ((2.01033439929228813265e-7 * r + 2.71155556874348757815e-5) * r + 1.24266094738807843860e-3) * r
        top = (((top + 2.65321895265761230930e-2) * r + 2.96560571828504891230e-1) * r + 1.78482653991729133580) * r
        top = (top + 5.46378491116411436990) * r + 6.65790464350110377720
        low = ((2.04426310338993978564e-15 * r + 1.42151175831644588870e-7) * r + 1.84631831751005468180e-5) * r
        low = (((low + 7.86869131145613259100e-4) * r + 1.48753612908506148525e-2) * r + 1.36929880922735805310e-1) * r
        low = (low + 5.99832206555887937690e-1) * r + 1.0
    return -top / low if q < 0.0 else top / low


@kernel
@no_type_check
def upper(t):
    """Return ``P(Z > t)`` for a standard normal ``Z``; relative accuracy up to ``FAR``."""
    return 0.5 * math.erfc(t * _ROOT_HALF)


@kernel
@no_type_check
def log_upper(t):
    """Return ``log P(Z > t)``, beyond ``FAR`` by the asymptotic series (error below 105/t⁸)."""
    if t < FAR:
        return math.log(upper(t))
    w = 1.0 / (t * t)
    return -0.5 * t * t - math.log(t) - _HALF_LOG_TWO_PI + math.log1p(-w * (1.0 - w * (3.0 - 15.0 * w)))


@kernel
@no_type_check
def mills(t):
    """Return the mean of ``Z`` given ``Z > t``, which is ``φ(t) / P(Z > t)``."""
    return math.exp(-0.5 * t * t - _HALF_LOG_TWO_PI - log_upper(t))


@kernel
@no_type_check
def draw_upper(t, probability, state):
    """Draw ``Z`` given ``Z > t``, where ``probability = upper(t)``.

    By the quantile of a uniform fraction of the tail; beyond ``FAR`` by rejection from the Rayleigh tail, whose
    density ``x exp(-x²/2)`` exceeds the wanted one by the factor ``x/t`` (accepts all but 1 in 1,000).
    """
    if t < FAR:
        return max(t, -quantile(uniform(state) * probability))
    while True:
        x = math.sqrt(t * t - 2.0 * math.log(uniform(state)))
        if uniform(state) * x <= t:
            return x
