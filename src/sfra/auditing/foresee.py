"""What an audit is going to do, and how long it may take, before it begins: draws, relearnings, measurements."""

from __future__ import annotations

from sfra.attack.grid import expect_jobs, settings_of
from sfra.attack.outlook import Outlook, product_speed
from sfra.auditing.config import AuditConfig
from sfra.auditing.inputs import Inputs
from sfra.auditing.subject import Subject
from sfra.core.errors import counted
from sfra.core.types import Progress

MEASURING = "measuring"
"""What the third step is called while it runs."""


def foresee(inputs: Inputs, hidden: int, config: AuditConfig, progress: Progress | None) -> Outlook:
    """Return what tells of the whole audit, with some hidden groups, after saying once what is going to be done."""
    outlook, model = Outlook(progress), inputs.model
    references = [one for one in inputs.references if isinstance(one, Subject)]
    jobs = {"the model": _expect(outlook, model, len(settings_of(config, missing=model.missing)), config)}
    jobs["references"] = sum(
        _expect(outlook, one, len(settings_of(config, missing=one.missing, fresh=model.missing)), config)
        for one in references
    )
    jobs["hidden classes"] = 0
    if inputs.control is not None:
        jobs["hidden classes"] += _expect_hidden(outlook, inputs.control, inputs.control.classes, 1, config)
    jobs["hidden classes"] += _expect_hidden(outlook, model, model.classes - len(model.forget), hidden, config)
    draws, epochs = counted(sum(jobs.values()), "draw", "draws"), counted(config.epochs, "epoch", "epochs")
    whose = ", ".join(f"{count} of {who}" for who, count in jobs.items() if count)
    outlook.announce(f"{draws} of probes, as many relearnings of {epochs}: {whose}")
    return outlook


def _expect(outlook: Outlook, subject: Subject, settings: int, config: AuditConfig) -> int:
    """Expect the jobs of a subject in some settings, with every seed; return how many there are.

    Measuring takes ``2 C d`` operations for a sample in every epoch.
    """
    jobs, size = settings * config.seeds, (subject.classes, subject.width)
    expect_jobs(outlook, jobs, *size, len(subject.forget), config)
    if subject.test is not None:
        amount = 2.0 * subject.classes * subject.width * len(subject.test) * (config.epochs + 1)
        outlook.expect(MEASURING, jobs, seconds=jobs * amount / product_speed(*size, config.device))
    return jobs


def _expect_hidden(outlook: Outlook, subject: Subject, classes: int, groups: int, config: AuditConfig) -> int:
    """Expect the jobs of classes that are hidden; to measure their first and last epoch takes next to nothing."""
    jobs = groups * config.seeds
    if jobs:
        expect_jobs(outlook, jobs, classes, subject.width, len(subject.forget), config)
    return jobs
