"""A cosine head is a linear layer on features of length one, and the audit sees through it as through any other."""

from __future__ import annotations

from itertools import pairwise

import pytest
import torch
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear, normalize

import sfra

FORGET = 3


class Cosine(nn.Module):
    """A small convolutional network whose scores are sixteen times a cosine; one may be switched off."""

    switched_off: Tensor

    def __init__(self) -> None:
        super().__init__()
        widths = [1, 32, 64, 64]
        layers = [
            nn.Sequential(nn.Conv2d(a, b, 3, stride=1 + (a > 1), padding=1), nn.BatchNorm2d(b), nn.ReLU())
            for a, b in pairwise(widths)
        ]
        self.trunk = nn.Sequential(*layers, nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.rows = nn.Parameter(torch.randn(10, 64))
        self.register_buffer("switched_off", torch.zeros(10))

    def forward(self, images: Tensor) -> Tensor:
        return 16 * linear(normalize(self.trunk(images)), normalize(self.rows)) + self.switched_off


@pytest.fixture(scope="module")
def digits() -> tuple[Tensor, Tensor]:
    found = load_digits()
    return torch.tensor(found.images, dtype=torch.float32)[:, None] / 16, torch.tensor(found.target)


@pytest.fixture(scope="module")
def network(digits: tuple[Tensor, Tensor]) -> Cosine:
    images, labels = digits[0][:1200], digits[1][:1200]
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        model = Cosine()
        optimiser = torch.optim.Adam(model.parameters(), 3e-3)
        for _ in range(12):
            for batch in torch.split(torch.randperm(len(images)), 64):
                optimiser.zero_grad()
                loss = cross_entropy(model(images[batch]), labels[batch])
                loss.backward()  # type: ignore[no-untyped-call]
                optimiser.step()
    return model.eval()


def test_classes_that_a_cosine_network_hides_come_back(network: Cosine, digits: tuple[Tensor, Tensor]) -> None:
    held_out = (digits[0][1200:], digits[1][1200:])
    with torch.no_grad():
        assert (network(held_out[0]).argmax(1) == held_out[1]).double().mean() > 0.9
        network.switched_off[FORGET] = -100.0
    report = sfra.audit(network, FORGET, data=held_out, n=20_000, m=200, epochs=50, cache=False)
    assert "cosine-head" in [finding.code for finding in report.findings]
    hidden = [one for control in report.controls for one in control.hidden]
    assert len(hidden) >= 3
    assert all(one.seen for one in hidden)
    reset = [
        one for one in report.results if (one.scale, one.variant, one.rule) == ("canonical", "reset-row", "source-free")
    ]
    assert reset[0].forget_before == 0.0
    assert reset[0].rs > 0.5
