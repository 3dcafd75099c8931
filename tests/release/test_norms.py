"""What a network remembers of its training inputs."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from builders.modules import IMAGES, Net, untouched
from builders.releases import encoder
from sfra.release import load
from sfra.release.norms import input_drift


def drift(model: nn.Module, images: Tensor) -> float | None:
    return input_drift(encoder(load(model, example=images)), images)


def remembers(images: Tensor) -> Net:
    """A network whose batch norm has seen these images, and no others."""
    net = Net()
    net.norm.momentum = 1.0
    with torch.no_grad():
        net.train()(images)
    return net.eval()


def test_the_images_of_the_training_are_no_drift() -> None:
    found = drift(remembers(IMAGES), IMAGES)
    assert found == pytest.approx(0.0, abs=1e-4)  # torch remembers the unbiased variance


@pytest.mark.parametrize("at_once", [2**26, 3 * IMAGES[0].nbytes])
def test_drift_is_the_divergence_of_normals_by_hand(monkeypatch: pytest.MonkeyPatch, at_once: int) -> None:
    monkeypatch.setattr("sfra.core.batches.AT_ONCE", at_once)
    net = remembers(IMAGES)
    other = 1.5 * IMAGES + 0.2
    with torch.no_grad():
        values = net.conv(other).double().transpose(0, 1).flatten(1)
    mean, variance = net.norm.running_mean, net.norm.running_var
    assert mean is not None
    assert variance is not None
    known = torch.distributions.Normal(mean.double(), (variance.double() + net.norm.eps).sqrt())
    here = torch.distributions.Normal(values.mean(1), (values.var(1, correction=0) + net.norm.eps).sqrt())
    expected = torch.distributions.kl_divergence(here, known).median()
    assert drift(net, other) == pytest.approx(float(expected), rel=1e-5)


def test_the_network_is_left_as_it_was() -> None:
    net = remembers(IMAGES).train()
    with untouched(net):
        drift(net, 9 * IMAGES)
    assert not net.norm._forward_pre_hooks


@pytest.mark.parametrize("layer", [nn.Identity(), nn.GroupNorm(1, 12), nn.BatchNorm2d(12, track_running_stats=False)])
def test_a_network_that_remembers_nothing_has_no_drift(layer: nn.Module) -> None:
    net = Net()
    net.norm = layer  # type: ignore[assignment]
    assert drift(net, IMAGES) is None
