"""Diagnoses and maps of one model with made-up numbers, as a store gives them."""

from __future__ import annotations

from typing import Any

import numpy as np


def diagnosis(method: str, forget: tuple[int, ...] = (3,)) -> dict[str, Any]:
    """What was found of the margin of one model."""
    draw = np.random.default_rng(sum(forget))
    retain = [label for label in range(10) if label != forget[0]]
    bars = draw.integers(0, 50, (9, 20))
    margin = {
        "competitors": [
            {"label": label, "alpha_histogram": counts.tolist()} for label, counts in zip(retain, bars, strict=True)
        ],
        "points": [[retain[i % 9], float(a), float(b)] for i, (a, b) in enumerate(draw.normal(size=(300, 2)))],
    }
    return _model(method, forget) | {"margin": margin}


def mapped(method: str, forget: tuple[int, ...] = (3,)) -> dict[str, Any]:
    """The map of one model."""
    draw = np.random.default_rng(0).normal(0.0, 20.0, (600, 2))
    rows = [
        {"space": space, "x": x, "y": y, "kind": ("real", "probe")[i % 2], "label": i % 10, "name": f"class {i % 10}"}
        for space in ("features", "logits")
        for i, (x, y) in enumerate(draw.tolist())
    ]
    return _model(method, forget) | {"points": rows}


def _model(method: str, forget: tuple[int, ...]) -> dict[str, Any]:
    place = {"dataset": "digits", "backbone": "small-cnn", "seed": 0, "method": method}
    classes = {"forget": "+".join(map(str, forget)), "forget_classes": list(forget)}
    return place | classes | {"variant": "released", "scale": "canonical"}
