"""From evidence to the records of ``audit.json``: what was audited, on what, and how every run went."""

from __future__ import annotations

import platform
from collections.abc import Sequence
from dataclasses import asdict
from importlib.metadata import version
from typing import Literal

import torch

from sfra._version import __version__
from sfra.auditing.evaluate import confusion
from sfra.auditing.measure import Evidence, Measured
from sfra.auditing.result import Confusion, DataFacts, ProbeFacts, ReleaseFacts, RunTrace, SupportFacts
from sfra.auditing.subject import Subject
from sfra.core.types import Curve
from sfra.data.sets import hash_arrays
from sfra.release.preprocess import Preprocess


def release_facts(subject: Subject) -> ReleaseFacts:
    """Say what was audited."""
    return ReleaseFacts(
        source=subject.release.source,
        fingerprint=subject.release.fingerprint,
        outputs=subject.release.head.classes,
        width=subject.width,
        forget_row="missing" if subject.missing else "present",
        preprocess=_preprocess(subject),
    )


def _preprocess(subject: Subject) -> Preprocess | str | None:
    """Say how images were prepared: those that were not are bytes divided by 255, or floats as they were."""
    given = subject.release.preprocess or Preprocess()
    if subject.images is None or subject.images.ready:
        return None
    return given if isinstance(given, Preprocess) else str(given)


def data_facts(subject: Subject) -> DataFacts | None:
    """Say what a subject is measured on; None if on nothing."""
    split = subject.split
    if subject.test is None or split is None:
        return None
    halves = "every second sample of the evaluation data" if split.validation is not None else "none: too few samples"
    own = None if subject.validation is None else f"{len(subject.validation)} samples"
    return DataFacts(
        source=subject.test.source,
        kind=subject.kind,
        samples=len(subject.test),
        labels=hash_arrays(subject.test.labels),
        numbering=subject.test.numbering,
        validation=own or halves,
        confidence=None if subject.answers is None else round(subject.answers.confidence, 6),
        drift=None if subject.feed is None or subject.feed.drift is None else round(subject.feed.drift, 6),
    )


def run_traces(evidence: Evidence, who: Literal["model", "reference"]) -> tuple[RunTrace, ...]:
    """Return accuracies and loss of every epoch, run by run."""
    measured: Sequence[Measured | None] = evidence.measured or [None] * len(evidence.runs)
    return tuple(
        RunTrace(
            subject=who,
            scale=run.setting.scale.name,
            kappa=run.setting.scale.kappa,
            variant=run.setting.variant,
            seed=run.seed,
            retain=_rounded(one.test.retain) if one else None,
            forget=_rounded(one.test.forget) if one else None,
            rs=_rounded(one.test.rs) if one else None,
            loss=_rounded(run.path.losses),
        )
        for run, one in zip(evidence.runs, measured, strict=True)
    )


def probe_facts(evidence: Evidence) -> tuple[ProbeFacts, ...]:
    """Say how the probes of each run came about."""
    return tuple(
        ProbeFacts(
            scale=run.setting.scale.name,
            variant=run.setting.variant,
            seed=run.seed,
            retain=run.probes.retain_count,
            forget=len(run.probes.labels) - run.probes.retain_count,
            draws=run.probes.draws,
            acceptance=tuple(float(f"{p:.6g}") for p in run.probes.acceptance.tolist()),
            conditional={str(label): method for label, method in run.probes.conditional.items()},
            support=SupportFacts(**asdict(run.probes.support)),
            engine=run.probes.engine,
            seconds=round(run.probes.seconds, 3),
        )
        for run in evidence.runs
    )


def forget_confusion(evidence: Evidence) -> Confusion | None:
    """Count what the samples of each forget class are taken for, before and after, in the verdict's run."""
    test, forget, run = evidence.subject.test, evidence.subject.forget, evidence.runs[0]
    if test is None:
        return None
    mine = torch.isin(test.labels, torch.tensor(forget))
    features, labels = run.placed.features(test.features[mine]), test.labels[mine]
    before, after = (
        tuple(map(tuple, confusion(head, features, labels)[list(forget)].tolist()))
        for head in (run.path.head(0), run.path.last)
    )
    return Confusion(classes=tuple(forget), before=before, after=after)


def versions() -> dict[str, str]:
    """Return the versions of what the numbers depend on."""
    found = {"sfra": __version__, "python": platform.python_version(), "platform": platform.platform(terse=True)}
    return found | {package: version(package) for package in ("torch", "numpy", "scipy", "numba")}


def _rounded(curve: Curve) -> tuple[float, ...]:
    return tuple(round(value, 6) for value in curve.tolist())
