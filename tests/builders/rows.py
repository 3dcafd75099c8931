"""Rows as a benchmark gives them, small and plain."""

from typing import Any

from sfra.bench.rows import AuditRow, DiagnosisRow, FailureRow, PraRow, ProbeRow

Fields = dict[str, Any]

SUPPORT: Fields = {"negative_coordinates": 0.5, "zero_coordinates": 0.0, "nonnegative_vectors": 0.0, "mean_norm": 22.5}

AUDIT: Fields = (
    {"audit": "main", "retain_original": 0.95, "forget_original": 0.9, "proposal": "gaussian", "score": "softmax"}
    | {"assignment": "greedy", "n": 1000, "m": 10, "epochs": 100, "seeds": 1, "cell": "0" * 64, "seconds": 1.5}
    | {"findings": [], "scale": "native", "kappa": None, "variant": "released", "rule": "worst-case", "rs": 0.5}
    | {"rs_std": None, "delta_rs": None, "reference_rs": None, "retain_before": 0.94, "retain_after": 0.93}
    | {"forget_before": 0.0, "forget_after": 0.4, "floor": 0.02, "verdict": "no-reference", "epoch": 100}
    | {"probe_seconds": 0.5, "draws": 2.5e6, "support": SUPPORT}
)
PRA: Fields = {"variant": "cosine", "support": 0, "alpha": 1.0, "retain_before": 0.94, "retain_after": 0.935} | {
    "forget_before": 0.0,
    "forget_after": 0.2,
    "rs": 0.33,
    "delta_rs": None,
}
PROBE: Fields = {"forget_accuracy": 0.9, "retain_accuracy": 0.93, "per_class": {}, "epoch": 100}
DIAGNOSIS: Fields = (
    {"proposal": "gaussian", "score": "softmax", "n": 1000, "m": 10, "seeds": 1, "cell": "0" * 64, "scale": "native"}
    | {"variant": "released", "gain": 1.0, "inner": 0.5, "inner_std": None, "cosine": 0.25, "cosine_std": None}
    | {"error": 0.1, "probe_norm": 0.5, "chance_norm": 0.1, "feature_norm": 5.0, "alpha_mean": 1.0, "alpha_std": 0.1}
    | {"residual_min": 0.1, "residual_max": 0.2, "exact_min": 0.3, "exact_max": 0.4, "competitors": 9, "pairs": 100}
    | {"sufficient": 3, "rising": 9, "pearson": 0.9, "spearman": 0.8, "slope": 1.1, "slope_through_origin": 1.0}
    | {"intercept": 0.1, "sign_agreement": 0.75, "correct_confidence": 0.95, "matched_confidence": 0.9}
    | {"assigned_confidence": 0.35, "gap": 0.6, "matched_gap": 0.5, "assigned": 90, "forget_samples": 100}
)


def _model(method: str, forget: tuple[int, ...]) -> Fields:
    place = {"dataset": "cifar10", "backbone": "resnet18-small", "seed": 0}
    return place | {"method": method, "forget": "+".join(map(str, forget)), "forget_classes": list(forget)}


def audit_row(method: str = "delete", forget: tuple[int, ...] = (7,), **changes: Any) -> AuditRow:
    """One score of one audit; RS and accuracies are whatever the caller says."""
    return AuditRow(**_model(method, forget) | AUDIT | changes)


def pra_row(method: str = "delete", forget: tuple[int, ...] = (7,), **changes: Any) -> PraRow:
    """One prototyped head."""
    return PraRow(**_model(method, forget) | PRA | changes)


def probe_row(method: str = "delete", forget: tuple[int, ...] = (7,), **changes: Any) -> ProbeRow:
    """One linear probe."""
    return ProbeRow(**_model(method, forget) | PROBE | changes)


def diagnosis_row(method: str = "delete", forget: tuple[int, ...] = (7,), **changes: Any) -> DiagnosisRow:
    """One forget class of one diagnosed model."""
    return DiagnosisRow(**_model(method, forget) | DIAGNOSIS | {"forget_class": forget[0]} | changes)


def failure_row(label: str, kind: str, message: str) -> FailureRow:
    """One cell that failed."""
    return FailureRow(label=label, kind=kind, message=message, attempts=1)
