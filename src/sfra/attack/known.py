"""What the settings of an attack may be. Nothing slow is imported, so that a wrong one is refused at once."""

from __future__ import annotations

import math

from sfra.core.errors import InputError, meant

NAMES: dict[str, dict[str, str]] = {
    "proposal": {
        "gaussian": "N(0, I) (default)",
        "uniform": "uniform on [-√3, √3], unit variance",
        "laplace": "Laplace, zero mean, unit variance",
        "relu-gaussian": "max(0, z) of a Gaussian: the support of features after a ReLU",
        "abs-gaussian": "|z| of a Gaussian",
    },
    "score": {
        "softmax": "1 - max p, ranked by log-odds (default)",
        "entropy": "entropy of the softmax",
        "energy": "-logsumexp of the logits",
    },
    "assignment": {
        "greedy": "forget classes take turns in ascending index, each its likeliest probes (default)",
        "optimal": "the balanced assignment of highest total likelihood; independent of the order of the classes",
    },
    "scale": {
        "canonical": "centred rows with median norm 1.7: the default",
        "calibrated": "the smallest size at which hidden retain classes come back",
        "native": "the head as released: the paper's reading",
        "sweep": "canonical for the verdict, and a curve from half to twice that size",
        "anchored": "canonical in units of the features of synthetic images: no affine disguise moves it",
    },
    "forget_weight": {
        "published": "every probe counts the same: the paper's loss, and the default",
        "balanced": "a forget probe counts 1/sqrt(number of retain classes)",
    },
}
"""Names that a setting takes, with a sentence for each; a scale may also be a number."""

MAX_DRAWS = 1_000_000_000
"""Default draw budget of one call."""


def check_name(setting: str, name: str) -> None:
    """Refuse a name that a setting does not take."""
    known = NAMES[setting]
    if name not in known:
        raise InputError(f"unknown {setting}", expected=" or ".join(known), got=name, do=meant(name, known))


def check_scale(given: str | float) -> None:
    """Refuse a scale that is neither a name nor a positive number."""
    known = NAMES["scale"]
    try:
        right = given in known or 0.0 < float(given) < math.inf
    except ValueError:
        right = False
    if not right:
        expected = f"{', '.join(known)} or a positive number (the median retain-row norm κ)"
        raise InputError("unknown scale", expected=expected, got=given, do=meant(given, known))
