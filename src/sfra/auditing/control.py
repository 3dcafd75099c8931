"""Controls: classes that are hidden by construction, audited as the forgotten one is. They show what an audit can see.

The original still holds the class in its features, whatever its output says; the released model holds each of its
retain classes. With their outputs drawn anew these are hidden at the head and nowhere else. Where the audit does not
bring them back, it would not have brought back a forgotten class that is hidden either.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, islice

import torch

from sfra.attack.grid import Job, Setting, relearn_jobs, seeds_of
from sfra.attack.outlook import Outlook
from sfra.auditing.config import AuditConfig
from sfra.auditing.evaluate import confusion
from sfra.auditing.measure import measure
from sfra.auditing.result import Control, Hidden, Score
from sfra.auditing.rules import VERDICT_RULE
from sfra.auditing.score import compare, scores
from sfra.auditing.subject import KNOWN, Measurable, Subject
from sfra.auditing.verdict import SEEN
from sfra.core.head import MIN_CLASSES, Head

MANY_CLASSES = 200
"""Classes from which fewer of them are hidden: each costs as much as a third of the audit."""

HIDDEN = "reset-row"
"""Variant of a hidden class: its row is drawn anew."""

HiddenSubject = tuple[tuple[int, ...], Subject]
"""Classes that are hidden, by their numbers in the release, and the release with them as its forget classes."""


def default_self_controls(classes: int) -> int:
    """Return how many retain classes are hidden, one at a time, where nothing else is said.

    Four, of which the audit must see three. Two of many classes, of which it must see both: of audits that see a share
    ``p`` of hidden classes ``p²`` then count as able to see, and ``4p³ - 3p⁴`` of those with four.

    >>> default_self_controls(10), default_self_controls(1000)
    (4, 2)
    """
    return 4 if classes < MANY_CLASSES else 2


def original_control(
    original: Subject, config: AuditConfig, references: Sequence[Sequence[Score]], outlook: Outlook
) -> Control:
    """Hide the forget classes of the original, and audit them beside the references' scores."""
    found = audit_hidden([(original.forget, original)], config, references, outlook)
    return Control(kind="original", source=original.release.source, hidden=tuple(found))


def self_control(
    model: Subject,
    hidden: Sequence[HiddenSubject],
    config: AuditConfig,
    references: Sequence[Sequence[Score]],
    outlook: Outlook,
) -> Control:
    """Audit hidden retain classes of the released model."""
    found = audit_hidden(hidden, config, references, outlook)
    return Control(kind="self", source=model.release.source, hidden=tuple(found))


def hide_retain_classes(model: Subject, count: int) -> list[HiddenSubject]:
    """Hide retain classes of the released model that it knows, one group at a time; none where there are none."""
    known = without_forgotten(model)
    if known is None or not count:
        return []
    numbers = [label for label in range(model.classes) if label not in model.forget]
    groups = choose_groups(known, len(model.forget), count)
    return [(tuple(numbers[label] for label in group), replace(known, forget=group)) for group in groups]


def without_forgotten(model: Subject) -> Subject | None:
    """Take the forget classes out of a model and its data; None if too few classes are left.

    The outputs of classes that were really forgotten never win: a pool that waits for them would never fill.
    """
    if model.test is None or model.classes - len(model.forget) < MIN_CLASSES:
        return None
    numbers = [label for label in range(model.classes) if label not in model.forget]
    head = model.release.head
    if not model.missing:
        head = Head(head.weight[numbers], head.bias[numbers])
    place = torch.full((model.classes,), -1)
    place[numbers] = torch.arange(len(numbers))
    labels = place[model.test.labels]
    test = replace(model.test, features=model.test.features[labels >= 0], labels=labels[labels >= 0], class_names=None)
    release = replace(model.release, head=head, class_names=None)
    return Subject(release=release, forget=(), missing=False, test=test, validation=None, kind=model.kind)


def choose_groups(known: Subject, size: int, count: int) -> list[tuple[int, ...]]:
    """Choose groups of known classes to hide, as many at a time as were forgotten, spread evenly."""
    assert known.test is not None
    counts = confusion(known.release.head, known.test.features, known.test.labels)
    share = counts.diagonal() / counts.sum(1)
    labels = [label for label in range(known.classes) if float(share[label]) >= KNOWN]
    size = min(size, max(1, known.classes - MIN_CLASSES + 1), len(labels) or 1)
    most = min(count, len(labels) // size)
    return [tuple(labels[group * len(labels) // most + i] for i in range(size)) for group in range(most)]


def audit_hidden(
    hidden: Sequence[HiddenSubject],
    config: AuditConfig,
    references: Sequence[Sequence[Score]],
    outlook: Outlook,
) -> list[Hidden]:
    """Relearn every hidden group at the verdict's scale, all side by side, and measure what comes back at the end."""
    setting = Setting(scale=config.scales.verdict, variant=HIDDEN)
    jobs = [
        Job(head=subject.release.head, forget=subject.forget, setting=setting, seed=seed, anchor=subject.anchor)
        for _, subject in hidden
        for seed in seeds_of(config)
    ]
    runs = chain.from_iterable(relearn_jobs(jobs, config, record="last", outlook=outlook))
    found = []
    for classes, subject in hidden:
        assert subject.test is not None
        whole = Measurable(report=subject.test, validation=None, own_validation=False)  # no rule of these selects
        mine = measure(list(islice(runs, config.seeds)), whole, subject.forget, device=config.device)
        score = next(one for one in scores(mine) if one.rule == VERDICT_RULE)
        [score] = compare([score], references)
        accuracy = subject.accuracy(subject.forget)
        found.append(Hidden(classes=classes, accuracy=accuracy, seen=is_seen(score), score=score))
    return found


def is_seen(score: Score) -> bool:
    """Say whether an audit with this score of a hidden class would have spoken up."""
    return score.verdict in ("recovered", "no-reference") and score.rs >= SEEN
