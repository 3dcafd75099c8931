"""The curves that a page carries: thin, and still exact for any retain budget."""

from __future__ import annotations

import itertools

import pytest
import torch

from builders.pages import true_audit
from sfra.core.metrics import relearning_curve, rs_at_budget
from sfra.report.page_runs import MANY_POINTS, UNIT, audit_data, compact, page_runs


def long_run(epochs: int, seed: int) -> dict[str, object]:
    generator = torch.Generator().manual_seed(seed)
    steps = torch.rand(2, epochs + 1, generator=generator)
    forget = (steps[0] * 0.1 + torch.linspace(0.0, 0.8, epochs + 1)).clamp(0, 1)
    retain = (0.95 - 0.2 * torch.linspace(0.0, 1.0, epochs + 1) + 0.03 * steps[1]).clamp(0, 1)
    rs = relearning_curve(retain, forget)
    curves = {"retain": retain.tolist(), "forget": forget.tolist(), "rs": rs.tolist()}
    return {"subject": "model", "scale": "native", "variant": "released", "seed": 0, **curves}


@pytest.mark.parametrize("epsilon", [0.0, 0.013, 0.05, 0.2])
@pytest.mark.parametrize("seed", [0, 1])
def test_a_thinned_curve_gives_the_same_score_at_a_budget(epsilon: float, seed: int) -> None:
    run = long_run(1000, seed)
    thin = compact(run, set())
    retain, forget = (torch.tensor(thin[name]).double() / UNIT for name in ("retain", "forget"))
    whole = rs_at_budget(torch.tensor(run["retain"]), torch.tensor(run["forget"]), epsilon)
    assert rs_at_budget(retain, forget, epsilon) == pytest.approx(whole, abs=3e-5)
    assert len(thin["retain"]) <= MANY_POINTS
    assert thin["epochs"][0] == 0
    assert thin["epochs"][-1] == 1000


def test_a_short_curve_is_kept_whole() -> None:
    thin = compact(long_run(100, 0), set())
    assert thin["epochs"] is None
    assert len(thin["forget"]) == 101


def test_the_epochs_that_rules_chose_are_kept() -> None:
    assert 333 in compact(long_run(1000, 0), {333})["epochs"]


def test_without_all_runs_only_those_of_the_verdict_are_carried() -> None:
    audit = true_audit()
    few, many = audit_data(audit, all_runs=False), audit_data(audit)
    assert {(run["scale"], run["variant"]) for run in few["runs"]} == {(audit["scale"], audit["variant"])}
    assert len(few["runs"]) == 2 < len(many["runs"])
    assert {mark["rule"] for mark in few["marks"]} == {"source-free", "validation", "worst-case"}


def test_runs_that_audits_share_travel_once_and_add_up_to_what_they_were() -> None:
    own, shared = ({**long_run(300, seed), "subject": who} for seed, who in ((0, "model"), (1, "reference")))
    thin = {key: {"runs": [compact(run, set()) for run in (own, shared)], "marks": []} for key in ("a", "b")}
    told = page_runs(thin)
    assert len(told["runs"]) == 2
    assert told["audits"]["a"]["runs"] == told["audits"]["b"]["runs"] == [["model", 0], ["reference", 1]]
    for run, written in zip(thin["a"]["runs"], told["runs"], strict=True):
        for name in ("epochs", "retain", "forget"):
            assert list(itertools.accumulate(written[name])) == run[name]
        assert "subject" not in written
