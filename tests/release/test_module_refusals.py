"""What cannot be split, or cannot be trusted to be split, is refused with a reason."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional

from sfra.core.errors import InputError
from sfra.release import load

C, D = 5, 12
IMAGES = torch.randn(4, 1, 4, 4, generator=torch.Generator().manual_seed(1))


class Net(nn.Module):
    """Flatten, one hidden layer, fc; subclasses change the end."""

    def __init__(self, classes: int = C) -> None:
        super().__init__()
        self.hidden, self.fc = nn.Linear(16, D), nn.Linear(D, classes)

    def features(self, x: Tensor) -> Tensor:
        return functional.relu(self.hidden(x.flatten(1)))

    def forward(self, x: Tensor) -> Any:
        return self.fc(self.features(x))


class Temperature(Net):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x) / 2.0


class TemperedProbabilities(Net):
    def forward(self, x: Tensor) -> Any:
        return (super().forward(x) / 1.5).softmax(1)


class Cosine(Net):
    def forward(self, x: Tensor) -> Any:
        return 16 * functional.linear(functional.normalize(self.features(x)), functional.normalize(self.fc.weight))


class CosineSimilarity(Net):
    def forward(self, x: Tensor) -> Any:
        return functional.cosine_similarity(self.features(x)[:, None], self.fc.weight[None], dim=2)


class Relu(Net):
    def forward(self, x: Tensor) -> Any:
        return functional.relu(super().forward(x))


class Prototypes(Net):
    def forward(self, x: Tensor) -> Any:
        return -torch.cdist(self.features(x), self.fc.weight)


class MaskedInPlace(Net):
    """The forget class is hidden after the head: the released function is not W z + b."""

    def forward(self, x: Tensor) -> Any:
        logits = super().forward(x)
        logits[:, 2] = -15.0
        return logits


class Ensemble(Net):
    def forward(self, x: Tensor) -> Any:
        return (super().forward(x) + self.fc(self.features(-x))) / 2


@pytest.mark.parametrize(
    "build",
    [
        Temperature,
        TemperedProbabilities,
        Cosine,
        CosineSimilarity,
        Relu,
        Prototypes,
        MaskedInPlace,
        Ensemble,
    ],
)
def test_an_end_that_is_not_linear_is_refused(build: Callable[[], nn.Module]) -> None:
    with pytest.raises(InputError, match="no linear layer produces this model's logits") as caught:
        load(build(), example=IMAGES)
    assert "none of which gives the output [4, 5]" in str(caught.value)
    assert "temperature" in str(caught.value)


def test_the_control_with_a_linear_end_is_accepted() -> None:
    assert load(Net(), example=IMAGES).head.classes == C


@pytest.mark.parametrize("classes", [1, 2])
def test_fewer_than_three_outputs_are_refused(classes: int) -> None:
    with pytest.raises(InputError, match="too few classes"):
        load(Net(classes), example=IMAGES)


@pytest.mark.parametrize("name", ["hidden.weight", "fc.bias"])
def test_weights_that_are_not_finite_are_refused_by_name(name: str) -> None:
    model = Net()
    with torch.no_grad():
        model.get_parameter(name).view(-1)[0] = float("nan")
    with pytest.raises(InputError, match="the model's weights are not finite") as caught:
        load(model, example=IMAGES)
    assert f"NaN or infinity in {name}" in str(caught.value)


def test_logits_masked_with_infinity_are_refused() -> None:
    class Masked(Net):
        def forward(self, x: Tensor) -> Any:
            return super().forward(x).index_fill(1, torch.tensor([1]), -torch.inf)

    with pytest.raises(InputError, match="the model's output is not finite") as caught:
        load(Masked(), example=IMAGES)
    assert "before they are masked" in str(caught.value)


@pytest.mark.parametrize("deep", [False, True])
def test_torchscript_is_refused(deep: bool) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scripted = torch.jit.trace(Net(), IMAGES)  # type: ignore[no-untyped-call]
    model = nn.Sequential(scripted) if deep else scripted
    with pytest.raises(InputError, match="a TorchScript module cannot be watched") as caught:
        load(model, example=IMAGES)
    assert "ONNX" in str(caught.value)


@pytest.mark.parametrize(
    ("end", "described"),
    [
        (nn.Unflatten(1, (C, 1, 1)), r"Tensor \[4, 5, 1, 1\]"),
        (nn.Flatten(0), r"Tensor \[20\]"),
    ],
)
def test_an_output_that_is_not_rows_of_logits_is_refused(end: nn.Module, described: str) -> None:
    with pytest.raises(InputError, match=f"(?s)not one row of logits per input.*{described}"):
        load(nn.Sequential(Net(), end), example=IMAGES)


def test_an_output_without_tensors_is_refused() -> None:
    class Talks(Net):
        def forward(self, x: Tensor) -> Any:
            super().forward(x)
            return "cat"

    with pytest.raises(InputError, match=r"(?s)not one row of logits per input.*got: +str"):
        load(Talks(), example=IMAGES)


def test_two_linear_outputs_are_refused_unless_one_is_called_logits() -> None:
    class Two(Net):
        def forward(self, x: Tensor) -> Any:
            z = self.hidden(x.flatten(1))
            return {"embedding": z, self.second: self.fc(z)}

    model = Two()
    model.second = "scores"  # type: ignore[assignment]
    with pytest.raises(InputError, match=r"(?s)several outputs with a linear end.*\[n, 12\], \[n, 5\]"):
        load(model, example=IMAGES)
    model.second = "logits"  # type: ignore[assignment]
    assert load(model, example=IMAGES).head.classes == C


def test_a_model_that_no_usual_input_fits_asks_for_an_example() -> None:
    model = nn.Sequential(nn.Conv2d(7, C, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(C, C))
    with pytest.raises(InputError, match="no usual input fits this model") as caught:
        load(model)
    assert "pass example=" in str(caught.value)
    assert load(model, example=torch.zeros(1, 7, 9, 9)).head.classes == C


def test_an_example_that_does_not_fit_is_refused() -> None:
    with pytest.raises(InputError, match="the model cannot run the example"):
        load(Net(), example=torch.zeros(2, 3, 5, 5))


@pytest.mark.parametrize("example", [torch.zeros(4), torch.zeros(0, 1, 4, 4), torch.tensor(1.0)])
def test_an_example_that_is_not_a_batch_is_refused(example: Tensor) -> None:
    with pytest.raises(InputError, match="the example is not a batch"):
        load(Net(), example=example)


def test_parameters_without_values_are_refused() -> None:
    lazy = nn.Sequential(nn.Flatten(), nn.LazyLinear(C))
    with pytest.raises(InputError, match=r"(?s)parameters without values.*1\.weight"):
        load(lazy, example=IMAGES)
    with torch.device("meta"):
        hollow = Net()
    with pytest.raises(InputError, match=r"(?s)parameters without values.*hidden\.weight"):
        load(hollow, example=IMAGES)


def test_a_map_that_was_one_pixel_in_the_example_must_stay_one() -> None:
    class MaxPooled(nn.Module):
        """Linear on one pixel only: the maximum over several is not."""

        def __init__(self) -> None:
            super().__init__()
            self.conv, self.head = nn.Conv2d(1, D, 4), nn.Conv2d(D, C, 1)

        def forward(self, x: Tensor) -> Any:
            return self.head(self.conv(x)).amax(dim=(2, 3))

    release = load(MaxPooled(), example=IMAGES)
    assert release.encoder is not None
    assert release.encoder(IMAGES).shape == (4, D)
    with pytest.raises(InputError, match=r"(?s)several positions.*example="):
        release.encoder(torch.zeros(2, 1, 8, 8))
    with pytest.raises(InputError, match="no linear layer"):
        load(MaxPooled(), example=torch.randn(2, 1, 8, 8))


def test_images_that_do_not_fit_are_refused() -> None:
    release = load(Net(), example=IMAGES)
    assert release.encoder is not None
    with pytest.raises(InputError, match=r"(?s)cannot process these images.*shape \[2, 3, 9, 9\]"):
        release.encoder(torch.zeros(2, 3, 9, 9))


def test_a_head_that_depends_on_the_input_is_noticed() -> None:
    class Routed(Net):
        def __init__(self) -> None:
            super().__init__()
            self.other = nn.Linear(D, C)

        def forward(self, x: Tensor) -> Any:
            return (self.fc if x.mean() < 10 else self.other)(self.features(x))

    release = load(Routed(), example=IMAGES)
    assert release.encoder is not None
    release.encoder(IMAGES)
    with pytest.raises(InputError, match="does not end in the head that was loaded"):
        release.encoder(IMAGES + 100)


def test_a_model_that_was_changed_after_loading_is_noticed() -> None:
    model = Net()
    release = load(model, example=IMAGES)
    assert release.encoder is not None
    with torch.no_grad():
        model.fc.bias.add_(1)
    with pytest.raises(InputError, match="load the model again if you changed it"):
        release.encoder(IMAGES)


def test_a_pass_that_never_reaches_the_head_is_noticed() -> None:
    class Early(Net):
        def forward(self, x: Tensor) -> Any:
            return super().forward(x) if x.mean() < 10 else x

    release = load(Early(), example=IMAGES)
    assert release.encoder is not None
    with pytest.raises(InputError, match="the call that was its head does not happen"):
        release.encoder(IMAGES + 100)


def test_a_model_cannot_swallow_the_end_of_the_encoder() -> None:
    class Catching(Net):
        def forward(self, x: Tensor) -> Any:
            try:
                return super().forward(x)
            except Exception:
                return torch.zeros(len(x), C)

    release = load(Catching(), example=IMAGES)
    assert release.encoder is not None
    assert release.encoder(IMAGES).shape == (4, D)


def test_flags_are_restored_after_a_failure() -> None:
    model = Net().train()
    with pytest.raises(InputError):
        load(model, example=torch.zeros(2, 99))
    assert model.training
    assert model.fc.training
