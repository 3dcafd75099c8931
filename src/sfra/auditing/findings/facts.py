"""What findings look at: the facts of one audit, under the names that findings use for their parameters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import msgspec
from torch import nn

from sfra.auditing.config import AuditConfig
from sfra.auditing.measure import Evidence
from sfra.auditing.result import Calibration, Finding, Score
from sfra.auditing.subject import Subject
from sfra.data import FeatureSet
from sfra.release import Release

NORMS = re.compile(r"norm|running_(mean|var)|(^|[._])(bn|ln|gn)\d*[._]", re.IGNORECASE)
"""What tensors of a normalisation are called."""

OF_WEIGHTS = ("weightnorm", "spectralnorm")
"""Layers that say "norm" and leave the features alone."""


def facts_of(
    evidence: Evidence,
    scores: Sequence[Score],
    reference_scores: Sequence[Sequence[Score]],
    config: AuditConfig,
    *,
    calibration: Calibration | None = None,
    reference_problems: Sequence[Finding] = (),
) -> dict[str, Any]:
    """Return what findings look at: by the fields of a score that of the verdict, and the rest; None is not known.

    Args:
        evidence: The model, and what became of it.
        scores: The model's, the verdict's first; none where nothing was measured.
        reference_scores: Each reference's own.
        config: Settings of the audit.
        calibration: How the scale of the verdict was found.
        reference_problems: What is critical about a reference by itself.
    """
    subject, last = evidence.subject, scores[0] if scores else None
    head, test, forget, classes = subject.release.head, subject.test, subject.forget, subject.classes
    probes, settings = evidence.runs[0].probes, config.probe_settings(classes, len(forget))
    read = dict.fromkeys(Score.__struct_fields__) if last is None else msgspec.structs.asdict(last)
    if last is not None and last.verdict == "not-unlearned":  # the class never went, so nothing came back
        read |= {"rs": None, "delta_rs": None}
    return read | {
        "last": last,
        "best": _beside(scores, rule="worst-case"),
        "native": _beside(scores, scale="native"),
        "canonical": _beside(scores, scale="canonical"),
        "rs_curve": None if evidence.measured is None else evidence.measured[0].test.rs.tolist(),  # of the first run
        "reference_forget_before": _known_before(last, reference_scores),
        "reference_problems": reference_problems,
        "calibration": calibration,
        "expect_accuracy": config.expect_accuracy,
        "n": settings.n,
        "m": settings.m,
        "acceptance": {label: float(probes.acceptance[label]) for label in probes.conditional},  # share of plain draws
        "samples": 0 if test is None else len(test),
        "fewest_samples": None if test is None else min(int((test.labels == label).sum()) for label in forget),
        "answers": subject.answers,
        "feed": subject.feed,
        "unprepared": subject.kind == "images" and subject.release.silent,  # though models of its kind are not silent
        "head": None if subject.missing else head,  # with its forget rows
        "restored_rows": len(forget) if subject.missing else 0,
        "length_spread": None if test is None else _length_spread(subject, test),
        "normalised": normalises(subject.release),
        "forget": forget,
        "classes": classes,
        "retain_classes": classes - len(forget),
    }


def _beside(scores: Sequence[Score], **changed: str) -> Score | None:
    """Return the verdict's score under another rule or at another scale."""
    if not scores:
        return None
    wanted = {name: getattr(scores[0], name) for name in ("scale", "variant", "rule")} | changed
    return next(one for one in scores if all(getattr(one, name) == it for name, it in wanted.items()))


def _known_before(last: Score | None, references: Sequence[Sequence[Score]]) -> float | None:
    """Return the highest forget accuracy of a reference with its own row: what a fresh row answers is chance."""
    if last is None:
        return None
    reading = (last.scale, last.rule, "released")
    own = [one for scores in references for one in scores if (one.scale, one.rule, one.variant) == reading]
    return max((one.forget_before for one in own), default=None)


def _length_spread(subject: Subject, test: FeatureSet) -> float:
    """Say how much the lengths of features, or of retain rows, differ: ``(max - min) / max``, the larger of the two."""
    head, gone = subject.release.head, () if subject.missing else subject.forget
    rows = head.weight[[k for k in range(head.classes) if k not in gone]]
    lengths = [vectors.norm(dim=1) for vectors in (test.features, rows)]
    return max(float(1 - length.min() / length.max()) if length.max() > 0 else 0.0 for length in lengths)


def normalises(release: Release) -> bool | None:
    """Say whether a network has a layer that normalises its features; None where its layers cannot be seen.

    "norm" in the name of a layer's class makes it one, unless it normalises weights. Networks that call functions are
    known by the names of their tensors, such as ``bn1.weight``. In doubt a network counts as normalised.
    """
    network = getattr(release.encoder, "model", None)
    if not isinstance(network, nn.Module):
        return None
    kinds = (type(part).__name__.lower() for part in network.modules() if part is not network)
    if any("norm" in kind and not kind.endswith(OF_WEIGHTS) for kind in kinds):
        return True
    return any(NORMS.search(name) is not None for name in network.state_dict())
