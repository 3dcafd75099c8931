"""The head of a module is the linear call that gives its logits, whatever it is called and wherever it is."""

from __future__ import annotations

import copy
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.nn.utils import parametrizations

from sfra.core.errors import InputError
from sfra.release import load
from sfra.release.module import ModuleEncoder

C, D = 5, 12
IMAGES = torch.randn(7, 3, 8, 8, generator=torch.Generator().manual_seed(1))
EXAMPLE = IMAGES[:3]


@pytest.fixture(autouse=True)
def _seed() -> Iterator[None]:
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        yield


class Net(nn.Module):
    """A small convolutional trunk; subclasses say how it ends."""

    def __init__(self) -> None:
        super().__init__()
        self.conv = nn.Conv2d(3, D, 3)
        self.norm = nn.BatchNorm2d(D)
        self.norm.running_mean = torch.randn(D)

    def trunk(self, x: Tensor) -> Tensor:
        return functional.relu(self.norm(self.conv(x)))

    def pooled(self, x: Tensor) -> Tensor:
        return self.trunk(x).mean(dim=(2, 3))


class ResNetLike(Net):
    """torchvision's ResNet: average pool, flatten, fc."""

    def __init__(self) -> None:
        super().__init__()
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(D, C)

    def forward(self, x: Tensor) -> Any:
        return self.fc(torch.flatten(self.avgpool(self.trunk(x)), 1))


class SeveralOfTheSameWidth(Net):
    """The layer called head is not the head, and every layer maps C to C."""

    def __init__(self) -> None:
        super().__init__()
        self.down = nn.Linear(D, C)
        self.last, self.head, self.fc = nn.Linear(C, C), nn.Linear(C, C), nn.Linear(C, C)

    def forward(self, x: Tensor) -> Any:
        z = functional.relu(self.down(self.pooled(x)))
        return self.last(functional.relu(self.head(functional.relu(self.fc(z)))))


class VggLike(Net):
    """Dropout before the head."""

    def __init__(self) -> None:
        super().__init__()
        self.classifier = nn.Sequential(nn.Linear(D, 9), nn.ReLU(True), nn.Dropout(0.9), nn.Linear(9, C))

    def forward(self, x: Tensor) -> Any:
        return self.classifier(self.pooled(x))


class ConvHead(Net):
    """A 1x1 convolution after the pooling, as fully convolutional networks have it."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(D, C, 1)

    def forward(self, x: Tensor) -> Any:
        return self.head(self.pooled(x)[:, :, None, None]).flatten(1)


class ConvThenPool(ConvHead):
    """A 1x1 convolution on the map, pooled afterwards."""

    def forward(self, x: Tensor) -> Any:
        return self.head(self.trunk(x)).mean(dim=(2, 3))


class WholeMapConv(Net):
    """A convolution whose kernel is the whole map."""

    def __init__(self) -> None:
        super().__init__()
        self.head = nn.Conv2d(D, C, 6)

    def forward(self, x: Tensor) -> Any:
        return self.head(self.trunk(x)).flatten(1)


class NoBias(Net):
    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(D, C, bias=False)

    def forward(self, x: Tensor) -> Any:
        return self.fc(self.pooled(x))


class Functional(Net):
    """No module at all: parameters and F.linear."""

    def __init__(self) -> None:
        super().__init__()
        self.matrix, self.offset = nn.Parameter(torch.randn(C, D)), nn.Parameter(torch.randn(C))

    def forward(self, x: Tensor) -> Any:
        return functional.linear(self.pooled(x), self.matrix, self.offset)


class Product(Functional):
    def forward(self, x: Tensor) -> Any:
        return self.pooled(x) @ self.matrix.T + self.offset


class ProductOfPlainTensor(Functional):
    """The bias comes first, in place, and the weights are a constant that no state dict holds."""

    def __init__(self) -> None:
        super().__init__()
        self.constant = torch.randn(D, C)

    def forward(self, x: Tensor) -> Any:
        return self.offset + torch.matmul(self.pooled(x), self.constant)


class BareProduct(Functional):
    def forward(self, x: Tensor) -> Any:
        return torch.mm(self.pooled(x), self.matrix.T)


class Addmm(Functional):
    def forward(self, x: Tensor) -> Any:
        return torch.addmm(self.offset, self.pooled(x), self.matrix.T, beta=0.5, alpha=2.0)


class Parametrised(Net):
    def __init__(self) -> None:
        super().__init__()
        self.fc = parametrizations.weight_norm(nn.Linear(D, C))
        with torch.no_grad():
            self.fc.parametrizations.weight.original0.mul_(3)

    def forward(self, x: Tensor) -> Any:
        return self.fc(self.pooled(x))


class Orthogonal(Net):
    def __init__(self) -> None:
        super().__init__()
        self.fc = parametrizations.orthogonal(nn.Linear(D, C))

    def forward(self, x: Tensor) -> Any:
        return self.fc(self.pooled(x))


class SharedTwice(Net):
    """One layer, called first on a detour and then for the logits."""

    def __init__(self) -> None:
        super().__init__()
        self.fc, self.back = nn.Linear(D, C), nn.Linear(C, D)

    def forward(self, x: Tensor) -> Any:
        return self.fc(functional.relu(self.back(self.fc(self.pooled(x)))))


class TokensThenMean(Net):
    """A linear layer on every token, averaged afterwards."""

    def __init__(self) -> None:
        super().__init__()
        self.fc = nn.Linear(D, C)

    def forward(self, x: Tensor) -> Any:
        return self.fc(self.trunk(x).flatten(2).transpose(1, 2)).mean(dim=1)


class TokensThenFirst(TokensThenMean):
    def forward(self, x: Tensor) -> Any:
        return self.fc(self.trunk(x).flatten(2).transpose(1, 2))[:, 0]


class AttentionLike(Net):
    """A ViT-like end: transformer layer, norm, class token, head."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(D, 2, 16, batch_first=True)
        self.norm_out, self.heads = nn.LayerNorm(D), nn.Linear(D, C)

    def forward(self, x: Tensor) -> Any:
        return self.heads(self.norm_out(self.layer(self.trunk(x).flatten(2).transpose(1, 2)))[:, 0])


class Squeezing(ResNetLike):
    """Drops every dimension of size one, the batch's too."""

    def forward(self, x: Tensor) -> Any:
        return self.fc(self.avgpool(self.trunk(x)).squeeze())


class OverwritesItsFeatures(ResNetLike):
    def forward(self, x: Tensor) -> Any:
        z = self.pooled(x)
        logits = self.fc(z)
        z.zero_()
        return logits


class Probabilities(ResNetLike):
    def forward(self, x: Tensor) -> Any:
        return super().forward(x).softmax(dim=1)


class LogProbabilities(ResNetLike):
    def forward(self, x: Tensor) -> Any:
        return functional.log_softmax(super().forward(x), dim=-1)


class WithLogits(ResNetLike):
    def forward(self, x: Tensor) -> Any:
        return SimpleNamespace(logits=super().forward(x), hidden=x)


class InDict(ResNetLike):
    def forward(self, x: Tensor) -> Any:
        z = self.pooled(x)
        return {"features": z, "logits": self.fc(z)}


class InTuple(ResNetLike):
    def forward(self, x: Tensor) -> Any:
        z = self.pooled(x)
        return z, self.fc(z), None


class Wrapper(nn.Module):
    """Like DataParallel, but not it."""

    def __init__(self) -> None:
        super().__init__()
        self.module = ResNetLike()

    def forward(self, *args: Any) -> Any:
        return self.module(*args)


SUPPORTED: list[Callable[[], nn.Module]] = [
    ResNetLike,
    SeveralOfTheSameWidth,
    VggLike,
    ConvHead,
    ConvThenPool,
    WholeMapConv,
    NoBias,
    Functional,
    Product,
    ProductOfPlainTensor,
    BareProduct,
    Addmm,
    Parametrised,
    Orthogonal,
    SharedTwice,
    TokensThenMean,
    TokensThenFirst,
    AttentionLike,
    Squeezing,
    OverwritesItsFeatures,
    Probabilities,
    LogProbabilities,
    WithLogits,
    InDict,
    InTuple,
    Wrapper,
]


def logits_of(model: nn.Module, images: Tensor) -> Tensor:
    """Run a copy in eval mode and take the logits out of whatever it returns."""
    twin = copy.deepcopy(model).eval()
    with torch.no_grad():
        output = twin(images)
    if isinstance(output, dict):
        output = output["logits"]
    if isinstance(output, tuple):
        output = output[1]
    logits = getattr(output, "logits", output)
    assert isinstance(logits, Tensor)
    return logits


def as_log_probabilities(output: Tensor) -> Tensor:
    """Read logits, log-probabilities and probabilities alike."""
    is_probability = bool((output > 0).all()) and torch.allclose(output.sum(1), torch.ones(len(output)))
    return output.log() if is_probability else output.log_softmax(1)


def flags(model: nn.Module) -> dict[str, bool]:
    return {name: module.training for name, module in model.named_modules()}


@pytest.mark.parametrize("build", SUPPORTED, ids=lambda build: build.__name__)
def test_head_of_encoder_is_the_model(build: Callable[[], nn.Module]) -> None:
    model = build()
    release = load(model, example=EXAMPLE)
    assert release.encoder is not None
    expected, got = logits_of(model, IMAGES), release.head(release.encoder(IMAGES))
    if build in (Probabilities, LogProbabilities):
        expected, got = as_log_probabilities(expected), got.log_softmax(1)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    assert release.head.classes == C


@pytest.mark.parametrize("build", SUPPORTED, ids=lambda build: build.__name__)
def test_the_callers_model_stays_bit_identical_with_its_flags(build: Callable[[], nn.Module]) -> None:
    model = build().train()
    next(model.modules()).training = True
    model.get_submodule("module.fc" if isinstance(model, Wrapper) else "norm").eval()
    before, flags_before = copy.deepcopy(model.state_dict()), flags(model)
    release = load(model, example=EXAMPLE)
    assert release.encoder is not None
    release.encoder(IMAGES)
    assert flags(model) == flags_before
    assert len(set(flags_before.values())) == 2
    after = model.state_dict()
    assert all(torch.equal(after[key], before[key]) for key in before)
    assert all(parameter.grad is None for parameter in model.parameters())


def test_a_model_in_training_mode_is_read_as_in_eval_mode() -> None:
    model = VggLike().train()
    release = load(model, example=EXAMPLE)
    assert release.encoder is not None
    first, second = release.encoder(IMAGES), release.encoder(IMAGES)
    assert torch.equal(first, second)
    with torch.no_grad():
        noisy = model(IMAGES)  # the control: left alone, this model is not deterministic
    assert not torch.allclose(noisy, release.head(first), atol=1e-3)


def test_buffers_that_a_forward_pass_changes_are_put_back() -> None:
    class Counting(ResNetLike):
        def __init__(self) -> None:
            super().__init__()
            self.calls = nn.Buffer(torch.zeros(()))
            self.replaced = nn.Buffer(torch.zeros(()))

        def forward(self, x: Tensor) -> Any:
            self.calls.add_(1)
            self.replaced = self.replaced + 1  # type: ignore[assignment]
            return super().forward(x)

    model = Counting()
    replaced = model.replaced
    release = load(model, example=EXAMPLE)
    assert release.encoder is not None
    release.encoder(IMAGES)
    assert model.calls.item() == 0
    assert model.replaced is replaced
    assert model.replaced.item() == 0
    model(IMAGES)
    assert model.calls.item() == 1


def test_of_several_calls_with_the_same_result_the_last_is_the_head() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, C), nn.ReLU(), nn.Linear(C, C))
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    assert load(model, example=torch.randn(2, 1, 8, 8)).head.width == C


def test_a_models_own_train_method_is_not_called() -> None:
    class Merging(ResNetLike):
        merged = False

        def train(self, mode: bool = True) -> Merging:
            self.merged = True
            return super().train(mode)

    model = Merging()
    load(model, example=EXAMPLE)
    assert not model.merged
    assert model.training


def test_wrappers_of_torch_are_taken_off() -> None:
    model = ResNetLike()
    compiled = torch.compile(model, backend="eager")
    assert isinstance(compiled, nn.Module)
    assert compiled is not model
    for wrapped in (nn.DataParallel(model), compiled, nn.DataParallel(compiled)):
        release = load(wrapped, example=EXAMPLE)
        assert isinstance(release.encoder, ModuleEncoder)
        assert release.encoder.model is model
        assert torch.equal(release.head.weight, model.fc.weight)


def test_a_model_compiled_in_place_is_watched_uncompiled() -> None:
    model = ResNetLike()
    model.compile(backend=_refuse_to_compile)
    release = load(model, example=EXAMPLE)
    assert torch.equal(release.head.weight, model.fc.weight)
    with pytest.raises(Exception, match="compiled after all"):
        model(IMAGES)


def _refuse_to_compile(*_: object) -> Any:
    raise RuntimeError("compiled after all")


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_other_precisions_give_float32_features(dtype: torch.dtype) -> None:
    model = ResNetLike().to(dtype)
    release = load(model, example=EXAMPLE)
    assert release.encoder is not None
    features = release.encoder(IMAGES)
    assert features.dtype == torch.float32
    expected = logits_of(model, IMAGES.to(dtype)).float()
    torch.testing.assert_close(release.head(features), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("rows", [1, 2, 50])
def test_any_batch_gives_the_same_features(rows: int) -> None:
    images = torch.randn(50, 3, 8, 8)
    release = load(Squeezing(), example=EXAMPLE)
    assert release.encoder is not None
    parts = [release.encoder(part) for part in images.split(rows)]  # type: ignore[no-untyped-call]
    torch.testing.assert_close(torch.cat(parts), release.encoder(images), rtol=1e-4, atol=1e-5)


def test_one_example_is_enough() -> None:
    model = Squeezing()
    assert torch.equal(load(model, example=IMAGES[:1]).head.weight, model.fc.weight)


@pytest.mark.parametrize("shape", [(3, 224, 224), (3, 32, 32), (3, 64, 64), (1, 28, 28), (1, 8, 8), (21,)])
def test_usual_inputs_need_no_example(shape: tuple[int, ...]) -> None:
    width = torch.Size(shape).numel()
    release = load(nn.Sequential(nn.Flatten(), nn.Linear(width, 4), nn.ReLU(), nn.Linear(4, C)))
    assert release.encoder is not None
    assert release.encoder(torch.randn(2, *shape)).shape == (2, 4)


def test_the_shape_a_model_carries_is_tried_first() -> None:
    model = nn.Sequential(nn.Conv2d(2, D, 9), nn.Flatten(), nn.Linear(D, C))
    with pytest.raises(InputError, match="no usual input"):
        load(model)
    model.config = SimpleNamespace(image_size=9, num_channels=2)  # type: ignore[assignment]
    assert load(model).head.width == D
    del model.config
    model.pretrained_cfg = {"input_size": (2, 9, 9)}  # type: ignore[assignment]
    assert load(model).head.width == D


def test_an_absurd_shape_in_a_model_is_not_believed() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, C))
    for side in (10**9, -3, "large", [1, 2, 3, 10**9]):
        model.config = SimpleNamespace(image_size=side, num_channels=3)  # type: ignore[assignment]
        assert load(model).head.width == 64


def test_the_source_and_the_fingerprint_describe_the_model() -> None:
    model = ResNetLike()
    release = load(model, example=EXAMPLE)
    assert release.source == "ResNetLike (nn.Module)"
    assert release.class_names is None
    assert release.preprocess is None
    assert load(copy.deepcopy(model), example=IMAGES).fingerprint == release.fingerprint
    with torch.no_grad():
        next(model.parameters()).view(-1)[0] += 1e-3
    assert load(model, example=EXAMPLE).fingerprint != release.fingerprint


def test_a_plain_tensor_that_no_state_dict_holds_counts_for_the_fingerprint() -> None:
    model = ProductOfPlainTensor()
    twin = copy.deepcopy(model)
    twin.constant = twin.constant + 1
    assert load(twin, example=EXAMPLE).fingerprint != load(model, example=EXAMPLE).fingerprint


def test_a_model_on_its_own_device_is_not_copied() -> None:
    model = ResNetLike()
    release = load(model, example=EXAMPLE, device="cpu")
    assert isinstance(release.encoder, ModuleEncoder)
    assert release.encoder.model is model


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(InputError, match="the device 'gpu' cannot be used"):
        load(ResNetLike(), example=EXAMPLE, device="gpu")
