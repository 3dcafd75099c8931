"""What an audit is about: a head, the classes it forgot, and features to measure on."""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import SupportsIndex

from sfra.config import AuditConfig
from sfra.data import Data, FeatureSet, ImageSet, extract_features, has_split, load_data
from sfra.errors import InputError
from sfra.evaluate import check_evaluation
from sfra.release import STATE_DICTS, Release

Labelled = FeatureSet | ImageSet | None
"""Data as loaded, before any feature is extracted."""

Forget = SupportsIndex | str | Sequence[SupportsIndex | str]
"""A forget class by index or name, or several."""

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

    def classes(self, forget: Sequence[int]) -> int:
        """Return the number of classes, counting rows that are missing."""
        return self.release.head.classes + (len(forget) if self.missing else 0)

    def check(self, forget: Sequence[int], config: AuditConfig) -> None:
        """Refuse, before any work is done, forget classes, settings or data that do not fit the release."""
        classes = self.classes(forget)
        config.probe_settings(classes, len(forget)).check(classes, forget)
        for part in (self.test, self.validation):
            if part is not None:
                check_evaluation(part.features, part.labels, forget, classes=classes, width=self.width)

    @property
    def width(self) -> int:
        """Width of the head's input."""
        return self.release.head.width

    def check_against(self, model: Subject, forget: Sequence[int]) -> None:
        """Refuse a reference that has other classes than the model."""
        mine, theirs = self.classes(forget), model.classes(forget)
        if mine != theirs:
            raise InputError(
                "model and reference do not have the same classes",
                expected=f"{theirs} outputs ({theirs - len(forget)} if the reference has none for the forget class)",
                got=self.release.head.classes,
                do="train the reference on the same task, without the forget class",
            )


def known_names(release: Release, test: Labelled, *, missing: bool) -> tuple[str, ...] | None:
    """Return the names of all classes, where known; a release without the forget rows has lost their names as well."""
    own = None if missing else release.class_names
    return own or (test.class_names if test is not None else None)


def check_order(model: Sequence[str] | None, data: Sequence[str] | None) -> None:
    """Refuse data whose classes are the model's in another order: every index would mean another class.

    Names that are not the same ones (numbers here, words there) say nothing about the order.
    """
    if model is None or data is None or sorted(model) != sorted(data) or list(model) == list(data):
        return
    place = next(i for i, (mine, theirs) in enumerate(zip(model, data, strict=True)) if mine != theirs)
    raise InputError(
        "model and data number their classes differently",
        expected=f"class {place} to be {model[place]!r}, as in the model",
        got=f"{data[place]!r}",
        do="bring the data into the model's order of classes",
    )


def shared_arch(arch: str | None, reference: object) -> str | None:
    """Return the model's architecture for a reference that is a state dict too; nothing else takes one."""
    if not isinstance(reference, str | os.PathLike):
        return None
    return arch if Path(reference).suffix in STATE_DICTS else None


def check_needs(**given: object) -> None:
    """Refuse what means nothing without something else, such as a reference without data."""
    for name, other in NEEDS.items():
        if given[name] is not None and given[other] is None:
            raise InputError(f"{name} is of no use without {other}", got=f"no {other}", do=f"pass {other} as well")


def forget_classes(forget: Forget, class_names: Sequence[str] | None) -> tuple[int, ...]:
    """Turn names and indices into sorted indices.

    >>> forget_classes(["dog", 2], ["cat", "dog", "ox"])
    (1, 2)
    """
    given = [forget] if isinstance(forget, str) or not isinstance(forget, Iterable) else list(forget)
    return tuple(sorted({_class_index(one, class_names) for one in given}))


def _class_index(given: SupportsIndex | str, class_names: Sequence[str] | None) -> int:
    if not isinstance(given, str):
        return operator.index(given)
    names = list(class_names or ())
    matches = [i for i, name in enumerate(names) if name == given] or [
        i for i, name in enumerate(names) if given.lower() in (part.strip().lower() for part in name.split(","))
    ]
    if len(matches) == 1:
        return matches[0]
    if re.fullmatch(r"\s*-?\d+\s*", given):
        return int(given)
    raise InputError(
        f"there is no class named {given!r}" if not matches else f"several classes are named {given!r}",
        expected=f"one of {', '.join(names[:12])}{' …' if len(names) > 12 else ''}" if names else "an index",
        got=given,
        do="give the index of the class" if matches or not names else "check the spelling, or give the index",
    )


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
    return Subject(release=release, missing=missing, test=test_features, validation=held)


def load_parts(data: Data | None, validation: Data | None) -> tuple[Labelled, Labelled]:
    """Load the evaluation data and, where the source has one of its own, its validation split."""
    if data is None:
        return None, None
    test = load_data(data)
    if validation is not None:
        return test, load_data(validation)
    return test, load_data(data, split="validation") if has_split(data, "validation") else None


def reference_parts(test: Labelled, held: Labelled, reference_data: Data | None) -> tuple[Labelled, Labelled]:
    """Choose what the reference is measured on: the same images, or features of its own."""
    if reference_data is not None:
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
