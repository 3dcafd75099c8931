"""Steps 1 and 2 over scales, variants and seeds."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
import torch

import sfra.attack.grid as runs_module
from builders.audits import FORGET, hidden, knowing
from sfra.attack import pulse
from sfra.attack.grid import Run, Setting, expect_jobs, jobs_of, relearn_jobs, relearn_release, settings_of
from sfra.attack.outlook import Outlook
from sfra.attack.probes import sample_probes
from sfra.attack.relearn import relearn, relearn_many
from sfra.attack.scale import SWEEP, Canonical, Native, place
from sfra.auditing.config import AuditConfig

CONFIG = AuditConfig(n=300, m=30, epochs=3, threads=1)


def names(settings: list[Setting]) -> list[tuple[str, str]]:
    return [(setting.scale.name, setting.variant) for setting in settings]


@pytest.mark.parametrize(
    ("asked", "missing", "expected"),
    [
        ({}, False, [("canonical", "released"), ("native", "released"), ("canonical", "reset-row")]),
        ({"reset_row": False}, False, [("canonical", "released"), ("native", "released")]),
        ({"scale": "native"}, False, [("native", "released"), ("canonical", "released"), ("native", "reset-row")]),
        (
            {"scale": 1.25},
            False,
            [
                ("kappa=1.25", "released"),
                ("canonical", "released"),
                ("native", "released"),
                ("kappa=1.25", "reset-row"),
            ],
        ),
        ({}, True, [("canonical", "restored-row"), ("native", "restored-row")]),
    ],
)
def test_an_audit_looks_first_at_the_setting_of_its_verdict_and_at_none_twice(
    asked: dict[str, Any], missing: bool, expected: list[tuple[str, str]]
) -> None:
    assert names(settings_of(AuditConfig(**asked), missing=missing)) == expected


@pytest.mark.parametrize("missing", [False, True])
def test_a_sweep_covers_every_scale_once(missing: bool) -> None:
    settings = settings_of(AuditConfig(scale="sweep"), missing=missing)
    assert settings[0].scale == Canonical()
    assert len(set(settings)) == len(settings) == len(SWEEP) + (1 if missing else 2)
    kept = [setting for setting in settings if setting.variant != "reset-row"]
    assert {setting.scale for setting in kept} == {*SWEEP, Native()}


def test_the_reference_of_a_model_without_a_row_starts_anew_at_every_scale_and_is_seen_as_it_is_once() -> None:
    settings = settings_of(AuditConfig(reset_row=False), missing=False, fresh=True)
    assert names(settings) == [("canonical", "reset-row"), ("native", "reset-row"), ("canonical", "released")]
    lost = settings_of(AuditConfig(), missing=True, fresh=True)
    assert names(lost) == [("canonical", "restored-row"), ("native", "restored-row")]


def same(one: Run, other: Run) -> bool:
    pairs = ((one.path.weights, other.path.weights), (one.probes.samples, other.probes.samples))
    return (one.setting, one.seed) == (other.setting, other.seed) and all(torch.equal(a, b) for a, b in pairs)


def test_every_run_is_what_the_single_steps_give() -> None:
    head = hidden().head
    settings = settings_of(CONFIG, missing=False)
    runs = relearn_release(head, (FORGET,), settings, replace(CONFIG, seeds=2, seed=3))
    assert [(run.seed, run.setting) for run in runs] == [(seed, setting) for seed in (3, 4) for setting in settings]
    for run in runs:
        placed = place(head, [FORGET], scale=run.setting.scale, variant=run.setting.variant, seed=run.seed)
        probes = sample_probes(placed.head, FORGET, n=300, m=30, seed=run.seed, threads=1)
        path = relearn(placed.head, probes, epochs=3, seed=run.seed)
        assert run.placed.head.fingerprint == placed.head.fingerprint
        assert torch.equal(run.probes.samples, probes.samples)
        assert torch.equal(run.path.weights, path.weights)


def test_how_many_heads_are_relearned_side_by_side_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    settings, config = settings_of(CONFIG, missing=False), replace(CONFIG, seeds=2)
    together = relearn_release(hidden().head, (FORGET,), settings, config)
    sizes: list[int] = []

    def counting(heads: Any, *rest: Any, **more: Any) -> Any:
        sizes.append(len(heads))
        return relearn_many(heads, *rest, **more)

    monkeypatch.setattr(runs_module, "relearn_many", counting)
    monkeypatch.setattr(runs_module, "GROUP_BYTES", 1)
    apart = relearn_release(hidden().head, (FORGET,), settings, config)
    assert sizes == [1] * 6
    assert all(same(one, other) for one, other in zip(together, apart, strict=True))


def test_the_recipe_and_the_kind_of_probes_reach_the_steps() -> None:
    settings = [Setting(scale=Canonical(), variant="released")]
    (plain,) = relearn_release(hidden().head, (FORGET,), settings, CONFIG)
    changes: dict[str, Any] = {"learning_rate": 0.1, "weight_decay": 0.1, "batch_size": 16}
    for name, value in (changes | {"proposal": "laplace", "score": "energy"}).items():
        (other,) = relearn_release(hidden().head, (FORGET,), settings, replace(CONFIG, **{name: value}))
        assert not torch.equal(plain.path.last.weight, other.path.last.weight), name


def test_long_draws_and_epochs_are_told_as_a_part_of_all_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pulse, "QUIET", 0.0)
    monkeypatch.setattr(pulse, "EVERY", 0.0)
    heard: list[str] = []
    outlook = Outlook(lambda stage, done, total: heard.append(stage))
    config, head = replace(CONFIG, n=20_000), knowing().head
    settings = settings_of(config, missing=False)
    expect_jobs(outlook, len(settings), head.classes, head.width, 1, config)
    list(relearn_jobs(jobs_of(head, [FORGET], settings, config), config, outlook=outlook))
    for draw in (1, 2, 3):
        told = [stage for stage in heard if stage.startswith(f"auditing (drawing probes {draw} of 3")]
        assert len(told) > 1
        assert all("classes full, acceptance" in stage for stage in told[1:])
    epochs = [int(stage.split()[2]) for stage in heard if stage.startswith("auditing (relearning, ")]
    assert sorted(epochs) == list(range(1, 3 * CONFIG.epochs + 1))
    assert all(kind.done == kind.amount for kind in outlook.kinds.values())
