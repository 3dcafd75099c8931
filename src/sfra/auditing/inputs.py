"""What an audit is given: a release, data to measure on, references and a control; opened and checked once, here."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, TypeVar

import torch
from torch.utils.data import DataLoader, Dataset

from sfra.attack.scale import Anchored
from sfra.auditing.config import AuditConfig
from sfra.auditing.naming import (
    Forget,
    Names,
    check_names,
    check_order,
    check_rows_missing,
    forget_classes,
    placed_names,
)
from sfra.auditing.result import AuditReport, AuditResult
from sfra.auditing.stored import read_result
from sfra.auditing.subject import Subject, refuse_same
from sfra.auditing.taken import Labelled, taken_by
from sfra.core.errors import InputError, SfraError, printable
from sfra.core.text import written_out
from sfra.core.types import Progress
from sfra.data import Data, FeatureSet, ImageSet, extract_features, has_split, load_data
from sfra.data.noise import noise_images
from sfra.release import Preprocess, Release, load
from sfra.release.base import LOADERS, Arch, usable_device
from sfra.release.checkpoint import INDEX_ENDING
from sfra.release.state_dict import StateDictLoader, leads_somewhere

Opened = TypeVar("Opened", Release, Release | AuditResult)

ANCHOR_IMAGES, ANCHOR_LEAST = 4, 2000
"""Synthetic images for the anchored scale: this many per feature, and at least so many."""

NEEDS = {
    "reference": "data",
    "reference_data": "reference",
    "control": "data",
    "control_data": "control",
    "validation": "data",
}
"""What is of no use without something else."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Everything that an audit was given, opened and checked."""

    model: Subject
    references: tuple[Subject | AuditResult, ...]
    """Models, or earlier audits of them."""
    control: Subject | None
    """The original, before the classes were forgotten."""
    class_names: tuple[str, ...] | None

    @property
    def forget(self) -> tuple[int, ...]:
        """The forget classes."""
        return self.model.forget


def open_inputs(
    model: object,
    forget: Forget,
    config: AuditConfig,
    progress: Progress,
    *,
    data: Data | None,
    reference: object | list[Any] | None,
    reference_data: Data | list[Any] | None,
    control: object | None,
    control_data: Data | None,
    validation: Data | None,
    arch: Arch | None,
    reference_arch: Arch | None,
    key: str | None,
    head_key: str | None,
    preprocess: Preprocess | Callable[..., Any] | None,
    missing_row: bool,
    cache: bool,
) -> Inputs:
    """Open what an audit was given, and refuse what does not fit together before any work is done."""
    references, own_data = each(reference), each(reference_data)
    given: dict[str, object] = {"data": data, "reference": reference, "reference_data": reference_data}
    _check_needs(given | {"control": control, "control_data": control_data, "validation": validation})
    usable_device(config.device)
    loaded = load_parts(data, validation)
    named: dict[str, Any] = {"arch": arch, "key": key, "head_key": head_key}
    shape = input_shape(loaded[0], preprocess)
    release = load(model, device=config.device, preprocess=preprocess, shape=shape, **named)
    test, held_out = (taken_by(release, part, release.class_names, missing=missing_row) for part in loaded)
    if preprocess is not None:
        check_prepared(release, test)
    # before features are extracted: a wrong path shows at once
    own_arch = {} if reference_arch is None else {"arch": reference_arch, "head_key": None}
    their = [{**shared(one, named), **own_arch, "shape": shape} for one in references]
    opened: list[Release | AuditResult] = []
    for one, how in zip(references, their, strict=True):
        with speaking_of("reference", one):
            opened.append(_like(release, _open_reference(one, how, config.device)))
    asked: list[tuple[str, Release | AuditResult, Data | None]] = [
        ("reference" if len(opened) == 1 else f"reference {i + 1}", one, own)
        for i, (one, own) in enumerate(_pair_data(opened, own_data))
    ]
    if control is not None:
        with speaking_of("control", control):
            original = load(control, device=config.device, shape=shape, **shared(control, named))
        asked.append(("control", _like(release, original), control_data))
    others = [
        Beside(
            title=title,
            model=one,
            parts=_measured_on(release, title, one, (test, held_out), own) if isinstance(one, Release) else None,
        )
        for title, one, own in asked
    ]
    classes = resolve_forget(forget, release, others, {"data": test, "validation data": held_out}, missing=missing_row)
    for other in others:
        check_distinct(release, other.model, other.title)
    anchored = isinstance(config.scales.verdict, Anchored)
    subject = open_subject(
        release, classes, test, held_out, missing=missing_row, cache=cache, anchored=anchored, progress=progress
    )
    subject.check(config)
    beside = [_open_beside(other, subject, config, cache=cache, progress=progress) for other in others]
    names = known_names(release, test, missing=missing_row)
    original_subject = beside.pop() if control is not None else None
    assert not isinstance(original_subject, AuditResult)
    if original_subject is not None:
        original_subject.check_known()
    return Inputs(
        model=subject,
        references=tuple(beside),
        control=original_subject,
        class_names=None if names is None else tuple(names),
    )


def input_shape(test: Labelled, preprocess: Preprocess | Callable[..., Any] | None) -> tuple[int, ...] | None:
    """Return the shape of one image as it is prepared: a model of an unusual size is tried with it."""
    if not isinstance(test, ImageSet) or not isinstance(preprocess, Preprocess | None):
        return None
    return tuple(next(test.select(torch.arange(1)).batches(1, preprocess)).shape[1:])


@dataclass(frozen=True, kw_only=True)
class Beside:
    """A model that the audited one is put beside: a reference, an earlier audit of one, or the original."""

    title: str
    model: Release | AuditResult
    parts: tuple[Labelled, Labelled] | None
    """What it is measured on; None for an earlier audit."""


def each(given: object) -> list[Any]:
    """Return the members of a list, or what was given alone.

    >>> each(None), each("a"), each(["a", "b"])
    ([], ['a'], ['a', 'b'])
    """
    return [] if given is None else given if isinstance(given, list) else [given]


def _check_needs(given: Mapping[str, object]) -> None:
    for name, other in NEEDS.items():
        if each(given[name]) and not each(given[other]):
            option = name.replace("_", "-")
            raise InputError(f"{name} (--{option}) needs {other}", got=f"no {other}", do=f"pass {other} as well")


@contextmanager
def speaking_of(role: str, given: object) -> Iterator[None]:
    """Let an error say which of the models it is about."""
    try:
        yield
    except SfraError as problem:
        name = f" {given}" if isinstance(given, str | os.PathLike) else ""
        problem.what = printable(f"the {role}{name}: {problem.what}")
        problem.args = (printable(f"the {role}{name}: {problem}"),)
        raise


def _open_reference(reference: object, named: Mapping[str, Any], device: str) -> Release | AuditResult:
    path = Path(reference) if isinstance(reference, str | os.PathLike) else None
    if path is not None and path.suffix == ".json" and not path.name.endswith(INDEX_ENDING):
        return read_result(path)
    return reference if isinstance(reference, AuditReport) else load(reference, device=device, **named)


def _like(model: Release, other: Opened) -> Opened:
    """Give images to another model as to the audited one, unless it says itself how it wants them."""
    if isinstance(other, AuditResult) or other.preprocess is not None or model.preprocess is None:
        return other
    return replace(other, preprocess=model.preprocess, silent=False)


def check_prepared(release: Release, data: Labelled) -> None:
    """Refuse a preparation of images where there are none."""
    images = isinstance(data, ImageSet) and not data.ready
    if release.encoder is None or not images:
        raise InputError(
            "there are no images to prepare",
            expected="a network and images",
            got=f"{release.source}, {'no data' if data is None else data.source}",
            do="audit the whole model, not its head alone (a state dict: with --arch)"
            if images
            else "leave preprocess out (--size, --resize, --crop, --mean, --std, --resample, --channels)",
        )


def _pair_data(
    references: Sequence[Release | AuditResult], data: Sequence[Data]
) -> list[tuple[Release | AuditResult, Data | None]]:
    """Give each reference that is a model its own data, in the order in which they were given."""
    models = [one for one in references if isinstance(one, Release)]
    if data and len(data) != len(models):
        raise InputError(
            "references and reference data do not pair up",
            expected=f"{len(models)} (one for each reference that is a model)",
            got=len(data),
            do="pass --reference-data once for each --reference, in the same order",
        )
    left = iter(data)
    return [(one, next(left, None) if isinstance(one, Release) else None) for one in references]


def _open_beside(
    other: Beside, model: Subject, config: AuditConfig, *, cache: bool, progress: Progress
) -> Subject | AuditResult:
    if isinstance(other.model, AuditResult) or other.parts is None:
        assert isinstance(other.model, AuditResult)
        return other.model
    lost = _lacks_rows(other.model, model.forget, model.classes)
    anchored = isinstance(config.scales.verdict, Anchored)
    found = open_subject(
        other.model, model.forget, *other.parts, missing=lost, cache=cache, anchored=anchored, progress=progress
    )
    found.check_against(model, other.title)
    found.check(config)
    return found


def known_names(release: Release, test: Labelled, *, missing: bool) -> Sequence[str] | None:
    """Return the names of all classes, where known; a release without the forget rows has lost their names as well."""
    own = None if missing else release.class_names
    return own or (test.class_names if test is not None else None)


def resolve_forget(
    forget: Forget,
    release: Release,
    others: Sequence[Beside],
    data: Mapping[str, Labelled],
    *,
    missing: bool,
) -> tuple[int, ...]:
    """Find the forget classes, and refuse data (by title) or other models that call the classes by other names."""
    own = release.class_names
    data = {**data, **{f"{other.title} data": other.parts[0] for other in others if other.parts}}
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
    for other in others:
        lost = isinstance(other.model, Release) and _lacks_rows(other.model, classes, total)
        names[other.title] = placed_names(other.model.class_names, classes, missing=lost)
    check_names(names, classes)
    return classes


def _lacks_rows(reference: Release, forget: Sequence[int], classes: int) -> bool:
    """Say whether a reference has no outputs for the forget classes."""
    return reference.head.classes + len(forget) == classes


def check_distinct(release: Release, reference: Release | AuditResult, title: str = "reference") -> None:
    """Refuse the model as its own reference, where the weights tell: a head alone says nothing about its features."""
    if release.encoder is None:
        return
    theirs = reference.fingerprint if isinstance(reference, Release) else reference.model.fingerprint
    if theirs == release.fingerprint:
        refuse_same(title)


def shared(reference: object, named: Mapping[str, Any]) -> dict[str, Any]:
    """Return the model's architecture and keys for a reference that is a state dict too; nothing else takes them.

    A reference that is a bare state dict does without the key.
    """
    if not isinstance(reference, str | os.PathLike):
        return {}
    path = written_out(reference)
    loader = next((one for one in LOADERS if one.accepts(path)), None)
    takes = path.suffix in StateDictLoader.suffixes or (loader is not None and loader.takes_arch)
    key = named.get("key")
    if takes and key is not None and path.is_file() and not leads_somewhere(path, key):
        return {**named, "key": None}
    return dict(named) if takes else {}


def open_subject(
    release: Release,
    forget: tuple[int, ...],
    test: Labelled,
    validation: Labelled,
    *,
    missing: bool,
    cache: bool,
    anchored: bool = False,
    progress: Progress,
) -> Subject:
    """Pair a release with features, extracting them where images were given, and those of synthetic ones if asked."""
    features = _features(release, test, cache, progress)
    if anchored and features is not None and isinstance(test, ImageSet) and not test.ready:
        shape = next(test.pixels.pieces(0, 1)).shape[1:]
        synthetic = noise_images(max(ANCHOR_LEAST, ANCHOR_IMAGES * release.head.width), shape)
        anchor = _features(release, synthetic, cache, progress)
        features = replace(features, anchor=None if anchor is None else anchor.features)
    return Subject(
        release=release,
        forget=forget,
        missing=missing,
        test=features,
        validation=_features(release, validation, cache, progress),
        kind=None if test is None else _kind(test),
        images=test if isinstance(test, ImageSet) else None,
    )


def _kind(data: FeatureSet | ImageSet) -> Literal["features", "images", "inputs"]:
    return "features" if isinstance(data, FeatureSet) else "inputs" if data.ready else "images"


def load_parts(data: Data | None, validation: Data | None) -> tuple[Labelled, Labelled]:
    """Load the evaluation data and, where the source has one of its own, its validation split."""
    if data is None:
        return None, None
    for name, given in (("data", data), ("validation", validation)):
        _refuse_unusable(given, name)
    test = load_data(data)
    if validation is not None:
        return test, load_data(validation)
    return test, load_data(data, split="validation") if has_split(data, "validation") else None


def _measured_on(
    model: Release, title: str, other: Release, parts: tuple[Labelled, Labelled], own_data: Data | None
) -> tuple[Labelled, Labelled]:
    """Choose what another model is measured on; its own data are taken as it does, labels as the audited one."""
    test, held_out = own_parts(title, *parts, own_data)
    if own_data is None:
        return test, held_out
    return taken_by(other, test, model.class_names, missing=other.head.classes < model.head.classes), None


def own_parts(title: str, test: Labelled, held_out: Labelled, own_data: Data | None) -> tuple[Labelled, Labelled]:
    """Choose what another model is measured on: the same images, or features of its own."""
    option = title.split()[0]
    if own_data is not None:
        _refuse_unusable(own_data, f"{option}_data")
        return load_data(own_data), None
    if isinstance(test, FeatureSet):
        raise InputError(
            f"the {title} has no features to be measured on",
            expected=f"features of the {title} itself: those of the model do not fit another encoder",
            got=f"only {test.source}",
            do=f"pass {option}_data (--{option}-data) with the {title}'s own features and labels",
        )
    return test, held_out


def _features(release: Release, data: Labelled, cache: bool, progress: Progress) -> FeatureSet | None:
    if data is None or isinstance(data, FeatureSet):
        return data
    if release.encoder is None:
        raise InputError(
            f"{release.source} has no encoder, so images cannot be measured",
            expected="features of the model: a .npz or .safetensors with 'features' and 'labels'",
            got=data.source,
            do="extract the inputs of the last layer, or audit the whole model (a state dict: with --arch)",
        )
    return extract_features(
        release.encoder,
        data,
        model_fingerprint=release.fingerprint,
        preprocess=release.preprocess,
        progress=progress,
        cache=cache,
    )


GATHER = "images, labels = (torch.cat(parts) for parts in zip(*{loader}))"
"""Gathers what a loader yields."""


def _refuse_unusable(data: object, name: str) -> None:
    """Refuse what holds samples in a form that an audit does not read, and say how to get at them."""
    if isinstance(data, DataLoader | Dataset):
        loader = "loader" if isinstance(data, DataLoader) else "DataLoader(dataset, 1000)"
        advice = f"{GATHER.format(loader=loader)}; then {name}=(images, labels)"
    elif isinstance(data, Mapping) and "labels" not in data:
        advice = f"{name}=(columns['images'], columns['labels']), under the names that they have there"
    elif isinstance(data, list) and len(data) == 2:
        advice = f"write a pair in round brackets: {name}=(samples, labels)"
    elif isinstance(data, list) or hasattr(data, "shape"):
        advice = f"pass the labels as well: {name}=(samples, labels)"
    else:
        return
    expected = "a pair (images, labels) or (features, labels) of arrays or tensors, a name, or a path"
    raise InputError(f"{name} cannot be read from a {type(data).__name__}", expected=expected, do=advice)
