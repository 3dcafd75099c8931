"""What cannot be split, or cannot be trusted to be split, is refused with a reason."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, linear, relu

from builders.modules import EXAMPLE, IMAGES, C, D, End, Net
from builders.releases import encoder
from sfra.core.errors import InputError
from sfra.release import load


def logits(net: Net, x: Tensor) -> Tensor:
    scores: Tensor = net.fc(net.pooled(x))
    return scores


def masked_in_place(net: Net, x: Tensor) -> Tensor:
    """Hide a class after the head: the released function is not W z + b."""
    scores = logits(net, x)
    scores[:, 2] = -15.0
    return scores


NOT_LINEAR: dict[str, End] = {
    "a temperature for each input": lambda n, x: logits(n, x) * n.pooled(x)[:, :1],
    "relu, then a class switched off": lambda n, x: relu(logits(n, x)) + torch.tensor([0.0, 0.0, -1e9, 0.0, 0.0]),
    "cosine similarity": lambda n, x: cosine_similarity(n.pooled(x)[:, None], n.fc.weight[None], dim=2),
    "relu": lambda n, x: relu(logits(n, x)),
    "scores of length one": lambda n, x: logits(n, x) / logits(n, x).norm(),
    "distances": lambda n, x: -torch.cdist(n.pooled(x), n.fc.weight),
    "masked in place": masked_in_place,
    "ensemble": lambda n, x: (logits(n, x) + logits(n, -x)) / 2,
}


@pytest.mark.parametrize("name", NOT_LINEAR)
def test_an_end_that_is_not_linear_is_refused(name: str) -> None:
    assert load(Net(), example=EXAMPLE).head.classes == C  # the control
    with pytest.raises(InputError, match=r"no linear layer produces this model's logits\n(.*\n)+.*\[3, 5\]"):
        load(Net(NOT_LINEAR[name]), example=EXAMPLE)


@pytest.mark.parametrize(
    "end",
    [
        lambda n, x: logits(n, x) / n.pooled(x).norm(),
        lambda n, x: logits(n, x) - x.mean(),
        lambda n, x: logits(n, x) + n.pooled(x)[0, :C],
    ],
)
def test_a_scale_or_shift_that_depends_on_the_batch_is_refused(end: End) -> None:
    with pytest.raises(InputError, match=r"(?s)no linear layer produces.*that depends on the input"):
        load(Net(end), example=EXAMPLE)


def test_fewer_than_three_outputs_are_refused() -> None:
    with pytest.raises(InputError, match="too few classes"):
        load(Net(classes=2), example=EXAMPLE)


@pytest.mark.parametrize("name", ["conv.weight", "fc.bias"])
def test_weights_that_are_not_finite_are_refused_by_name(name: str) -> None:
    model = Net()
    with torch.no_grad():
        model.get_parameter(name).view(-1)[0] = float("nan")
    with pytest.raises(InputError, match=f"(?s)the model's weights are not finite.*NaN or infinity in {name}"):
        load(model, example=EXAMPLE)


def test_logits_masked_with_infinity_are_refused() -> None:
    model = Net(lambda n, x: logits(n, x).index_fill(1, torch.tensor([1]), -torch.inf))
    with pytest.raises(InputError, match=r"(?s)the model's output is not finite.*before they are masked"):
        load(model, example=EXAMPLE)


def test_torchscript_is_refused_at_any_depth() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.trace(nn.Linear(4, 3), torch.zeros(1, 4))  # type: ignore[no-untyped-call]
    for model in (scripted, nn.Sequential(scripted)):
        with pytest.raises(InputError, match=r"(?s)a TorchScript module cannot be watched.*ONNX"):
            load(model, example=torch.zeros(2, 4))


@pytest.mark.parametrize(
    ("end", "described"),
    [
        (lambda n, x: logits(n, x)[:, :, None, None], r"Tensor \[3, 5, 1, 1\]"),
        (lambda n, x: logits(n, x).flatten(), r"Tensor \[15\]"),
        (lambda n, x: "cat" if len(logits(n, x)) else "", "str"),
    ],
)
def test_an_output_that_is_not_rows_of_logits_is_refused(end: End, described: str) -> None:
    with pytest.raises(InputError, match=f"(?s)not one row of logits per input.*{described}"):
        load(Net(end), example=EXAMPLE)


def test_two_linear_outputs_are_refused_unless_one_is_called_logits() -> None:
    def two(name: str) -> Net:
        return Net(lambda n, x: {"other": linear(n.pooled(x), torch.ones(4, D)), name: logits(n, x)})

    with pytest.raises(InputError, match=r"(?s)several outputs with a linear end.*\[n, 4\], \[n, 5\]"):
        load(two("scores"), example=EXAMPLE)
    assert load(two("logits"), example=EXAMPLE).head.classes == C


def test_an_input_that_does_not_fit_is_refused_and_flags_are_restored() -> None:
    model = nn.Sequential(nn.Conv2d(7, C, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(C, C)).train()
    with pytest.raises(InputError, match=r"(?s)no usual input fits this model.*--data with --size.*example="):
        load(model)
    with pytest.raises(InputError, match="the model cannot run the example"):
        load(model, example=torch.zeros(2, 3, 5, 5))
    assert all(module.training for module in model.modules())
    release = load(model, example=torch.zeros(1, 7, 9, 9))
    with pytest.raises(InputError, match=r"(?s)cannot process these images.*shape \[2, 3, 9, 9\]"):
        encoder(release)(torch.zeros(2, 3, 9, 9))


@pytest.mark.parametrize("example", [torch.zeros(4), torch.zeros(0, 1, 4, 4), torch.tensor(1.0)])
def test_an_example_that_is_not_a_batch_is_refused(example: Tensor) -> None:
    with pytest.raises(InputError, match="the example is not a batch"):
        load(Net(), example=example)


def test_parameters_without_values_are_refused() -> None:
    with torch.device("meta"):
        hollow = nn.Linear(4, C)
    for model, name in ((nn.Sequential(nn.Flatten(), nn.LazyLinear(C)), r"1\.weight"), (hollow, "weight")):
        with pytest.raises(InputError, match=rf"(?s)parameters without values.*{name}"):
            load(model, example=IMAGES)


def test_a_map_that_was_one_pixel_in_the_example_must_stay_one() -> None:
    class MaxPooled(nn.Module):
        """Linear on one pixel only: the maximum over several is not."""

        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = nn.Conv2d(1, D, 4), nn.Conv2d(D, C, 1)

        def forward(self, x: Tensor) -> Any:
            return self.head(self.conv(x)).amax(dim=(2, 3))

    release = load(MaxPooled(), example=torch.randn(4, 1, 4, 4))
    with pytest.raises(InputError, match=r"(?s)several positions.*example="):
        encoder(release)(torch.zeros(2, 1, 8, 8))
    with pytest.raises(InputError, match="no linear layer"):
        load(MaxPooled(), example=torch.randn(2, 1, 8, 8))


@pytest.mark.parametrize(
    ("end", "message"),
    [
        (lambda n, x: logits(n, x) if x.mean() < 10 else linear(n.pooled(x), n.fc.weight + 1), "not those that were"),
        (lambda n, x: logits(n, x) if x.mean() < 10 else x, "the call that was its head does not happen"),
    ],
)
def test_a_head_that_depends_on_the_input_or_changes_after_loading_is_noticed(end: End, message: str) -> None:
    model = Net(end)
    release = load(model, example=EXAMPLE)
    encoder(release)(IMAGES)
    with pytest.raises(InputError, match=f"(?s)does not end in the head that was loaded.*{message}"):
        encoder(release)(IMAGES + 100)
    with torch.no_grad():
        model.fc.bias.add_(1)
    with pytest.raises(InputError, match="load the model again if you changed it"):
        encoder(release)(IMAGES)


def test_a_model_cannot_swallow_the_end_of_the_encoder() -> None:
    def catching(net: Net, x: Tensor) -> Tensor:
        try:
            return logits(net, x)
        except Exception:
            return torch.zeros(len(x), C)

    release = load(Net(catching), example=EXAMPLE)
    assert encoder(release)(IMAGES).shape == (7, D)
