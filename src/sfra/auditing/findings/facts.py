"""What findings look at: the facts of one audit, under the names that findings use for their parameters."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from torch import nn

from sfra.auditing.answers import Answers
from sfra.auditing.config import AuditConfig
from sfra.auditing.feed import Feed
from sfra.auditing.measure import Evidence
from sfra.auditing.result import Calibration, Finding, Score
from sfra.core.head import Head
from sfra.release import Release

NORMS = re.compile(r"norm|running_(mean|var)|(^|[._])(bn|ln|gn)\d*[._]", re.IGNORECASE)
"""What tensors of a normalisation are called."""

OF_WEIGHTS = ("weightnorm", "spectralnorm")
"""Layers that say "norm" and leave the features alone."""


@dataclass(frozen=True, kw_only=True)
class Facts:
    """One audit as findings see it; None stands for what is not known."""

    evidence: Evidence
    scores: Sequence[Score]
    """The model's, the verdict's first; none where nothing was measured."""
    reference_scores: Sequence[Sequence[Score]]
    """Each reference's own."""
    config: AuditConfig
    calibration: Calibration | None = None
    """How the scale of the verdict was found."""
    reference_problems: Sequence[Finding] = ()
    """What is critical about a reference by itself."""

    @property
    def forget(self) -> tuple[int, ...]:
        """The forget classes."""
        return self.evidence.subject.forget

    @property
    def last(self) -> Score | None:
        """The score of the verdict."""
        return self.scores[0] if self.scores else None

    @property
    def best(self) -> Score | None:
        """The worst case in the verdict's setting."""
        return self._beside(rule="worst-case")

    @property
    def native(self) -> Score | None:
        """The score as released, under the verdict's rule."""
        return self._beside(scale="native")

    @property
    def canonical(self) -> Score | None:
        """The score at canonical scale, under the verdict's rule."""
        return self._beside(scale="canonical")

    def _beside(self, **changed: str) -> Score | None:
        if self.last is None:
            return None
        wanted = {name: getattr(self.last, name) for name in ("scale", "variant", "rule")} | changed
        return next(one for one in self.scores if all(getattr(one, name) == it for name, it in wanted.items()))

    def __getattr__(self, name: str) -> Any:
        """Return a number of the verdict's score, such as ``retain_before``; RS is none where the class never went."""
        if name not in Score.__struct_fields__:
            raise AttributeError(name)
        unknown = self.last is None or (name in ("rs", "delta_rs") and self.last.verdict == "not-unlearned")
        return None if unknown else getattr(self.last, name)

    @property
    def reference_forget_before(self) -> float | None:
        """Highest forget accuracy of a reference with its own row: what a fresh row answers is chance."""
        if self.last is None:
            return None
        reading = (self.last.scale, self.last.rule, "released")
        own = [
            one for scores in self.reference_scores for one in scores if (one.scale, one.rule, one.variant) == reading
        ]
        return max((one.forget_before for one in own), default=None)

    @property
    def fewest_samples(self) -> int | None:
        """Samples of the forget class that has fewest."""
        test = self.evidence.subject.test
        return None if test is None else min(int((test.labels == label).sum()) for label in self.forget)

    @property
    def rs_curve(self) -> list[float] | None:
        """RS of every epoch of the verdict's first run."""
        return None if self.evidence.measured is None else self.evidence.measured[0].test.rs.tolist()

    @property
    def answers(self) -> Answers | None:
        """What the released head answers for the retain samples."""
        return self.evidence.subject.answers

    @property
    def feed(self) -> Feed | None:
        """What the network is fed, where it is fed images."""
        return self.evidence.subject.feed

    @property
    def unprepared(self) -> bool:
        """Whether images went in as they are, though a model of this kind says how it wants them."""
        subject = self.evidence.subject
        return subject.kind == "images" and subject.release.silent

    @property
    def expect_accuracy(self) -> float | None:
        """Retain accuracy that the model is known to reach."""
        return self.config.expect_accuracy

    @property
    def samples(self) -> int:
        """Evaluation samples."""
        return 0 if self.evidence.subject.test is None else len(self.evidence.subject.test)

    @property
    def head(self) -> Head | None:
        """The released head, if it has its forget rows."""
        return None if self.evidence.subject.missing else self.evidence.subject.release.head

    @property
    def length_spread(self) -> float | None:
        """How much the lengths of features, or of retain rows, differ: ``(max - min) / max``, the larger of the two."""
        subject = self.evidence.subject
        if subject.test is None:
            return None
        gone = () if subject.missing else self.forget
        rows = subject.release.head.weight[[k for k in range(subject.release.head.classes) if k not in gone]]
        lengths = [vectors.norm(dim=1) for vectors in (subject.test.features, rows)]
        return max(float(1 - length.min() / length.max()) if length.max() > 0 else 0.0 for length in lengths)

    @property
    def restored_rows(self) -> int:
        """Forget rows that the release had lost."""
        return len(self.forget) if self.evidence.subject.missing else 0

    @property
    def retain_classes(self) -> int:
        """Number of retain classes."""
        return self.evidence.subject.classes - len(self.forget)

    @property
    def classes(self) -> int:
        """Number of classes."""
        return self.evidence.subject.classes

    @property
    def n(self) -> int:
        """Candidates per retain class."""
        return self.config.probe_settings(self.classes, len(self.forget)).n

    @property
    def m(self) -> int:
        """Probes per retain class."""
        return self.config.probe_settings(self.classes, len(self.forget)).m

    @property
    def acceptance(self) -> Mapping[int, float]:
        """Share of plain draws that each conditionally sampled class wins."""
        probes = self.evidence.runs[0].probes
        return {label: float(probes.acceptance[label]) for label in probes.conditional}

    @property
    def normalised(self) -> bool | None:
        """Whether the network normalises its features."""
        return normalises(self.evidence.subject.release)


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
