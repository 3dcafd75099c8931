"""Steps 1 and 2 for every scale, variant and seed of an audit: heads in, relearned heads out, no data in sight."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from sfra.attack.anchor import Anchor
from sfra.attack.path import Record, Trajectory
from sfra.attack.probes import Probes, sample_probes
from sfra.attack.pulse import Pulse
from sfra.attack.relearn import relearn_many
from sfra.attack.scale import Canonical, Native, Placed, Scale, place
from sfra.attack.settings import AttackSettings
from sfra.attack.weight import choose_weight
from sfra.core.head import Head
from sfra.core.types import Progress

GROUP_BYTES = 2**30
"""Memory for the probes of heads that are relearned side by side."""


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One way to look at a release: a scale and what becomes of the forget row."""

    scale: Scale
    variant: str


@dataclass(frozen=True, kw_only=True)
class Run:
    """A relearned head and how it came about."""

    setting: Setting
    seed: int
    placed: Placed
    probes: Probes
    path: Trajectory


def settings_of(config: AttackSettings, *, missing: bool, fresh: bool = False) -> list[Setting]:
    """List what an audit looks at, the setting of the verdict first.

    Canonical and native scale always; the scale of the verdict; the sweep if asked for; and the reset row at the scale
    of the verdict, unless the release has no forget row to begin with.

    Args:
        config: The settings of the audit.
        missing: The release has no forget rows.
        fresh: It is the reference of a model that has none: its rows start anew everywhere, as the model's do.
    """
    variant, other = ("reset-row", "released") if fresh else ("released", "reset-row")
    chosen = config.scales
    scales = dict.fromkeys([chosen.verdict, Canonical(), Native(), *chosen.further])
    settings = [Setting(scale=scale, variant="restored-row" if missing else variant) for scale in scales]
    if not missing and (config.reset_row or fresh):
        settings.append(Setting(scale=chosen.verdict, variant=other))
    return settings


@dataclass(frozen=True, kw_only=True)
class Job:
    """A head to be relearned in one setting with one seed."""

    head: Head
    forget: Sequence[int]
    setting: Setting
    seed: int
    anchor: Anchor | None = None


def relearn_release(
    head: Head,
    forget: Sequence[int],
    settings: Sequence[Setting],
    config: AttackSettings,
    *,
    anchor: Anchor | None = None,
    progress: Progress | None = None,
) -> list[Run]:
    """Sample probes and relearn the head for every setting and seed; ``anchor`` serves the anchored scale."""
    jobs = [
        Job(head=head, forget=forget, setting=setting, seed=seed, anchor=anchor)
        for seed in seeds_of(config)
        for setting in settings
    ]
    return relearn_jobs(jobs, config, progress=progress)


def seeds_of(config: AttackSettings) -> range:
    """Return the seeds of an audit."""
    return range(config.seed, config.seed + config.seeds)


def relearn_jobs(
    jobs: Sequence[Job],
    config: AttackSettings,
    *,
    record: Record = "all",
    progress: Progress | None = None,
    stage: str = "relearning",
) -> list[Run]:
    """Sample probes and relearn the head of every job, as many side by side as memory allows; ``record`` its epochs."""
    runs: list[Run] = []
    group: list[tuple[Job, Placed, Probes]] = []
    for job in jobs:
        at, forget = job.setting, job.forget
        placed = place(job.head, forget, scale=at.scale, variant=at.variant, seed=job.seed, anchor=job.anchor)
        drawing = _part(progress, len(runs) + len(group), len(jobs))
        group.append((job, placed, _probes(placed.head, forget, config, job.seed, drawing)))
        size = len(group) * group[-1][2].samples.numel() * 4
        if size >= GROUP_BYTES or len(runs) + len(group) == len(jobs):
            pulse = Pulse(_part(progress, len(runs), len(jobs), len(group)), f"{stage}, epochs")
            runs += _relearn(group, config, record, pulse)
            group = []
        if progress is not None:
            progress(stage, len(runs) + len(group), len(jobs))
    return runs


def _part(progress: Progress | None, before: int, jobs: int, at_once: int = 1) -> Progress | None:
    """Return what hears of some of the jobs and tells of all of them."""
    if progress is None:
        return None
    return lambda stage, done, total: progress(stage, before * total // at_once + done, jobs * total // at_once)


def _probes(head: Head, forget: Sequence[int], config: AttackSettings, seed: int, progress: Progress | None) -> Probes:
    settings = config.probe_settings(head.classes, len(forget))
    return sample_probes(
        head,
        forget,
        n=settings.n,
        m=settings.m,
        proposal=settings.proposal,
        score=settings.score,
        assignment=settings.assignment,
        max_draws=settings.max_draws,
        seed=seed,
        device=config.device,
        threads=config.threads,
        progress=progress,
    )


def _relearn(
    group: Sequence[tuple[Job, Placed, Probes]], config: AttackSettings, record: Record, pulse: Pulse
) -> list[Run]:
    weight = choose_weight(config.forget_weight)
    paths = relearn_many(
        [placed.head for _, placed, _ in group],
        [probes for _, _, probes in group],
        epochs=config.epochs,
        seeds=[job.seed for job, _, _ in group],
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        batch_size=config.batch_size,
        probe_weights=[weight.probe_weights(probes, at.head.classes - len(job.forget)) for job, at, probes in group],
        device=config.device,
        record=record,
        pulse=pulse,
    )
    return [
        Run(setting=job.setting, seed=job.seed, placed=placed, probes=probes, path=path)
        for (job, placed, probes), path in zip(group, paths, strict=True)
    ]
