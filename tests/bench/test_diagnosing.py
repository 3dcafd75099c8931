"""Diagnostics of a protocol: the probes of its audits drawn again, from nothing to tables, figures and the page."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
from msgspec.structs import replace

from builders.bench import in_this_process
from sfra.attack.grid import Run, relearn_release, settings_of
from sfra.auditing.audit import audit
from sfra.auditing.config import AuditConfig
from sfra.bench.engine.store import Store
from sfra.bench.grid import run_protocol
from sfra.bench.plan import Goal, plan
from sfra.bench.protocol import Ablation, Diagnosed, Protocol
from sfra.bench.rows import Rows, collect, join
from sfra.bench.tasks.measurements import read_features
from sfra.core.head import Head
from sfra.data import FeatureSet
from sfra.diagnostics import diagnose

RECIPE = """
dataset = "digits"
backbone = "small-mlp"
[training]
epochs = 3
learning_rate = 0.1
batch_size = 64
[methods.delete]
epochs = 2
"""
AUDIT: dict[str, Any] = {"n": 400, "m": 20, "epochs": 2, "seeds": 2}
CONFIG = AuditConfig(**AUDIT)


@pytest.fixture(scope="module")
def protocols(tmp_path_factory: pytest.TempPathFactory) -> tuple[Protocol, Protocol]:
    recipe = tmp_path_factory.mktemp("recipe") / "quick.toml"
    recipe.write_text(RECIPE, encoding="utf-8")
    main = Protocol(
        name="explained",
        dataset="digits",
        backbone="small-mlp",
        recipe=str(recipe),
        forget=((3,), (1, 6)),
        methods=("retrained", "delete"),
        controls=(),
        audit=AUDIT,
        pra=None,
        linear_probe=None,
        diagnostics=Diagnosed(geometry=("delete",)),
        limits={"default": 300},
    )
    sizes = (Ablation(name="M", vary={"m": [10, 20]}), Ablation(name="N", vary={"n": [200, 400]}))
    return main, replace(main, name="varied", forget=((3,),), ablations=sizes, diagnostics=None)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory, protocols: tuple[Protocol, Protocol]) -> Store:
    folder = tmp_path_factory.mktemp("diagnosed") / "store"
    with in_this_process(), pytest.MonkeyPatch.context() as patch:
        patch.setattr("sklearn.manifold.TSNE.fit_transform", lambda _, rows: rows[:, :2])  # it has its own tests
        for protocol in protocols:
            summary = run_protocol(protocol, folder)
            assert summary.complete, [failure.message for failure in summary.failed]
    return Store(folder, read_only=True)


@pytest.fixture(scope="module")
def rows(store: Store, protocols: tuple[Protocol, Protocol]) -> Rows:
    return join([collect(plan(protocol), store) for protocol in protocols])


def goal_of(protocol: Protocol, what: str, forget: str) -> Goal:
    return next(g for g in plan(protocol, {"what": what, "method": "delete", "forget": forget}))


def parts(store: Store, goal: Goal) -> tuple[Head, FeatureSet, Any]:
    """The head and features that a cell was given, and what it wrote."""
    head, test = read_features(store.folder(goal.cell.needs["test"]))
    name = {"diagnostics": "diagnostics.json", "geometry": "geometry.json"}[goal.what]
    return head, test, json.loads((store.folder(goal.cell) / name).read_text(encoding="utf-8"))


def runs_of(head: Head, forget: tuple[int, ...], scale: str) -> list[Run]:
    """What the audit itself does at a scale, seed by seed."""
    settings = [
        one for one in settings_of(CONFIG, missing=False) if (one.scale.name, one.variant) == (scale, "released")
    ]
    return relearn_release(head, forget, settings, CONFIG)


def test_the_diagnosis_is_that_of_the_audit_with_the_same_settings(
    store: Store, protocols: tuple[Protocol, Protocol]
) -> None:
    head, test, found = parts(store, goal_of(protocols[0], "diagnostics", "1+6"))
    assert [one["scale"] for one in found] == ["canonical", "native"]
    direct = audit(head, (1, 6), data=test, diagnostics=diagnose, config=CONFIG).diagnostics
    assert direct is not None
    for name in ("gain", "variant", "alignment", "confidence"):
        assert found[0][name] == direct[name]
    for mine, theirs in zip(found[0]["margin"], direct["margin"], strict=True):
        assert len(mine["points"]) == 300 < len(theirs["points"])
        assert mine | {"points": []} == theirs | {"points": []}


@pytest.mark.parametrize("scale", ["canonical", "native"])
def test_rows_agree_with_means_taken_by_hand(rows: Rows, store: Store, scale: str, protocols: Any) -> None:
    head, test, _ = parts(store, goal_of(protocols[0], "diagnostics", "3"))
    runs = runs_of(head, (3,), scale)
    real = (test.features[test.labels == 3].double() / runs[0].placed.gain).numpy().mean(0)
    inner, cosine = [], []
    for run in runs:
        probe = run.probes.samples[run.probes.labels == 3].double().numpy().mean(0)
        inner.append(probe @ real)
        cosine.append(inner[-1] / np.linalg.norm(probe) / np.linalg.norm(real))
    (row,) = [r for r in rows.diagnostics if (r["method"], r["forget"], r["scale"]) == ("delete", "3", scale)]
    assert (row["inner"], row["cosine"]) == pytest.approx((np.mean(inner), np.mean(cosine)), rel=1e-5)
    assert (row["inner_std"], row["cosine_std"]) == pytest.approx(
        (np.std(inner, ddof=1), np.std(cosine, ddof=1)), rel=1e-4
    )

    S = runs[0].probes.samples[runs[0].probes.labels == 3].double().numpy()
    weight, bias = (part.double().numpy() for part in (runs[0].placed.head.weight, runs[0].placed.head.bias))
    logits = S @ weight.T + bias
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    retain = [k for k in range(10) if k != 3]
    alpha = 1.0 - p[:, [3]] + p[:, retain]
    residual = ((alpha - 1.0)[:, :, None] * S[:, None, :]).mean(0) @ real
    assert (row["alpha_mean"], row["alpha_std"]) == pytest.approx((alpha.mean(), alpha.std()), rel=1e-5)
    assert (row["residual_min"], row["residual_max"]) == pytest.approx((residual.min(), residual.max()), abs=1e-6)
    assert row["sufficient"] == sum(inner[0] > np.abs(residual))
    assert row["rising"] == sum(inner[0] + residual + alpha.mean(0) > 0)
    assert row["competitors"] == 9


def test_there_is_a_row_for_each_model_scale_and_forget_class(rows: Rows) -> None:
    places = {(r["method"], r["forget"], r["forget_class"], r["scale"]) for r in rows.diagnostics}
    sets = (("3", 3), ("1+6", 1), ("1+6", 6))
    assert places == {(m, *f, s) for m in ("retrained", "delete") for f in sets for s in ("canonical", "native")}
    assert len(rows.diagnostics) == len(places)
    assert {(r["n"], r["m"], r["seeds"]) for r in rows.diagnostics} == {(400, 20, 2)}


def test_a_map_has_real_samples_and_the_probes_of_the_first_seed(
    store: Store, rows: Rows, protocols: tuple[Protocol, Protocol]
) -> None:
    (told,) = rows.maps
    assert (told["method"], told["forget"], told["scale"]) == ("delete", "3", "canonical")
    head, test, found = parts(store, goal_of(protocols[0], "geometry", "3"))
    probes = runs_of(head, (3,), "canonical")[0].probes
    for space in ("features", "logits"):
        points = [point for point in found["points"] if point["space"] == space]
        drawn = [point["label"] for point in points if point["kind"] == "probe"]
        assert set(drawn) == set(range(10))
        share = float((probes.labels == 3).double().mean())
        assert drawn.count(3) / len(drawn) == pytest.approx(share, abs=0.02)
        real = [point["label"] for point in points if point["kind"] == "real"]
        assert len(real) == 300
        counts = torch.bincount(test.labels, minlength=10) * 300 / len(test.labels)
        assert [real.count(k) for k in range(10)] == pytest.approx(counts.tolist(), abs=1.0)


def test_what_protocols_share_counts_once(store: Store, rows: Rows, protocols: tuple[Protocol, Protocol]) -> None:
    main, varied = (collect(plan(protocol), store) for protocol in protocols)
    mains = [row for row in rows.audits if row["audit"] == "main"]
    assert len(mains) == len(main.audits)
    ablations = [row for row in varied.audits if row["audit"] != "main"]
    assert len(rows.audits) == len(main.audits) + len(ablations)
    assert len(rows.originals) == 1
