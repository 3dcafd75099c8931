"""What an audit gathered about one release, and what ΔRS needs to know of a reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from sfra.attack.grid import Run
from sfra.auditing.inputs import Subject
from sfra.auditing.measure import Measured, Outcome, outcomes, split_features
from sfra.data.sets import hash_arrays


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """A subject, its relearned heads and, where there was data, what they recognise."""

    subject: Subject
    runs: Sequence[Run]
    measured: Sequence[Measured] | None

    @property
    def outcomes(self) -> list[Outcome]:
        """Every setting under every rule."""
        return outcomes(self.measured) if self.measured is not None else []

    def curves(self, who: str) -> list[dict[str, Any]]:
        """Return accuracies and loss of every epoch, run by run, under the subject's name in the report."""
        measured: Sequence[Measured | None] = self.measured or [None] * len(self.runs)
        return [
            {
                "subject": who,
                "scale": run.setting.scale,
                "kappa": run.setting.kappa,
                "variant": run.setting.variant,
                "seed": run.seed,
                "retain": _rounded(one.test.retain) if one else None,
                "forget": _rounded(one.test.forget) if one else None,
                "rs": _rounded(one.test.rs) if one else None,
                "loss": _rounded(run.path.losses),
            }
            for run, one in zip(self.runs, measured, strict=True)
        ]

    def facts(self) -> dict[str, Any]:
        """Say what was audited."""
        subject = self.subject
        return {
            "source": subject.release.source,
            "fingerprint": subject.release.fingerprint,
            "outputs": subject.release.head.classes,
            "width": subject.width,
            "forget_row": "missing" if subject.missing else "present",
        }

    def probe_facts(self) -> list[dict[str, Any]]:
        """Say how the probes of each run came about."""
        return [_probe_facts(run) for run in self.runs]


@dataclass(frozen=True, kw_only=True)
class Control:
    """A reference in the same audit: gathered just now, or read from an earlier audit of it."""

    outcomes: Sequence[Outcome]
    """Every setting under every rule."""
    curves: list[dict[str, Any]]
    """Its trajectories."""
    facts: dict[str, Any]
    """What it is."""

    @classmethod
    def gathered(cls, evidence: Evidence) -> Control:
        """Take the reference's own evidence."""
        return cls(outcomes=evidence.outcomes, curves=evidence.curves("reference"), facts=evidence.facts())


def data_facts(subject: Subject, forget: Sequence[int]) -> dict[str, Any] | None:
    """Say what a subject is measured on; None if on nothing."""
    test, held = subject.test, subject.validation
    if test is None:
        return None
    chooser = split_features(test, held, forget).select
    halves = "every second sample of the evaluation data" if chooser is not None else "none: too few samples"
    return {
        "source": test.source,
        **({} if subject.kind is None else {"kind": subject.kind}),
        "samples": len(test),
        "labels": hash_arrays(test.labels),
        "validation": f"{len(held)} samples" if held is not None else halves,
    }


def _probe_facts(run: Run) -> dict[str, Any]:
    probes = run.probes
    return {
        "scale": run.setting.scale,
        "variant": run.setting.variant,
        "seed": run.seed,
        "retain": probes.retain_count,
        "forget": len(probes.labels) - probes.retain_count,
        "draws": probes.draws,
        "acceptance": [float(f"{p:.6g}") for p in probes.acceptance.tolist()],
        "conditional": {str(label): method for label, method in probes.conditional.items()},
        "support": asdict(probes.support),
        "engine": probes.engine,
        "seconds": round(probes.seconds, 3),
    }


def _rounded(curve: Any) -> list[float]:
    return [round(float(value), 6) for value in curve]
