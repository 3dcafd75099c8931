"""What an audit is about: a head, the classes it forgot, and features to measure on."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch

from sfra.auditing.config import AuditConfig
from sfra.auditing.evaluate import NUMBERING, check_evaluation, confusion
from sfra.auditing.given import refuse_unusable
from sfra.auditing.naming import (
    Forget,
    Names,
    check_names,
    check_order,
    check_rows_missing,
    forget_classes,
    placed_names,
    refuse_rows_missing,
)
from sfra.core.errors import InputError
from sfra.data import Data, FeatureSet, ImageSet, extract_features, has_split, load_data
from sfra.release import Release
from sfra.release.state_dict import StateDictLoader

Labelled = FeatureSet | ImageSet | None
"""Data as loaded, before any feature is extracted."""

NEEDS = {"reference": "data", "reference_data": "reference", "validation": "data"}
"""What is of no use without something else."""


@dataclass(frozen=True, kw_only=True)
class Subject:
    """A release with the features it is measured on; ``None`` where nothing can be measured."""

    release: Release
    missing: bool
    """The forget rows are not in the head."""
    test: FeatureSet | None
    validation: FeatureSet | None
    kind: str | None = None
    """What it is measured on was given as ``features`` or as ``images``."""

    def classes(self, forget: Sequence[int]) -> int:
        """Return the number of classes, counting rows that are missing."""
        return self.release.head.classes + (len(forget) if self.missing else 0)

    def check(self, forget: Sequence[int], config: AuditConfig) -> None:
        """Refuse, before any work is done, forget classes, settings or data that do not fit the release."""
        classes = self.classes(forget)
        config.probe_settings(classes, len(forget)).check(classes, forget)
        for part in (self.test, self.validation):
            if part is not None:
                do = self._advice(part, forget)
                check_evaluation(part.features, part.labels, forget, classes=classes, width=self.width, do=do)
        if self.missing and self._reads_better_whole(forget):
            refuse_rows_missing(self.release.head.classes, forget, self.release.head.classes)

    @property
    def width(self) -> int:
        """Width of the head's input."""
        return self.release.head.width

    def check_against(self, model: Subject, forget: Sequence[int]) -> None:
        """Refuse a reference that has other classes than the model, or that is the model itself."""
        mine, theirs = self.classes(forget), model.classes(forget)
        if mine != theirs:
            raise InputError(
                "model and reference do not have the same classes",
                expected=f"{theirs} outputs ({theirs - len(forget)} if the reference has none for the forget class)",
                got=self.release.head.classes,
                do="train the reference on the same task, without the forget class",
            )
        one, other = self.test, model.test
        measured_alike = one is not None and other is not None and torch.equal(one.features, other.features)
        if measured_alike and self.release.head.fingerprint == model.release.head.fingerprint:
            refuse_same()

    def _advice(self, part: FeatureSet, forget: Sequence[int]) -> str:
        """Say what to do about labels that have no output: they may be those of rows that are missing."""
        outputs = self.release.head.classes
        if not outputs <= int(part.labels.max()) < outputs + len(forget):
            return NUMBERING
        return f"{NUMBERING}; or pass --missing-row, if the head lost the output of the forgotten class"

    def _reads_better_whole(self, forget: Sequence[int]) -> bool:
        """Say whether the rows said to be missing are there.

        The highest label alone cannot tell: data may lack the last class. But if the labels are exactly the outputs
        and the head is right about more retain samples as it is than with its outputs moved apart, they are there.
        """
        head, test = self.release.head, self.test
        if test is None or test.class_names is not None or set(test.labels.tolist()) != {*range(head.classes)}:
            return False
        counts = confusion(head, test.features, test.labels)
        kept = [label for label in range(self.classes(forget)) if label not in forget]
        apart = sum(int(counts[label, output]) for output, label in enumerate(kept) if label < len(counts))
        return int(counts.diagonal()[[label for label in kept if label < len(counts)]].sum()) > apart


def known_names(release: Release, test: Labelled, *, missing: bool) -> tuple[str, ...] | None:
    """Return the names of all classes, where known; a release without the forget rows has lost their names as well."""
    own = None if missing else release.class_names
    return own or (test.class_names if test is not None else None)


def resolve_forget(
    forget: Forget,
    release: Release,
    reference: Release | Mapping[str, Any] | None,
    data: Mapping[str, Labelled],
    *,
    missing: bool,
) -> tuple[int, ...]:
    """Find the forget classes, and refuse what does not call the classes as the model does.

    Args:
        forget: Classes by index or name.
        release: The model.
        reference: Another, or the content of an earlier audit of it.
        data: What both are measured on, each under its title.
        missing: The forget rows are not in the model's head.
    """
    own = release.class_names
    theirs: dict[str, Names] = {title: None if part is None else part.class_names for title, part in data.items()}
    try:
        classes = forget_classes(forget, known_names(release, data["data"], missing=missing))
    except InputError:
        check_order(None if missing else own, theirs["data"])  # says more: the model may have lost the class
        raise
    if missing:
        check_rows_missing(release.head.classes, classes, own, theirs["data"])
    total = release.head.classes + (len(classes) if missing else 0)
    names: dict[str, Names] = {"model": placed_names(own, classes, missing=missing), **theirs}
    if isinstance(reference, Release):
        lost = lacks_rows(reference, classes, total)
        names["reference"] = placed_names(reference.class_names, classes, missing=lost)
    elif reference is not None:
        names["reference"] = _told_names(reference.get("class_names"))
    check_names(names, classes)
    return classes


def _told_names(names: object) -> Names:
    """Take the names out of a file for what they are, if they are names."""
    return names if isinstance(names, list) and all(isinstance(name, str) for name in names) else None


def _told_fingerprint(earlier: Mapping[str, Any]) -> object:
    model = earlier.get("model")
    return model.get("fingerprint") if isinstance(model, Mapping) else None


def lacks_rows(reference: Release, forget: Sequence[int], classes: int) -> bool:
    """Say whether a reference has no outputs for the forget classes."""
    return reference.head.classes + len(forget) == classes


def check_distinct(release: Release, reference: Release | Mapping[str, Any] | None) -> None:
    """Refuse the model as its own reference, where the weights tell: a head alone says nothing about its features."""
    if release.encoder is None or reference is None:
        return
    theirs = reference.fingerprint if isinstance(reference, Release) else _told_fingerprint(reference)
    if theirs == release.fingerprint:
        refuse_same()


def refuse_same() -> NoReturn:
    """Say that a model cannot be its own reference."""
    raise InputError(
        "model and reference are the same model",
        expected="a reference that never saw the forget class",
        got="equal weights",
        do="pass a model that was trained without the class",
    )


def shared_arch(arch: str | None, reference: object) -> str | None:
    """Return the model's architecture for a reference that is a state dict too; nothing else takes one."""
    if not isinstance(reference, str | os.PathLike):
        return None
    return arch if Path(reference).suffix in StateDictLoader.suffixes else None


def check_needs(**given: object) -> None:
    """Refuse what means nothing without something else, such as a reference without data."""
    for name, other in NEEDS.items():
        if given[name] is not None and given[other] is None:
            raise InputError(f"{name} is of no use without {other}", got=f"no {other}", do=f"pass {other} as well")


def open_subject(
    release: Release,
    forget: Sequence[int],
    test: FeatureSet | ImageSet | None,
    validation: FeatureSet | ImageSet | None,
    *,
    missing: bool,
    cache: bool,
    progress: Callable[[str, int, int], None],
) -> Subject:
    """Pair a release with features, extracting them where images were given."""
    test_features, held = (_features(release, part, cache, progress) for part in (test, validation))
    kind = None if test is None else "features" if isinstance(test, FeatureSet) else "images"
    return Subject(release=release, missing=missing, test=test_features, validation=held, kind=kind)


def load_parts(data: Data | None, validation: Data | None) -> tuple[Labelled, Labelled]:
    """Load the evaluation data and, where the source has one of its own, its validation split."""
    if data is None:
        return None, None
    for name, given in (("data", data), ("validation", validation)):
        refuse_unusable(given, name)
    test = load_data(data)
    if validation is not None:
        return test, load_data(validation)
    return test, load_data(data, split="validation") if has_split(data, "validation") else None


def reference_parts(test: Labelled, held: Labelled, reference_data: Data | None) -> tuple[Labelled, Labelled]:
    """Choose what the reference is measured on: the same images, or features of its own."""
    if reference_data is not None:
        refuse_unusable(reference_data, "reference_data")
        return load_data(reference_data), None
    if isinstance(test, FeatureSet):
        raise InputError(
            "the reference has no features to be measured on",
            expected="features of the reference itself: those of the model do not fit another encoder",
            got=f"only {test.source}",
            do="pass reference_data (--reference-data) with the reference's own features and labels",
        )
    return test, held


def _features(
    release: Release, data: Labelled, cache: bool, progress: Callable[[str, int, int], None]
) -> FeatureSet | None:
    if data is None or isinstance(data, FeatureSet):
        return data
    if release.encoder is None:
        raise InputError(
            f"{release.source} has no encoder, so images cannot be measured",
            expected="features of the model: a .npz or .safetensors with 'features' and 'labels'",
            got=data.source,
            do="extract the inputs of the last layer, or audit the whole model",
        )
    return extract_features(
        release.encoder,
        data,
        model_fingerprint=release.fingerprint,
        preprocess=release.preprocess,
        progress=lambda done, total: progress("extracting features", done, total),
        cache=cache,
    )
