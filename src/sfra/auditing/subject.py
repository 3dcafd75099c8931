"""A release as an audit holds it: with the classes it forgot and the features it is measured on; checked here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal, NoReturn

import torch

from sfra.attack.anchor import Anchor
from sfra.auditing.answers import Answers
from sfra.auditing.config import AuditConfig
from sfra.auditing.evaluate import NUMBERING, check_evaluation, confusion
from sfra.auditing.feed import Feed, examine_feed
from sfra.auditing.naming import refuse_rows_missing
from sfra.core.cpu import one_thread
from sfra.core.errors import InputError
from sfra.data import FeatureSet, ImageSet
from sfra.release import Release

KNOWN = 0.5
"""Accuracy from which a class counts as known, so that hiding it makes a control."""


@dataclass(frozen=True, kw_only=True)
class Measurable:
    """Features to measure on, in two disjoint parts: ``validation`` may select an epoch, ``report`` reports it."""

    report: FeatureSet
    validation: FeatureSet | None
    """Where rules that validate look; None when there is nothing to hold out."""
    own_validation: bool
    """``validation`` is a split of its own rather than one half of the evaluation data."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A release with the features it is measured on; ``None`` where nothing can be measured."""

    release: Release
    forget: tuple[int, ...]
    missing: bool
    """The forget rows are not in the head."""
    test: FeatureSet | None
    validation: FeatureSet | None
    kind: Literal["features", "images", "inputs"] | None = None
    """What it is measured on was given as features, as images, or as inputs of the network."""
    images: ImageSet | None = None
    """The images that the features of ``test`` come from."""

    @property
    def classes(self) -> int:
        """Number of classes, counting rows that are missing."""
        return self.release.head.classes + (len(self.forget) if self.missing else 0)

    @property
    def width(self) -> int:
        """Width of the head's input."""
        return self.release.head.width

    @cached_property
    def anchor(self) -> Anchor | None:
        """How the encoder's features of synthetic images spread, where there are some."""
        return None if self.test is None or self.test.anchor is None else Anchor.of(self.test.anchor)

    @property
    def outputs(self) -> list[int]:
        """The class of each output of the head."""
        return [label for label in range(self.classes) if not (self.missing and label in self.forget)]

    @cached_property
    def answers(self) -> Answers | None:
        """What the released head answers for the retain samples."""
        if self.test is None:
            return None
        return Answers.of(self.release.head, self.test.features, self.test.labels, self.outputs, forget=self.forget)

    @cached_property
    def feed(self) -> Feed | None:
        """What the network is fed, where it is fed images."""
        if self.images is None or self.answers is None:
            return None
        return examine_feed(self.release, self.images, self.answers, self.outputs, forget=self.forget)

    @cached_property
    def split(self) -> Measurable | None:
        """What is measured on, and what rules that validate select on."""
        return None if self.test is None else split_features(self.test, self.validation, self.forget)

    @one_thread()
    def accuracy(self, labels: Sequence[int]) -> float:
        """Return the share of the samples of some classes that the head recognises as it is."""
        assert self.test is not None
        mine = torch.isin(self.test.labels, torch.tensor(list(labels)))
        counts = confusion(self.release.head, self.test.features[mine], self.test.labels[mine])
        return float(counts.diagonal().sum() / counts.sum())

    def check_known(self) -> None:
        """Refuse an original that does not know the forget classes: hiding them would make no control."""
        known = 0.0 if self.missing else self.accuracy(self.forget)
        if known < KNOWN:
            raise InputError(
                "the control does not know the forgotten class",
                expected=f"an original that recognises at least {KNOWN:.0%} of its samples",
                got=f"{known:.1%}",
                do="pass the model as it was before unlearning",
            )

    def check(self, config: AuditConfig) -> None:
        """Refuse, before any work is done, forget classes, settings or data that do not fit the release."""
        classes, forget = self.classes, self.forget
        config.probe_settings(classes, len(forget)).check(classes, forget)
        for part in (self.test, self.validation):
            if part is not None:
                do = self._advice(part)
                check_evaluation(part.features, part.labels, forget, classes=classes, width=self.width, do=do)
        if self.missing and self._reads_better_whole():
            refuse_rows_missing(self.release.head.classes, forget, self.release.head.classes)

    def check_against(self, model: Subject, title: str = "reference") -> None:
        """Refuse a reference or control that has other classes than the model, or that is the model itself."""
        mine, theirs, forget = self.classes, model.classes, self.forget
        if mine != theirs:
            raise InputError(
                f"model and {title} do not have the same classes",
                expected=f"{theirs} outputs ({theirs - len(forget)} if the {title} has none for the forget class)",
                got=self.release.head.classes,
                do=f"pass a {title} of the same task",
            )
        one, other = self.test, model.test
        measured_alike = one is not None and other is not None and torch.equal(one.features, other.features)
        if measured_alike and self.release.head.fingerprint == model.release.head.fingerprint:
            refuse_same(title)

    def _advice(self, part: FeatureSet) -> str:
        """Say what to do about labels that have no output: they may be those of rows that are missing."""
        outputs = self.release.head.classes
        if not outputs <= int(part.labels.max()) < outputs + len(self.forget):
            return NUMBERING
        return f"{NUMBERING}; or pass --missing-row, if the head lost the output of the forgotten class"

    def _reads_better_whole(self) -> bool:
        """Say whether the rows said to be missing are there.

        The highest label alone cannot tell: data may lack the last class. But if the labels are exactly the outputs
        and the head is right about more retain samples as it is than with its outputs moved apart, they are there.
        """
        head, test = self.release.head, self.test
        if test is None or test.class_names is not None or set(test.labels.tolist()) != {*range(head.classes)}:
            return False
        counts = confusion(head, test.features, test.labels)
        kept = [label for label in range(self.classes) if label not in self.forget]
        apart = sum(int(counts[label, output]) for output, label in enumerate(kept) if label < len(counts))
        return int(counts.diagonal()[[label for label in kept if label < len(counts)]].sum()) > apart


@one_thread()
def split_features(test: FeatureSet, validation: FeatureSet | None, forget: Sequence[int]) -> Measurable:
    """Take the validation data that there are, or halve the evaluation data class by class (every second sample)."""
    if validation is not None:
        return Measurable(report=test, validation=validation, own_validation=True)
    first = torch.zeros(len(test), dtype=torch.bool)
    for label in test.labels.unique():  # type: ignore[no-untyped-call]
        first[torch.nonzero(test.labels == label).flatten()[::2]] = True
    gone = torch.isin(test.labels, torch.tensor(list(forget)))
    if not all(bool((first == half)[gone == forgotten].any()) for half in (True, False) for forgotten in (True, False)):
        return Measurable(report=test, validation=None, own_validation=False)
    validation, report = (
        FeatureSet(features=test.features[rows], labels=test.labels[rows], source=test.source)
        for rows in (first, ~first)
    )
    return Measurable(report=report, validation=validation, own_validation=False)


def refuse_same(title: str = "reference") -> NoReturn:
    """Say that a model cannot be its own reference, or its own control."""
    control = title == "control"
    raise InputError(
        f"model and {title} are the same model",
        expected="the original, before it forgot" if control else "a reference that never saw the forget class",
        got="equal weights",
        do=f"pass the model {'before unlearning' if control else 'that was trained without the class'}",
    )
