"""What an audit is told to do, checked on creation and stored word for word with its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from sfra.attack.settings import AttackSettings
from sfra.core.errors import InputError, meant

LATER = {"forget_weight": "published", "expect_accuracy": None}
"""Settings that audits got later, with what held before: files and cells that do not name them mean this."""


@dataclass(frozen=True, kw_only=True)
class AuditConfig(AttackSettings):
    """Settings of an audit. Everything that determines the relearned head and the score is here."""

    budgets: tuple[float, ...] = (0.01, 0.02, 0.05)
    """Retain budgets ε for RS@ε."""
    epsilon_r: float = 0.05
    """Largest retain drop for (ε, δ)-relearning."""
    delta_f: float = 0.5
    """Smallest forget gain for (ε, δ)-relearning."""
    expect_accuracy: float | None = None
    """Accuracy on the retain classes that the model is known to reach; None where nobody says."""

    def __post_init__(self) -> None:
        super().__post_init__()
        for share in (*self.budgets, self.epsilon_r, self.delta_f, self.expect_accuracy or 0.0):
            if not 0.0 <= share <= 1.0:
                names = "budgets, epsilon_r, delta_f and expect_accuracy"
                raise InputError(f"{names} are shares", expected="0 to 1", got=share)

    def resolved(self, classes: int, forgotten: int = 1) -> AuditConfig:
        """Return the settings with ``n`` and ``m`` filled in, for the record."""
        probes = self.probe_settings(classes, forgotten)
        return replace(self, n=probes.n, m=probes.m)

    def to_dict(self) -> dict[str, Any]:
        """Return plain values for JSON."""
        from sfra.attack.scale import KAPPA, SWEEP

        return asdict(self) | {
            "kappa": KAPPA,
            "sweep": [scale.kappa for scale in SWEEP] if self.scale == "sweep" else None,
        }


def chosen_config(config: object, settings: Mapping[str, Any]) -> AuditConfig:
    """Return the settings of an audit, given all at once or one by one.

    >>> chosen_config(None, {"epochs": 3}).epochs
    3
    """
    if config is not None and settings:
        raise InputError("config and single settings were both given", got=", ".join(settings), do="give one of them")
    if isinstance(config, AuditConfig):
        return config
    if config is not None:
        got = type(config).__name__
        raise InputError("config is of the wrong kind", expected="an AuditConfig", got=got, do="sfra.AuditConfig(n=…)")
    known = [field.name for field in fields(AuditConfig)]
    for name in settings:
        if name not in known:
            raise InputError(
                f"an audit has no setting {name!r}", expected=", ".join(known), got=name, do=meant(name, known)
            )
    return AuditConfig(**settings)
