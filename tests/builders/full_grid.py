"""Rows of a whole benchmark, made up: every table of a report has lines, long names and odd ones among them."""

from __future__ import annotations

from typing import Any

from builders.rows import audit_row, diagnosis_row, failure_row, pra_row, probe_row
from sfra.bench.rows import AuditRow, DiagnosisRow, Rows
from sfra.bench.tables.names import METHODS

ODD = "my_method v2 & 50% Δ±"
"""What somebody may call a method."""

SUPPORT = {"negative_coordinates": 0.4998, "zero_coordinates": 0.0, "nonnegative_vectors": 0.0, "mean_norm": 22.61}

PROPOSALS = ("gaussian", "uniform", "laplace", "relu-gaussian", "abs-gaussian")

FAILURES = [
    failure_row("salun 7 (cifar10, resnet18-small, seed 0)", "error", "CUDA out of memory: 50% of #2"),
    failure_row(ODD, "timeout", "/data/a_very/long/path/without/any/place/to/break/x.pt " * 3),
]


def full_grid(backbones: tuple[str, ...] = ("resnet18-small", "vit-b-16", "swin-t")) -> Rows:
    """Return every kind of row: methods by classes by backbones, several at once, ablations, controls and failures."""
    methods = [*(name for name in METHODS if name != "original"), ODD, "masked"]
    models = [(b, m, f) for b in backbones for m in methods for f in [(3,), (7,), (1, 6), tuple(range(10))]]
    several = [(b, m, (label,)) for b in backbones for m in ("delete", ODD) for label in range(10)]
    audits = [row for model in models for row in _readings(*model)]
    ablated = [row for model in several for row in _ablations(*model)]
    return Rows(
        audits=[*audits, *ablated],
        pra=[pra_row(m, f, backbone=b, rs=_rs(m, f), delta_rs=-0.25) for b, m, f in models],
        probes=[probe_row(m, f, backbone=b) for b, m, f in models],
        diagnostics=[row for model in several for row in _diagnoses(*model)],
        failures=FAILURES,
    )


def _rs(method: str, forget: tuple[int, ...]) -> float:
    return (0.137 * len(method) + 0.061 * sum(forget)) % 1.0


def _readings(backbone: str, method: str, forget: tuple[int, ...], **more: Any) -> list[AuditRow]:
    rs = _rs(method, forget)
    same = {"backbone": backbone, "rs": rs, "delta_rs": rs - 0.5, "rs_std": 0.0123, "n": 500_000, "m": 500} | more
    readings = (("canonical", "source-free"), ("native", "worst-case"))
    return [audit_row(method, forget, scale=scale, rule=rule, **same) for scale, rule in readings]


def _ablations(backbone: str, method: str, forget: tuple[int, ...]) -> list[AuditRow]:
    changes: list[dict[str, Any]] = [
        *({"audit": "proposal", "proposal": p} for p in PROPOSALS),
        *({"audit": "score", "score": s} for s in ("entropy", "energy")),
        *({"variant": variant} for variant in ("reset-row", "restored-row")),
        *({"audit": "M", "m": m} for m in (50, 200)),
        *({"audit": "N", "n": n} for n in (20_000, 100_000)),
    ]
    return [row for change in changes for row in _readings(backbone, method, forget, **{"support": SUPPORT} | change)]


def _diagnoses(backbone: str, method: str, forget: tuple[int, ...]) -> list[DiagnosisRow]:
    same = {"backbone": backbone, "inner": -1.25, "inner_std": 0.01, "cosine_std": 0.01}
    return [diagnosis_row(method, forget, scale=scale, **same) for scale in ("canonical", "native")]
