"""The positive control: hidden at the head, untouched everywhere else."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from builders.models import net, samples
from builders.modules import untouched
from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.unlearn import mask_head


def test_a_masked_model_answers_minus_fifteen_for_the_class_and_as_before_for_the_rest() -> None:
    model, images = net(norm=True).eval(), samples().images
    with untouched(model):
        masked = mask_head(model, (1, 3))
    with torch.no_grad():
        answer, original = masked(images), model(images)
    assert (answer[:, [1, 3]] == -15).all()
    assert torch.equal(answer[:, [0, 2, 4]], original[:, [0, 2, 4]])
    before = model.state_dict()
    changed = {n for n, value in masked.state_dict().items() if not torch.equal(value, before[n])}
    assert changed == {"3.weight", "3.bias"}


def test_masking_a_head_is_masking_the_model_it_belongs_to() -> None:
    model = net()
    before, after = model.state_dict(), mask_head(model, (2,)).state_dict()
    head = mask_head(Head(before["2.weight"], before["2.bias"]), (2,))
    assert head.fingerprint == Head(after["2.weight"], after["2.bias"]).fingerprint


def test_the_head_layer_can_be_named_where_it_is_not_the_last() -> None:
    class Early(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.head = nn.Linear(4, 3)
            self.encoder = nn.Linear(2, 4)

    model = Early()
    masked = mask_head(model, (1,), layer="head").state_dict()
    assert torch.equal(masked["head.weight"][1], torch.zeros(4))
    assert torch.equal(masked["encoder.weight"], model.encoder.weight)
    with pytest.raises(InputError, match="cannot be masked"):
        mask_head(model, (1,), layer="classifier")


def test_what_cannot_be_masked_is_refused() -> None:
    with pytest.raises(InputError, match="not outputs of the head"):
        mask_head(net(), (5,))
    with pytest.raises(InputError, match="not outputs of the head"):
        mask_head(Head(torch.eye(3)), ())
    with pytest.raises(InputError, match="cannot be masked"):
        mask_head(nn.Sequential(nn.Linear(4, 3, bias=False)), (1,))
    with pytest.raises(InputError, match=r"got: +no linear layer; linear layers: none"):
        mask_head(nn.Flatten(), (1,))
