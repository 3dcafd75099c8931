"""The audit of the same classifier in other words is the same audit."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
import torch

from builders.audits import FORGET, MEANS, QUICK, Toy, codes, compare, hidden, never_seen
from sfra.auditing.result import AuditReport
from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.data import FeatureSet
from sfra.unlearn.disguises import DISGUISES


def comparable(report: AuditReport) -> dict[str, Any]:
    """Return all that must not depend on the scale of the release (not native readings, times, the digest)."""
    plain = json.loads(report.to_json())
    for name in ("seconds", "created", "relearned_head_digest"):
        del plain[name]
    for name in ("results", "traces", "probes"):
        plain[name] = [row for row in plain[name] if row["scale"] != "native"]
    for row in plain["probes"]:
        del row["seconds"]
    for facts in (plain["model"], *plain["references"]):
        del facts["fingerprint"]
    plain["findings"] = [finding for finding in plain["findings"] if finding["code"] != "scale-disagreement"]
    return dict(plain)


def native(report: AuditReport) -> list[float]:
    return [row.rs for row in report.results if row.scale == "native"]


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
    pairs = [(one.rs, two.rs) for one, two in zip(plain.results, other.results, strict=True) if one.scale != "native"]
    assert max(abs(a - b) for a, b in pairs) < 0.03  # one forget sample of 60 more or less
    assert [row.scale for row in plain.results] == [row.scale for row in other.results]


@pytest.mark.parametrize("change", ["another scale", "a common row"])
def test_at_native_scale_the_same_classifier_gets_another_audit(change: str, plain: AuditReport) -> None:
    other = compare(SAME_CLASSIFIER[change](hidden(bias=-3.0)), never_seen())
    assert max(abs(a - b) for a, b in zip(native(plain), native(other), strict=True)) > 0.1


def test_an_exploded_forget_row_changes_nothing_once_it_is_reset() -> None:
    toy = hidden(bias=-3.0)
    exploded = toy.with_row(100 * MEANS[FORGET], -3000.0)
    rows = [
        [row for row in compare(one, never_seen(), **QUICK).results if row.variant == "reset-row"]
        for one in (toy, exploded)
    ]
    measured = ("rs", "delta_rs", "retain_after", "forget_after", "reference_rs", "epochs")
    assert [[getattr(row, name) for name in measured] for row in rows[0]] == [
        [getattr(row, name) for name in measured] for row in rows[1]
    ]


def test_a_missing_row_gives_the_audit_of_a_row_that_is_reset() -> None:
    reset = compare(hidden(), never_seen(), **QUICK)
    missing = compare(hidden().without_row(), never_seen(), missing_row=True, **QUICK)
    theirs = [row for row in reset.results if row.variant == "reset-row"]
    mine = [row for row in missing.results if row.scale == "canonical"]
    for one, other in zip(theirs, mine, strict=True):
        assert msgspec.structs.replace(other, variant=one.variant) == one


AFFINE = [name for name, one in DISGUISES.items() if not one.hides]


def anchored(toy: Toy, disguise: str | None = None) -> Toy:
    """Give a toy features of synthetic images, then disguise all of it."""
    noise = torch.randn(200, toy.head.width, generator=torch.Generator().manual_seed(9)) + 1.0
    head, features = toy.head, toy.data.features
    if disguise is not None:
        other = DISGUISES[disguise](head, [FORGET])
        head, features, noise = other.head, other.features(features), other.features(noise)
    return Toy(head, FeatureSet(features=features, labels=toy.data.labels, anchor=noise))


@pytest.fixture(scope="module")
def measured() -> AuditReport:
    return compare(anchored(hidden(bias=-3.0)), anchored(never_seen()), scale="anchored")


@pytest.mark.parametrize("disguise", AFFINE)
def test_no_affine_disguise_moves_the_anchored_reading(disguise: str, measured: AuditReport) -> None:
    other = compare(anchored(hidden(bias=-3.0), disguise), anchored(never_seen()), scale="anchored")
    assert (other.scale, other.verdict) == ("anchored", measured.verdict)
    pairs = zip(measured.results, other.results, strict=True)
    assert max(abs(a.rs - b.rs) for a, b in pairs if a.scale == "anchored") < 0.01  # less than one sample of 60


def test_a_dead_feature_does_not_count(measured: AuditReport) -> None:
    toy = anchored(hidden(bias=-3.0))
    dead = torch.nn.functional.pad
    assert toy.data.anchor is not None
    data = FeatureSet(
        features=dead(toy.data.features, (0, 1)), labels=toy.data.labels, anchor=dead(toy.data.anchor, (0, 1))
    )
    other = compare(
        Toy(Head(dead(toy.head.weight, (0, 1)), toy.head.bias), data), anchored(never_seen()), scale="anchored"
    )
    assert other.rs == pytest.approx(measured.rs, abs=0.01)
    assert other.relearned_head.width == toy.head.width + 1


def test_an_extra_linear_layer_moves_the_canonical_reading(measured: AuditReport) -> None:
    other = compare(anchored(hidden(bias=-3.0), "linear-layer"), anchored(never_seen()), scale="anchored")
    pairs = zip(measured.results, other.results, strict=True)
    assert max(abs(a.rs - b.rs) for a, b in pairs if a.scale == "canonical") > 0.1


def test_without_features_of_synthetic_images_the_anchored_scale_is_refused() -> None:
    with pytest.raises(InputError, match="needs features of synthetic images"):
        compare(hidden(), never_seen(), scale="anchored", **QUICK)
