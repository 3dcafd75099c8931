"""Settings of an audit: what is filled in, what is refused, and what is written down."""

from __future__ import annotations

import json
import math
from dataclasses import fields, replace
from typing import Any

import pytest

from sfra.attack.probes import MAX_DRAWS
from sfra.attack.scale import KAPPA, SWEEP
from sfra.auditing.config import AuditConfig
from sfra.auditing.findings.release import small_m
from sfra.core.errors import InputError


def expected(classes: int, forgotten: int) -> tuple[int, int]:
    """Read the protocol and the least stable m off the documents, step by step."""
    n, m = (500_000, 500) if classes <= 20 else (100_000, 50) if classes <= 150 else (50_000, 25)
    n, m = (n, m) if classes <= 5000 else (5000, 1)
    return n, max(m, min(200, -(-1800 // (classes - forgotten))))


@pytest.mark.parametrize("forgotten", [1, 2, 10])
def test_n_and_m_default_to_the_protocol_but_m_never_to_less_than_is_stable(forgotten: int) -> None:
    config = AuditConfig()
    for classes in [*range(forgotten + 2, 5003), 21_841]:
        probes = config.probe_settings(classes, forgotten)
        assert (probes.n, probes.m) == expected(classes, forgotten), classes
        assert small_m(probes.m, classes - forgotten) is None, classes
    assert config.resolved(30, forgotten) == replace(config, n=100_000, m=expected(30, forgotten)[1])


def test_what_is_asked_for_is_what_is_done() -> None:
    asked: dict[str, Any] = {"n": 90, "m": 7, "proposal": "laplace", "score": "energy", "assignment": "optimal"}
    probes = AuditConfig(**asked, max_draws=12345).probe_settings(10)
    assert {name: getattr(probes, name) for name in asked} == asked
    assert probes.max_draws == 12345
    assert AuditConfig().probe_settings(10).max_draws == MAX_DRAWS


@pytest.mark.parametrize("name", ["n", "m", "epochs", "seeds", "batch_size", "max_draws", "threads"])
def test_a_number_below_one_is_refused(name: str) -> None:
    asked: dict[str, Any] = {name: 0}
    with pytest.raises(InputError, match=rf"setting {name} does not fit(\n.*)*do: +leave it out"):
        AuditConfig(**asked)


def test_more_threads_than_a_system_starts_are_refused_before_anything_is_read() -> None:
    with pytest.raises(InputError, match=r"the number of threads is out of range\n  expected: 1 to 1024"):
        AuditConfig(threads=1025)
    assert AuditConfig(threads=1024).threads == 1024


@pytest.mark.parametrize("seeds", [{"seed": -1}, {"seed": 2**63}, {"seed": 2**63 - 2, "seeds": 3}])
def test_a_seed_that_the_probes_cannot_take_is_refused(seeds: dict[str, Any]) -> None:
    with pytest.raises(InputError, match="seed"):
        AuditConfig(**seeds)


@pytest.mark.parametrize("recipe", [{"learning_rate": 0.0}, {"learning_rate": math.inf}, {"weight_decay": math.nan}])
def test_a_recipe_that_cannot_train_is_refused(recipe: dict[str, Any]) -> None:
    with pytest.raises(InputError, match=r"learning_rate|weight_decay"):
        AuditConfig(**recipe)


@pytest.mark.parametrize(
    "shares", [{"budgets": (0.1, 1.5)}, {"epsilon_r": -0.1}, {"delta_f": math.nan}, {"expect_accuracy": 94.0}]
)
def test_shares_outside_zero_to_one_are_refused(shares: dict[str, Any]) -> None:
    with pytest.raises(
        InputError, match="budgets, epsilon_r, delta_f and expect_accuracy are shares\n  expected: 0 to 1"
    ):
        AuditConfig(**shares)


@pytest.mark.parametrize("name", ["proposal", "score", "assignment", "forget_weight"])
def test_an_unknown_name_is_refused_before_anything_is_loaded(name: str) -> None:
    asked: dict[str, Any] = {name: "none"}
    with pytest.raises(InputError, match=f"unknown {name}"):
        AuditConfig(**asked)


@pytest.mark.parametrize("scale", ["tiny", "-2", "nan", 0.0, math.inf])
def test_an_unknown_scale_is_refused(scale: str | float) -> None:
    with pytest.raises(InputError, match="unknown scale\n  expected: canonical, calibrated, native, sweep, anchored"):
        AuditConfig(scale=scale)


@pytest.mark.parametrize(
    ("scale", "kappa", "name"),
    [
        ("canonical", KAPPA, "canonical"),
        ("sweep", KAPPA, "canonical"),
        ("native", None, "native"),
        (1.5, 1.5, "kappa=1.5"),
        ("1.5", 1.5, "kappa=1.5"),
        (KAPPA, KAPPA, "canonical"),
        (1 / 3, 1 / 3, "kappa=0.3333"),
    ],
)
def test_a_scale_has_a_kappa_and_a_name(scale: str | float, kappa: float | None, name: str) -> None:
    chosen = AuditConfig(scale=scale).scales.verdict
    assert (chosen.kappa, chosen.name) == (kappa, name)


@pytest.mark.parametrize(
    "config",
    [
        AuditConfig(),
        AuditConfig(scale="sweep", seeds=3),
        AuditConfig(scale=0.75, budgets=(0.1,), reset_row=False, threads=2, device="cuda:1"),
    ],
)
def test_settings_survive_the_way_through_json(config: AuditConfig) -> None:
    written = json.loads(json.dumps(config.to_dict(), allow_nan=False))
    names = {field.name for field in fields(AuditConfig)}
    again: dict[str, Any] = {name: written[name] for name in names} | {"budgets": tuple(written["budgets"])}
    assert AuditConfig(**again) == config
    assert set(written) - names == {"kappa", "sweep"}
    assert written["kappa"] == KAPPA
    assert written["sweep"] == ([scale.kappa for scale in SWEEP] if config.scale == "sweep" else None)
