"""The audit as a whole: hidden classes are found, classes that were never seen are not, and scale has no say."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor, nn

import sfra
import sfra.data.features as features_module
from audit_toys import FORGET, MEANS, SMALL, C, D, Toy, compare, hidden, knowing, never_seen
from sfra.audit import audit
from sfra.backbones import build
from sfra.config import AuditConfig
from sfra.data import FeatureSet, load_data
from sfra.errors import InputError
from sfra.head import Head
from sfra.release import Release
from sfra.result import AuditReport

QUICK: dict[str, Any] = {"n": 300, "m": 30, "epochs": 6, "threads": 1}
STRONG: dict[str, Any] = {"scale": 4.0, "epochs": 40, "m": 200}
"""A scale at which the toys give back nearly all that they hide."""


@pytest.fixture(autouse=True, scope="module")
def one_thread() -> Iterator[None]:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(threads)


def codes(report: AuditReport) -> set[str]:
    return {finding.code for finding in report.findings}


# Effects and their controls


def test_a_hidden_class_comes_back_and_one_that_was_never_seen_does_not() -> None:
    positive = compare(hidden(bias=-1.0), never_seen(), **STRONG)
    negative = compare(never_seen(seed=9), never_seen(), **STRONG)
    assert positive.rs is not None
    assert negative.rs is not None
    assert positive.delta_rs is not None
    assert negative.delta_rs is not None
    assert positive.rs > 0.8
    assert positive.delta_rs > 0.6
    assert positive.verdict == "recovered"
    assert positive.relearned is True
    assert negative.rs < 0.2
    assert abs(negative.delta_rs) < 0.1
    assert negative.verdict in ("not-recovered", "generic")
    assert positive.reference_rs == negative.reference_rs


def test_at_canonical_scale_the_verdicts_are_the_same() -> None:
    assert compare(hidden(bias=-1.0), never_seen(), m=200).verdict == "recovered"
    assert compare(never_seen(seed=9), never_seen(), m=200).verdict == "not-recovered"


@pytest.mark.parametrize("epochs", [5, 12, 20])
def test_a_bias_of_minus_fifteen_does_not_hide_a_class_from_a_short_audit(epochs: int) -> None:
    masked = compare(hidden(bias=-15.0), never_seen(), epochs=epochs, m=200)
    assert masked.verdict in ("recovered", "recovered-after-reset")
    assert "forget-row-outlier" in codes(masked)
    innocent = compare(never_seen(seed=9).with_row(0.0, -15.0), never_seen(), epochs=epochs, m=200)
    assert innocent.verdict in ("not-recovered", "generic")  # control: the same row over features without the class
    assert "forget-row-outlier" in codes(innocent)


def test_it_is_the_reset_row_that_finds_the_hidden_class() -> None:
    with_reset, without = (
        compare(hidden(bias=-15.0), never_seen(), epochs=8, m=200, reset_row=reset_row) for reset_row in (True, False)
    )
    assert (with_reset.verdict, without.verdict) == ("recovered-after-reset", "not-recovered")
    assert with_reset.rs == without.rs


def test_an_odd_row_does_not_make_a_class_look_gone_without_a_reference_either() -> None:
    assert compare(hidden(bias=-15.0), epochs=8, m=200).verdict == "no-reference"
    assert compare(never_seen().with_row(0.0, -15.0), epochs=8, m=200).verdict == "not-recovered"


# Invariances


def comparable(report: AuditReport) -> dict[str, Any]:
    """Return all that must not depend on the scale of the release: everything but the native readings and times."""
    plain = json.loads(report.to_json())
    for name in ("seconds", "created"):
        del plain[name]
    for name in ("results", "trajectory", "probes"):
        plain[name] = [row for row in plain[name] if row["scale"] != "native"]
    for row in plain["probes"]:
        del row["seconds"]
    for who in ("model", "reference"):
        del plain[who]["fingerprint"]
    plain["findings"] = [finding for finding in plain["findings"] if finding["code"] != "scale-disagreement"]
    return dict(plain)


def native(report: AuditReport) -> list[float]:
    return [row["rs"] for row in report.results if row["scale"] == "native"]


@pytest.fixture(scope="module")
def plain() -> AuditReport:
    return compare(hidden(bias=-3.0), never_seen())


@pytest.mark.parametrize("factor", [0.5, 2.0])
def test_a_power_of_two_in_the_scale_of_model_and_reference_changes_nothing_at_all(
    factor: float, plain: AuditReport
) -> None:
    scaled = compare(hidden(bias=-3.0).scaled(factor), never_seen().scaled(1 / factor))
    assert comparable(scaled) == comparable(plain)
    assert torch.equal(scaled.relearned_head.weight * factor, plain.relearned_head.weight)
    assert torch.equal(scaled.relearned_head.bias, plain.relearned_head.bias)
    assert native(scaled) != native(plain)  # control: at native scale the same classifier is another audit


SAME_CLASSIFIER = {
    "another scale": lambda toy: toy.scaled(0.37),
    "a common row": lambda toy: toy.shifted(0.5 * MEANS.sum(0)),
    "a common bias": lambda toy: toy.shifted(bias=15.0),
    "all of them": lambda toy: toy.shifted(0.5 * MEANS[0], -7.0).scaled(3.0),
}


@pytest.mark.parametrize("change", SAME_CLASSIFIER)
def test_the_same_classifier_in_other_words_gets_the_same_audit_up_to_rounding(change: str, plain: AuditReport) -> None:
    other = compare(SAME_CLASSIFIER[change](hidden(bias=-3.0)), never_seen())
    assert other.verdict == plain.verdict
    assert codes(other) - {"scale-disagreement"} == codes(plain) - {"scale-disagreement"}
    pairs = [
        (one["rs"], two["rs"])
        for one, two in zip(plain.results, other.results, strict=True)
        if one["scale"] != "native"
    ]
    assert max(abs(a - b) for a, b in pairs) < 0.03  # one forget sample of 60 more or less
    assert [row["scale"] for row in plain.results] == [row["scale"] for row in other.results]


@pytest.mark.parametrize("change", ["another scale", "a common row"])
def test_at_native_scale_the_same_classifier_gets_another_audit(change: str, plain: AuditReport) -> None:
    other = compare(SAME_CLASSIFIER[change](hidden(bias=-3.0)), never_seen())
    assert max(abs(a - b) for a, b in zip(native(plain), native(other), strict=True)) > 0.1


def test_an_exploded_forget_row_changes_nothing_once_it_is_reset() -> None:
    toy = hidden(bias=-3.0)
    exploded = toy.with_row(100 * MEANS[FORGET], -3000.0)
    rows = [
        [row for row in compare(one, never_seen(), **QUICK).results if row["variant"] == "reset-row"]
        for one in (toy, exploded)
    ]
    measured = ("rs", "delta_rs", "retain_after", "forget_after", "reference_rs", "epochs")
    assert [[row[name] for name in measured] for row in rows[0]] == [
        [row[name] for name in measured] for row in rows[1]
    ]


def test_a_missing_row_gives_the_audit_of_a_row_that_is_reset() -> None:
    reset = compare(hidden(), never_seen(), **QUICK)
    missing = compare(hidden().without_row(), never_seen(), missing_row=True, **QUICK)
    theirs = [row for row in reset.results if row["variant"] == "reset-row"]
    mine = [row for row in missing.results if row["scale"] == "canonical"]
    for one, other in zip(theirs, mine, strict=True):
        assert {name: one[name] for name in one if name != "variant"} == {
            name: other[name] for name in other if name != "variant"
        }


# Forms of input


def test_several_forget_classes_are_audited_together() -> None:
    toy, reference = hidden(bias=-1.0), never_seen()
    both = toy.with_row(0.0, -1.0, label=4)
    report = compare(both, reference.with_row(0.0, -1.0, label=4), (4, FORGET), **STRONG)
    assert report.forget_classes == [FORGET, 4]
    assert report.confusion is not None
    assert [sum(counts) for counts in report.confusion["after"]] == [60, 60]
    hits = sum(report.confusion["after"][i][k] for i, k in enumerate((FORGET, 4)))
    assert report.forget["after"] == pytest.approx(hits / 120)
    assert report.forget["after"] is not None
    assert report.forget["after"] > 0.3
    assert report.probes[0]["forget"] == 2 * report.probes[0]["retain"]


def test_each_seed_is_an_audit_of_its_own() -> None:
    settings = {**QUICK, **STRONG, "m": 30, "n": 100}
    three = compare(hidden(bias=-1.0), never_seen(), seeds=3, seed=4, **settings)
    single = [compare(hidden(bias=-1.0), never_seen(), seed=seed, **settings) for seed in (4, 5, 6)]
    scores = [one.rs for one in single]
    assert three.results[0]["rs_seeds"] == scores
    assert len(set(scores)) == 3
    assert three.rs == pytest.approx(np.mean(scores))  # type: ignore[arg-type]
    assert three.rs_std == pytest.approx(np.std(scores, ddof=1))  # type: ignore[arg-type]
    assert [one.rs_std for one in single] == [None] * 3
    assert three.relearned_head.fingerprint == single[0].relearned_head.fingerprint


@pytest.mark.parametrize(("model", "reference"), [(True, True), (True, False), (False, True)])
def test_rows_may_be_missing_in_model_or_reference_or_both(model: bool, reference: bool) -> None:
    one, other = hidden(bias=-1.0), never_seen()
    report = compare(
        one.without_row() if model else one, other.without_row() if reference else other, missing_row=model, **QUICK
    )
    assert report.reference is not None
    assert (report.model["outputs"], report.reference["outputs"]) == (C - model, C - reference)
    rows = [{True: "missing", False: "present"}[lost] for lost in (model, reference)]
    assert [report.model["forget_row"], report.reference["forget_row"]] == rows
    assert ("forget-row-missing" in codes(report)) == model
    assert report.delta_rs is not None
    assert report.relearned_head.classes == C


@pytest.mark.parametrize("lost", [0, C - 1])
def test_a_missing_first_or_last_row_is_put_in_its_place(lost: int) -> None:
    toy = knowing()
    report = compare(toy.without_row(lost), None, lost, missing_row=True, **QUICK)
    labels, features = toy.data.labels, toy.data.features
    right = (report.relearned_head(features).argmax(1) == labels)[labels != lost]
    assert float(right.float().mean()) > 0.9
    assert report.retain["after"] == pytest.approx(float(right.float().mean()))


def named(toy: Toy) -> FeatureSet:
    return FeatureSet(features=toy.data.features, labels=toy.data.labels, class_names=tuple("abcdef"))


def test_a_class_may_be_given_by_name() -> None:
    toy = hidden()
    by_name = audit(toy.head, "c", data=named(toy), **QUICK)
    assert by_name.forget_classes == [FORGET]
    assert by_name.class_names == list("abcdef")
    assert by_name.rs == compare(toy, **QUICK).rs


def test_the_names_of_a_release_that_lost_a_row_are_not_those_of_all_classes() -> None:
    toy = hidden().without_row()
    release = Release(head=toy.head, encoder=None, source="toy", fingerprint="0", class_names=tuple("abdef"))
    report = audit(release, "c", data=named(toy), missing_row=True, **QUICK)
    assert report.forget_classes == [FORGET]
    assert report.class_names == list("abcdef")
    assert audit(release, FORGET, data=toy.data, missing_row=True, **QUICK).class_names is None


def test_without_data_the_head_is_relearned_and_nothing_is_concluded() -> None:
    toy = hidden(bias=-1.0)
    report = audit(toy.head, FORGET, **{**SMALL, **STRONG})
    measured = compare(toy, **STRONG)
    assert report.verdict == "not-measured"
    assert codes(report) >= {"nothing-measured"}
    assert (report.rs, report.delta_rs, report.results, report.confusion, report.data) == (None, None, [], None, None)
    assert report.relearned_head.fingerprint == measured.relearned_head.fingerprint  # data had no say in it
    assert len(report.trajectory[0]["loss"]) == STRONG["epochs"] + 1


def test_other_data_gives_other_scores_but_the_same_head() -> None:
    one = compare(hidden(bias=-1.0), **QUICK)
    other = compare(Toy(hidden(bias=-1.0).head, never_seen().data), **QUICK)
    assert one.relearned_head.fingerprint == other.relearned_head.fingerprint
    assert one.retain != other.retain


# Refusals


@pytest.fixture
def no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    """Fail if a head is relearned."""

    def never(*parts: object, **more: object) -> None:
        raise AssertionError("work began before the check")

    monkeypatch.setattr(import_module("sfra.audit"), "relearn_release", never)


STRAY = FeatureSet(features=torch.ones(9, D), labels=torch.arange(9))
REFUSED: dict[str, tuple[dict[str, Any], str]] = {
    "stray labels": (
        {"data": STRAY},
        "there are labels outside the head's classes\n  expected: 0 to 5\n  got:      6, 7",
    ),
    "stray labels of the validation": (
        {"data": knowing().data, "validation": STRAY},
        "there are labels outside the head's classes",
    ),
    "stray labels of the reference": (
        {"data": knowing().data, "reference": knowing().head, "reference_data": STRAY},
        "there are labels outside the head's classes",
    ),
    "another width": ({"data": (np.ones((9, D + 1)), np.arange(9) % C)}, "the features do not fit the head"),
    "no forget samples": ({"data": (np.ones((2, D)), [0, 1])}, "there is no sample of the forget class"),
    "images for a head": ({"data": "digits"}, "a head has no encoder, so images cannot be measured"),
    "no features of the reference": (
        {"data": knowing().data, "reference": knowing().head},
        "the reference has no features to be measured on",
    ),
    "a reference without data": ({"reference": knowing().head}, "reference is of no use without data"),
    "a validation split without data": ({"validation": knowing().data}, "validation is of no use without data"),
    "features of no reference": (
        {"data": knowing().data, "reference_data": knowing().data},
        "reference_data is of no use without reference",
    ),
    "a reference of other classes": (
        {"data": knowing().data, "reference": Head(torch.eye(4)), "reference_data": knowing().data},
        "model and reference do not have the same classes\n  expected: 6 outputs (5 if the reference has none",
    ),
    "a class out of range": ({"forget": C}, "the forget class is out of range"),
    "no class": ({"forget": []}, "no forget class was given"),
    "an unknown name": ({"forget": "cow"}, "there is no class named 'cow'"),
    "too many probes": ({"n": 10, "m": 6}, "the pools are too small"),
    "config and settings": (
        {"config": AuditConfig(), "epochs": 3, "m": 5},
        "config and single settings were both given\n  got:      epochs, m\n  do:       give one of them",
    ),
    "an unknown device": ({"device": "abacus"}, "the device 'abacus' cannot be used"),
    "an architecture for a head": ({"arch": "resnet18"}, "an architecture belongs to a state dict"),
}


@pytest.mark.usefixtures("no_work")
@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_audited_is_refused_before_any_work(case: str) -> None:
    given, message = REFUSED[case]
    arguments = {"forget": FORGET} | given
    with pytest.raises(InputError) as caught:
        audit(knowing().head, **arguments)
    assert message in str(caught.value)


def test_a_misspelt_setting_is_an_error() -> None:
    with pytest.raises(TypeError, match="epoch"):
        audit(knowing().head, FORGET, epoch=3)


def test_a_config_does_what_the_same_settings_do() -> None:
    one = audit(hidden().head, FORGET, data=hidden().data, config=AuditConfig(**QUICK))
    assert one.settings == compare(hidden(), **QUICK).settings
    assert one.rs == compare(hidden(), **QUICK).rs


# Conduct


def test_two_runs_differ_in_nothing_but_times() -> None:
    def once() -> dict[str, Any]:
        content = json.loads(compare(hidden(), never_seen(), seeds=2, **QUICK).to_json())
        for row in content["probes"]:
            del row["seconds"]
        return {name: value for name, value in content.items() if name not in ("seconds", "created")}

    assert once() == once()


def test_the_global_generators_are_left_alone() -> None:
    script = """
import random, numpy, torch
def states():
    return torch.get_rng_state().tolist(), numpy.random.get_state()[1].tolist(), random.getstate()
import sfra
features, labels = torch.eye(8)[torch.arange(40) % 4], torch.arange(40) % 4
before = states()
report = sfra.audit(sfra.Head(torch.eye(8)[:4]), 2, data=(features, labels), n=100, m=10, epochs=2, seeds=2)
assert report.rs is not None
assert states() == before
"""  # in an interpreter of its own: the checks of types during the tests do use Python's generator
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_progress_is_told_what_is_done_of_how_much() -> None:
    told: list[tuple[str, int, int]] = []
    compare(hidden(), never_seen(), progress=lambda *news: told.append(news), **QUICK)
    assert told == [("relearning", done, 3) for done in (1, 2, 3)] * 2


@pytest.mark.parametrize("scale", ["canonical", "native", 0.7])
def test_the_written_head_gives_the_reported_accuracies_on_the_original_features(
    scale: str | float, tmp_path: Path
) -> None:
    toy = hidden(bias=-1.0).scaled(7.0)
    report = compare(toy, epochs=20, scale=scale)
    report.save(tmp_path)
    head = Head.load(tmp_path / "relearned_head.safetensors")
    labels, right = toy.data.labels, head(toy.data.features).argmax(1) == toy.data.labels
    assert report.forget["after"] == pytest.approx(float(right[labels == FORGET].double().mean()))
    assert report.retain["after"] == pytest.approx(float(right[labels != FORGET].double().mean()))


# Networks and images


def digits(split: Any) -> tuple[Tensor, Tensor]:
    data = load_data("digits", split=split)
    assert not isinstance(data, FeatureSet)
    return torch.cat(list(data.batches(2000))), data.labels


def network(kept: Tensor, images: Tensor, labels: Tensor, seed: int) -> nn.Sequential:
    """Train a small network on some of the digits."""
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        net = nn.Sequential(nn.Flatten(), nn.Linear(64, 48), nn.ReLU(), nn.Dropout(0.2), nn.Linear(48, 10))
        optimiser = torch.optim.AdamW(net.parameters(), lr=0.01, weight_decay=0.05)
        for _ in range(80):
            optimiser.zero_grad()
            nn.functional.cross_entropy(net(images[kept]), labels[kept]).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
    return net


@pytest.fixture(scope="module")
def nets() -> tuple[nn.Module, nn.Module]:
    """A network whose output for the threes is switched off, in training mode; and one that never saw a three."""
    images, labels = digits("train")
    model = network(torch.ones_like(labels, dtype=torch.bool), images, labels, seed=0)
    last = model[-1]
    assert isinstance(last, nn.Linear)
    with torch.no_grad():
        last.weight[3] = 0.0
        last.bias[3] = -15.0
    return model, network(labels != 3, images, labels, seed=1).eval()


@pytest.fixture
def cached(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SFRA_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def audit_digits(model: object, reference: object | None = None, **more: Any) -> AuditReport:
    return audit(model, 3, data="digits", reference=reference, n=5000, m=100, epochs=20, threads=1, **more)


def test_networks_are_audited_end_to_end_and_left_as_they_are(
    nets: tuple[nn.Module, nn.Module], cached: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model, reference = nets
    before = {name: value.clone() for name, value in model.state_dict().items()}
    stages: list[str] = []
    report = audit_digits(model, reference, progress=lambda stage, done, total: stages.append(stage))
    assert report.delta_rs is not None
    assert report.class_names == list("0123456789")
    assert report.forget["before"] == 0.0
    assert report.retain["before"] is not None
    assert report.retain["before"] > 0.9
    assert report.data is not None
    assert report.data["source"] == "digits (test)"
    assert stages[0] == "extracting features"
    assert stages.count("relearning") == 6

    after = model.state_dict()
    assert all(torch.equal(after[name], value) for name, value in before.items())
    assert model.training
    assert all(module.training for module in model.modules())
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())
    assert all(parameter.requires_grad for parameter in model.parameters())

    assert len(list(cached.rglob("*.safetensors"))) == 4  # test and validation split, of model and reference

    def never(*parts: object) -> None:
        raise AssertionError("features were extracted again")

    monkeypatch.setattr(features_module, "_encode", never)
    again = audit_digits(model, reference)
    assert [row["rs"] for row in again.results] == [row["rs"] for row in report.results]
    with pytest.raises(AssertionError, match="extracted again"):
        audit_digits(model, cache=False)


def test_the_encoder_is_measured_in_eval_mode(nets: tuple[nn.Module, nn.Module]) -> None:
    images, labels = digits("test")
    model = nets[0]
    model.eval()
    try:
        with torch.no_grad():
            right = model(images).argmax(1) == labels
    finally:
        model.train()
    report = audit_digits(model, cache=False)
    assert report.retain["before"] == pytest.approx(float(right[labels != 3].double().mean()))


def test_a_state_dict_shares_its_architecture_with_a_reference_given_as_a_path(tmp_path: Path) -> None:
    for name, seed in (("model", 0), ("reference", 1)):
        torch.save(build("small-mlp", classes=10, seed=seed).state_dict(), tmp_path / f"{name}.pt")
    settings: dict[str, Any] = {"data": "digits", "arch": "small-mlp", "cache": False, **QUICK}
    report = audit(tmp_path / "model.pt", 3, reference=tmp_path / "reference.pt", **settings)
    assert report.reference is not None
    assert report.reference["width"] == report.model["width"]

    other = sfra.load(tmp_path / "reference.pt", arch="small-mlp")
    other.head.save(tmp_path / "head.npz")  # no state dict: the architecture is not meant for it
    images, labels = digits("test")
    assert other.encoder is not None
    own = other.encoder(images), labels
    again = audit(tmp_path / "model.pt", 3, reference=str(tmp_path / "head.npz"), reference_data=own, **settings)
    assert again.delta_rs == report.delta_rs
