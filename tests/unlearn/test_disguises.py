"""Disguises: the same answers on real features from another head, and nothing of it within reach of the attack."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from builders.releases import encoder
from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.data import ImageSet, load_data
from sfra.models import backbones
from sfra.release import load
from sfra.unlearn.disguises import CONDITION, DISGUISES, SCALE, Disguise

FORGET = (3, 7)
KEPT = [0, 1, 2, 4, 5, 6, 8, 9]


@pytest.fixture(scope="module")
def model() -> nn.Module:
    return backbones.build("small-cnn", classes=10, seed=0).eval()


@pytest.fixture(scope="module")
def images() -> Tensor:
    digits = load_data("digits")
    assert isinstance(digits, ImageSet)
    return next(iter(digits.batches(200)))


@pytest.fixture(scope="module")
def head(model: nn.Module, images: Tensor) -> Head:
    return load(model, example=images[:1]).head


@pytest.fixture(scope="module")
def features(model: nn.Module, images: Tensor) -> Tensor:
    with torch.no_grad():
        return encoder(load(model, example=images[:1]))(images)


@pytest.fixture(params=list(DISGUISES))
def disguise(request: pytest.FixtureRequest) -> Disguise:
    return DISGUISES[request.param]


def compare(found: Tensor, plain: Tensor, disguise: Disguise) -> None:
    """Compare log-probabilities of the outputs that a disguise does not touch: a common logit is no difference."""
    if disguise.hides:
        plain = plain[:, KEPT]
        found = found if found.shape == plain.shape else found[:, KEPT]
    torch.testing.assert_close(found.log_softmax(1), plain.log_softmax(1), rtol=0, atol=2e-4)


def test_outputs_that_are_not_hidden_are_those_of_the_plain_head(
    disguise: Disguise, head: Head, features: Tensor
) -> None:
    other = disguise(head, FORGET, seed=1)
    compare(other.head(other.features(features)), head(features), disguise)
    assert other.head.fingerprint != head.fingerprint
    assert other.head.classes == (8 if disguise.name == "forget-row-removed" else 10)


def test_the_features_can_be_had_back_to_the_last_digit_of_float32(
    disguise: Disguise, head: Head, features: Tensor
) -> None:
    other = disguise(head, FORGET, seed=1)
    back = torch.linalg.solve(other.matrix, (other.features(features).double() - other.shift).T).T
    torch.testing.assert_close(back.float(), features, rtol=0, atol=1e-4)


def test_a_disguised_network_answers_as_the_plain_one(
    disguise: Disguise, model: nn.Module, head: Head, images: Tensor
) -> None:
    other = disguise(head, FORGET, seed=1)
    made = other.module(model)
    with torch.no_grad():
        compare(made(images), model(images), disguise)
    assert load(made, example=images[:1]).head.fingerprint == other.head.fingerprint


@pytest.mark.parametrize(
    ("name", "condition"),
    [("feature-scale", 1.0), ("rotation", 1.0), ("translation", 1.0), ("linear-layer", CONDITION)],
)
def test_the_map_of_the_features_has_the_condition_number_that_it_should(
    name: str, condition: float, head: Head
) -> None:
    other = DISGUISES[name](head, FORGET, seed=1)
    assert float(torch.linalg.cond(other.matrix)) == pytest.approx(condition, rel=1e-9)


def test_channel_scales_stay_within_their_limits(head: Head) -> None:
    scales = DISGUISES["channel-scales"](head, FORGET).matrix.diagonal()
    assert 1 / SCALE <= float(scales.min()) < 0.5 < 2 < float(scales.max()) <= SCALE


def test_a_class_that_the_head_does_not_have_is_refused(disguise: Disguise, head: Head) -> None:
    with pytest.raises(InputError, match="not outputs of the head"):
        disguise(head, [10])
