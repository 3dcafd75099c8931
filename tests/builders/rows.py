"""Rows as a benchmark gives them, small and plain."""

from typing import Any

Row = dict[str, Any]


def audit_row(method: str = "delete", forget: tuple[int, ...] = (7,), **changes: Any) -> Row:
    """One reading of one audit; RS and accuracies are whatever the caller says."""
    return {
        "dataset": "cifar10",
        "backbone": "resnet18-small",
        "seed": 0,
        "forget": "+".join(map(str, forget)),
        "forget_classes": list(forget),
        "method": method,
        "audit": "main",
        "scale": "native",
        "variant": "released",
        "rule": "worst-case",
        "rs": 0.5,
        "rs_std": None,
        "delta_rs": None,
        "retain_original": 0.95,
        "forget_original": 0.9,
        "retain_before": 0.94,
        "retain_after": 0.93,
        "forget_before": 0.0,
        "forget_after": 0.4,
        "proposal": "gaussian",
        "score": "softmax",
        "assignment": "greedy",
        "n": 1000,
        "m": 10,
        "epochs": 100,
        "seeds": 1,
        "probe_seconds": 0.5,
        "draws": 2_500_000,
        "support": {
            "negative_coordinates": 0.5,
            "zero_coordinates": 0.0,
            "nonnegative_vectors": 0.0,
            "mean_norm": 22.5,
        },
    } | changes


def pra_row(method: str = "delete", forget: tuple[int, ...] = (7,), **changes: Any) -> Row:
    """One prototyped head."""
    return {
        "dataset": "cifar10",
        "backbone": "resnet18-small",
        "seed": 0,
        "forget": "+".join(map(str, forget)),
        "forget_classes": list(forget),
        "method": method,
        "variant": "cosine",
        "alpha": 1.0,
        "retain_before": 0.94,
        "retain_after": 0.935,
        "forget_before": 0.0,
        "forget_after": 0.2,
        "rs": 0.33,
        "delta_rs": None,
    } | changes


def probe_row(method: str = "delete", forget: tuple[int, ...] = (7,), **changes: Any) -> Row:
    """One linear probe."""
    return {
        "dataset": "cifar10",
        "backbone": "resnet18-small",
        "seed": 0,
        "forget": "+".join(map(str, forget)),
        "forget_classes": list(forget),
        "method": method,
        "forget_accuracy": 0.9,
        "retain_accuracy": 0.93,
    } | changes
