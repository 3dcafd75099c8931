"""Steps 1 and 2 for every scale, variant and seed of an audit: heads in, relearned heads out, no data in sight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import chain

from sfra.attack.anchor import Anchor
from sfra.attack.outlook import Outlook, product_speed
from sfra.attack.path import Record, Trajectory, kept_epochs
from sfra.attack.probes import Probes, sample_probes
from sfra.attack.relearn import relearn_many
from sfra.attack.scale import Canonical, Native, Placed, Scale, place
from sfra.attack.settings import AttackSettings
from sfra.attack.weight import choose_weight
from sfra.core.head import Head
from sfra.core.types import Progress

DRAWING, RELEARNING = "drawing probes", "relearning"
"""What the two steps are called while they run."""

GROUP_BYTES = 2**29
"""Memory for the probes and the kept epochs of heads that are relearned side by side."""


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


def jobs_of(
    head: Head, forget: Sequence[int], settings: Sequence[Setting], config: AttackSettings, anchor: Anchor | None = None
) -> list[Job]:
    """List the jobs of a head: every setting with every seed; ``anchor`` serves the anchored scale."""
    return [
        Job(head=head, forget=forget, setting=setting, seed=seed, anchor=anchor)
        for seed in seeds_of(config)
        for setting in settings
    ]


def relearn_release(
    head: Head, forget: Sequence[int], settings: Sequence[Setting], config: AttackSettings
) -> list[Run]:
    """Sample probes and relearn the head for every setting and seed."""
    groups = relearn_jobs(jobs_of(head, forget, settings, config), config)
    return list(chain.from_iterable(groups))


def seeds_of(config: AttackSettings) -> range:
    """Return the seeds of an audit."""
    return range(config.seed, config.seed + config.seeds)


def relearn_jobs(
    jobs: Sequence[Job],
    config: AttackSettings,
    *,
    record: Record = "all",
    outlook: Outlook | None = None,
) -> Iterator[list[Run]]:
    """Sample probes and relearn the head of every job, and yield as many runs at a time as memory allows side by side.

    ``record`` says which of their epochs are kept. The ``outlook`` tells how far it is.
    """
    outlook = outlook or Outlook()
    kept, group = len(kept_epochs(config.epochs, record)), list[tuple[Job, Placed, Probes]]()
    for number, job in enumerate(jobs, 1):
        at, forget = job.setting, job.forget
        placed = place(job.head, forget, scale=at.scale, variant=at.variant, seed=job.seed, anchor=job.anchor)
        with outlook.step(DRAWING, 1) as tell:
            group.append((job, placed, _probes(placed.head, forget, config, job.seed, tell)))
        numbers = group[-1][2].samples.numel() + kept * placed.head.weight.numel()
        if 4 * len(group) * numbers >= GROUP_BYTES or number == len(jobs):
            yield _relearn(group, config, record, outlook)  # nothing here holds on to the epochs of these runs
            group = []


def operations(classes: int, width: int, forgotten: int, config: AttackSettings) -> float:
    """Count the floating-point operations of the products of one relearning: ``4 C d`` for a probe, every epoch.

    >>> operations(10, 512, 1, AttackSettings(m=500, epochs=100)) / 1e9
    18.432
    """
    probes = (classes - forgotten) * (1 + forgotten) * config.probe_settings(classes, forgotten).m
    return 4.0 * classes * width * probes * config.epochs


def expect_jobs(outlook: Outlook, jobs: int, classes: int, width: int, forgotten: int, config: AttackSettings) -> None:
    """Tell what is to come: the draws and relearnings of some jobs, these at the speed of their products alone."""
    amount = jobs * operations(classes, width, forgotten, config)
    outlook.expect(DRAWING, jobs, steps=jobs)
    outlook.expect(RELEARNING, amount, seconds=amount / product_speed(classes, width, config.device))


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
    group: Sequence[tuple[Job, Placed, Probes]], config: AttackSettings, record: Record, outlook: Outlook
) -> list[Run]:
    weight = choose_weight(config.forget_weight)
    amount = sum(operations(at.head.classes, at.head.width, len(job.forget), config) for job, at, _ in group)
    with outlook.step(RELEARNING, amount, "epochs") as tell:
        paths = relearn_many(
            [placed.head for _, placed, _ in group],
            [probes for _, _, probes in group],
            epochs=config.epochs,
            seeds=[job.seed for job, _, _ in group],
            learning_rate=config.learning_rate,
            weight_decay=config.weight_decay,
            batch_size=config.batch_size,
            probe_weights=[
                weight.probe_weights(probes, at.head.classes - len(job.forget)) for job, at, probes in group
            ],
            device=config.device,
            record=record,
            pulse=outlook.pulse(tell),
        )
    return [
        Run(setting=job.setting, seed=job.seed, placed=placed, probes=probes, path=path)
        for (job, placed, probes), path in zip(group, paths, strict=True)
    ]
