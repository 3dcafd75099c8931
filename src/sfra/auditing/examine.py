"""Look at a model, and at data, before an audit: what was found, and what speaks against it. Nothing is relearned."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import replace
from statistics import median

import torch
from msgspec import Struct
from torch import nn

from sfra.auditing.evaluate import confusion
from sfra.auditing.findings.facts import normalises
from sfra.auditing.findings.fit import set_up_problems
from sfra.auditing.findings.registry import critical
from sfra.auditing.findings.release import row_outlier
from sfra.auditing.inputs import check_prepared, input_shape, known_names, load_parts, open_subject
from sfra.auditing.naming import check_order
from sfra.auditing.result import Finding
from sfra.auditing.subject import KNOWN, Subject
from sfra.auditing.taken import taken_by
from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.core.text import written_out
from sfra.core.types import Progress
from sfra.data import Data
from sfra.release import Preprocess, Release, load
from sfra.release.base import Arch, loader_of
from sfra.release.transform import OwnTransform


class Output(Struct, frozen=True, kw_only=True):
    """One output of the head."""

    label: int
    norm: float
    bias: float


class Examined(Struct, frozen=True, kw_only=True):
    """What a model is, as an audit would open it."""

    source: str
    format: str
    """A name of ``sfra list loaders``."""
    outputs: int
    width: int
    weights: int | None
    """Numbers in the network; None where only its head, or its graph, is there."""
    encoder: bool
    """Whether images can be measured; without one only features."""
    normalises: bool | None
    """Whether a layer normalises features; None where the layers cannot be seen."""
    median_norm: float
    median_bias: float
    odd_rows: tuple[Output, ...]
    """Outputs unlike the others: one that was masked, zeroed or biased away stands out."""
    preprocess: Preprocess | str | None
    """How images are prepared; None: they go in as they are."""
    class_names: tuple[str, ...] | None
    """As an audit takes them: the model's own or, without any, those of the data."""
    data: OnData | None

    @property
    def suspects(self) -> list[int]:
        """Return the classes that may be the forgotten ones: unrecognised though most are, or else with an odd row."""
        unknown = [] if self.data is None or self.data.wrong else forgotten(self.data.unknown, self.outputs)
        return unknown or [row.label for row in self.odd_rows]


class OnData(Struct, frozen=True, kw_only=True):
    """What the model makes of the data, as it is."""

    source: str
    kind: str
    """Features, images or inputs."""
    samples: int
    numbering: str | None
    """How labels that are names became indices."""
    accuracy: float
    unknown: dict[int, float]
    """Accuracy on the classes that the model recognises in fewer than half of their samples."""
    findings: tuple[Finding, ...]
    """What speaks against these data for this model."""

    @property
    def wrong(self) -> str | None:
        """Return the code of a finding that says that these numbers carry nothing."""
        return next((one.code for one in critical(self.findings)), None)


def examine(
    model: object,
    *,
    data: Data | None = None,
    arch: Arch | None = None,
    key: str | None = None,
    head_key: str | None = None,
    preprocess: Preprocess | None = None,
    cache: bool = True,
    progress: Progress,
) -> Examined:
    """Open a model, and measure it on data, without relearning anything."""
    path = written_out(model) if isinstance(model, str | os.PathLike) else None
    found = loader_of(path if path is not None and path.exists() else model)
    test, _ = load_parts(data, None)
    shape = input_shape(test, preprocess)
    release = load(model, arch=arch, key=key, head_key=head_key, preprocess=preprocess, shape=shape)
    test = taken_by(release, test, release.class_names, missing=False)
    if preprocess is not None and test is not None:
        check_prepared(release, test)
    names = known_names(release, test, missing=False)
    head, network = release.head, getattr(release.encoder, "model", None)
    subject = open_subject(release, (), test, None, missing=False, cache=cache, progress=progress)
    return Examined(
        source=release.source,
        format=found.name,
        outputs=head.classes,
        width=head.width,
        weights=sum(weight.numel() for weight in network.parameters()) if isinstance(network, nn.Module) else None,
        encoder=release.encoder is not None,
        normalises=normalises(release),
        median_norm=median(head.weight.double().norm(dim=1).tolist()),
        median_bias=median(head.bias.tolist()),
        odd_rows=odd_outputs(head),
        preprocess=_said(release),
        class_names=None if names is None else tuple(names),
        data=_measure(subject, release),
    )


def _said(release: Release) -> Preprocess | str | None:
    given = release.preprocess
    return str(given) if isinstance(given, OwnTransform) else given


def odd_outputs(head: Head) -> tuple[Output, ...]:
    """Return the rows that stand out among all others in norm or bias, as they are or centred on their mean.

    >>> weight, bias = torch.eye(5), torch.tensor([0.0, 0.0, -9.0, 0.0, 0.0])
    >>> [row.label for row in odd_outputs(Head(weight, bias))]
    [2]
    """
    biases, found = head.bias.tolist(), {}
    own = head.weight.double().norm(dim=1).tolist()
    for norms in (own, (head.weight.double() - head.weight.double().mean(0)).norm(dim=1).tolist()):
        for label, (norm, bias) in enumerate(zip(norms, biases, strict=True)):
            others = [[*values[:label], *values[label + 1 :]] for values in (norms, biases)]
            if row_outlier(label, norm, bias, *others) is not None:
                found[label] = Output(label=label, norm=own[label], bias=bias)
    return tuple(found[label] for label in sorted(found))


def _measure(subject: Subject, release: Release) -> OnData | None:
    test = subject.test
    if test is None:
        return None
    check_order(release.class_names, test.class_names)
    if int(test.labels.max()) >= release.head.classes:
        raise InputError(
            "the data has classes that the head has no output for",
            expected=f"labels 0 to {release.head.classes - 1}",
            got=int(test.labels.max()),
            do="number the classes as the model does; if it lost the output of the forgotten class, audit it with "
            "--missing-row",
        )
    counts = confusion(release.head, test.features, test.labels)
    sizes, right = counts.sum(1), counts.diagonal()
    shares = {label: int(right[label]) / int(sizes[label]) for label in torch.nonzero(sizes).flatten().tolist()}
    unknown = {label: share for label, share in shares.items() if share < KNOWN}
    return OnData(
        source=test.source,
        kind=subject.kind or "features",
        samples=len(test),
        numbering=test.numbering,
        accuracy=int(right.sum()) / len(test),
        unknown=unknown,
        findings=tuple(set_up_problems(replace(subject, forget=tuple(forgotten(unknown, len(shares)))))),
    )


def forgotten(unknown: Iterable[int], classes: int) -> list[int]:
    """Take unrecognised classes for forgotten, unless they are half of all: then something else is wrong.

    >>> forgotten([3], 10), forgotten(range(9), 10)
    ([3], [])
    """
    found = list(unknown)
    return found if 2 * len(found) < classes else []
