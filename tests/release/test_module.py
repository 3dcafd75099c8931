"""The head of a module is the linear call that gives its logits, whatever it is called and wherever it is."""

from __future__ import annotations

import copy
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn
from torch.nn.functional import linear, log_softmax, normalize, relu
from torch.nn.utils import parametrizations

from builders.modules import EXAMPLE, IMAGES, C, D, End, Net, untouched
from builders.releases import answer, encoder
from sfra.core.errors import InputError
from sfra.release import load
from sfra.release.module import ModuleEncoder


def tokens(net: Net, x: Tensor) -> Tensor:
    return net.trunk(x).flatten(2).transpose(1, 2)


def overwriting(net: Any, x: Tensor) -> Any:
    z = net.pooled(x)
    logits = net.fc(z)
    z.zero_()
    return logits


def resnet(net: Any, x: Tensor) -> Any:
    return net.fc(torch.flatten(net.avgpool(net.trunk(x)), 1))


ENDS: dict[str, End] = {
    "average pool and layer": resnet,
    "several of the same width, not called head": lambda n, x: n.last(relu(n.fc_square(relu(n.fc(n.pooled(x)))))),
    "dropout before the layer": lambda n, x: n.dropped(n.pooled(x)),
    "pointwise convolution": lambda n, x: n.conv_head(n.pooled(x)[:, :, None, None]).flatten(1),
    "pointwise convolution, then pool": lambda n, x: n.conv_head(n.trunk(x)).mean(dim=(2, 3)),
    "convolution over the whole map": lambda n, x: n.whole(n.trunk(x)).flatten(1),
    "no bias": lambda n, x: n.bare(n.pooled(x)),
    "no module": lambda n, x: linear(n.pooled(x), n.matrix, n.offset),
    "product and sum": lambda n, x: n.pooled(x) @ n.matrix.T + n.offset,
    "bias first, constant weights": lambda n, x: n.offset + torch.matmul(n.pooled(x), n.constant),
    "bare product": lambda n, x: torch.mm(n.pooled(x), n.matrix.T),
    "addmm": lambda n, x: torch.addmm(n.offset, n.pooled(x), n.matrix.T, beta=0.5, alpha=2.0),
    "weight norm": lambda n, x: n.normed(n.pooled(x)),
    "one layer called twice": lambda n, x: n.fc(relu(n.back(n.fc(n.pooled(x))))),
    "tokens, then their mean": lambda n, x: n.fc(tokens(n, x)).mean(dim=1),
    "tokens, then the first": lambda n, x: n.fc(tokens(n, x))[:, 0],
    "attention and class token": lambda n, x: n.fc(n.attention(tokens(n, x))[:, 0]),
    "squeeze": lambda n, x: n.fc(n.avgpool(n.trunk(x)).squeeze()),
    "features overwritten afterwards": overwriting,
    "probabilities": lambda n, x: resnet(n, x).softmax(dim=1),
    "log-probabilities": lambda n, x: log_softmax(resnet(n, x), dim=-1),
    "temperature": lambda n, x: resnet(n, x) / 2.0,
    "temperature repeated for each score": lambda n, x: resnet(n, x) / n.warmth.unsqueeze(1).expand(len(x), C),
    "temperature, in place": lambda n, x: resnet(n, x).div_(n.warmth),
    "tempered probabilities": lambda n, x: (resnet(n, x) / 1.5).softmax(1),
    "log-tempered probabilities": lambda n, x: log_softmax(n.warmth * resnet(n, x), dim=1),
    "scale and shift for each output": lambda n, x: n.shift + n.matrix[:, 0] * n.bare(n.pooled(x)) - 0.25,
    "the difference to a number": lambda n, x: n.warmth - resnet(n, x),
    "scale after tokens": lambda n, x: 3.0 * n.fc(tokens(n, x)).mean(dim=1),
    "scale before a pool": lambda n, x: (n.conv_head(n.trunk(x)) * n.warmth + n.offset[:, None, None]).mean((2, 3)),
    "a class switched off": lambda n, x: resnet(n, x) + n.switched_off,
    "cosine classifier": lambda n, x: 16 * linear(normalize(n.pooled(x)), normalize(n.fc.weight)),
    "cosine classifier, its scale a parameter": lambda n, x: (
        n.warmth.exp() * normalize(n.pooled(x)) @ normalize(n.matrix).T
    ),
    "an object with logits": lambda n, x: SimpleNamespace(logits=resnet(n, x), hidden=x),
    "a dict with logits": lambda n, x: {"features": n.pooled(x), "logits": n.fc(n.pooled(x))},
    "a tuple": lambda n, x: (n.pooled(x), n.fc(n.pooled(x)), None),
}
every_end = pytest.mark.parametrize("name", ENDS)


class Rich(Net):
    """All that the ends above use."""

    def __init__(self, end: End = resnet) -> None:
        super().__init__(end)
        self.avgpool, self.fc_square, self.last = nn.AdaptiveAvgPool2d(1), nn.Linear(C, C), nn.Linear(C, C)
        self.dropped = nn.Sequential(nn.Linear(D, 9), nn.ReLU(True), nn.Dropout(0.9), nn.Linear(9, C))
        self.conv_head, self.whole = nn.Conv2d(D, C, 1), nn.Conv2d(D, C, 6)
        self.bare, self.back = nn.Linear(D, C, bias=False), nn.Linear(C, D)
        self.matrix, self.offset = nn.Parameter(torch.randn(C, D)), nn.Parameter(torch.randn(C))
        self.constant = torch.randn(D, C)  # that no state dict holds
        self.warmth, self.shift = nn.Parameter(torch.tensor([1.7])), nn.Parameter(torch.randn(1, C))
        self.switched_off = torch.tensor([0.0, 0.0, -1e9, 0.0, 0.0])
        self.normed = parametrizations.weight_norm(nn.Linear(D, C))
        with torch.no_grad():
            self.normed.parametrizations.weight.original0.mul_(3)
        self.attention = nn.TransformerEncoderLayer(D, 2, 16, batch_first=True)


def logits_of(model: nn.Module, images: Tensor) -> Tensor:
    """Run a copy in eval mode and take the logits out of whatever it returns."""
    with torch.no_grad():
        output = copy.deepcopy(model).eval()(images)
    output = output["logits"] if isinstance(output, dict) else output[1] if isinstance(output, tuple) else output
    logits = getattr(output, "logits", output)
    assert isinstance(logits, Tensor)
    return logits


@every_end
def test_head_of_encoder_is_the_model(name: str) -> None:
    model = Rich(ENDS[name])
    release = load(model, example=EXAMPLE)
    expected, got = logits_of(model, IMAGES), answer(release, IMAGES)
    if name.endswith("probabilities"):
        expected, got = (expected if name.startswith("log") else expected.log()), got.log_softmax(1)
    torch.testing.assert_close(got, expected, rtol=1e-4, atol=1e-5)
    assert release.head.classes == C


@every_end
def test_loading_leaves_weights_flags_and_gradients_as_they_were(name: str) -> None:
    model = Rich(ENDS[name]).train()
    model.norm.eval()
    with untouched(model):
        encoder(load(model, example=EXAMPLE))(IMAGES)


def test_a_model_in_training_mode_is_read_as_in_eval_mode() -> None:
    model = Rich(ENDS["dropout before the layer"]).train()
    release = load(model, example=EXAMPLE)
    first, second = encoder(release)(IMAGES), encoder(release)(IMAGES)
    assert torch.equal(first, second)
    with torch.no_grad():
        noisy = model(IMAGES)  # the control: left alone, this model is not deterministic
    assert not torch.allclose(noisy, release.head(first), atol=1e-3)


def test_buffers_that_a_forward_pass_changes_are_put_back() -> None:
    class Counting(Net):
        def __init__(self) -> None:
            super().__init__()
            self.calls, self.replaced = nn.Buffer(torch.zeros(())), nn.Buffer(torch.zeros(()))

        def forward(self, x: Tensor) -> Any:
            self.calls.add_(1)
            self.replaced = self.replaced + 1  # type: ignore[assignment]
            return super().forward(x)

    model = Counting()
    replaced = model.replaced
    release = load(model, example=EXAMPLE)
    encoder(release)(IMAGES)
    assert model.replaced is replaced
    assert (model.calls.item(), model.replaced.item()) == (0, 0)
    model(IMAGES)
    assert model.calls.item() == 1


def test_of_several_calls_with_the_same_result_the_last_is_the_head() -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(64, C), nn.ReLU(), nn.Linear(C, C))
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    assert load(model, example=torch.randn(2, 1, 8, 8)).head.width == C


def test_a_models_own_train_method_is_not_called() -> None:
    class Merging(Net):
        merged = False

        def train(self, mode: bool = True) -> Merging:
            self.merged = True
            return super().train(mode)

    model = Merging()
    load(model, example=EXAMPLE)
    assert not model.merged
    assert model.training


def test_wrappers_of_torch_are_taken_off() -> None:
    model = Net()
    compiled = torch.compile(model, backend="eager")
    assert isinstance(compiled, nn.Module)
    for wrapped in (nn.DataParallel(model), compiled, nn.DataParallel(compiled)):
        release = load(wrapped, example=EXAMPLE)
        assert isinstance(release.encoder, ModuleEncoder)
        assert release.encoder.model is model
        assert torch.equal(release.head.weight, model.fc.weight)
    assert torch.equal(load(nn.Sequential(model), example=EXAMPLE).head.weight, model.fc.weight)


def test_a_model_compiled_in_place_is_watched_uncompiled() -> None:
    def refuse(*_: object) -> Any:
        raise RuntimeError("compiled after all")

    model = Net()
    model.compile(backend=refuse)
    assert torch.equal(load(model, example=EXAMPLE).head.weight, model.fc.weight)
    with pytest.raises(Exception, match="compiled after all"):
        model(IMAGES)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16])
def test_other_precisions_give_float32_features(dtype: torch.dtype) -> None:
    model = Net().to(dtype)
    release = load(model, example=EXAMPLE)
    features = encoder(release)(IMAGES)
    assert features.dtype == torch.float32
    expected = logits_of(model, IMAGES.to(dtype)).float()
    torch.testing.assert_close(release.head(features), expected, rtol=2e-2, atol=2e-2)


@pytest.mark.parametrize("rows", [1, 2])
def test_any_batch_gives_the_same_features(rows: int) -> None:
    release = load(Rich(ENDS["squeeze"]), example=IMAGES[:1])
    parts = [encoder(release)(part) for part in IMAGES.split(rows)]  # type: ignore[no-untyped-call]
    torch.testing.assert_close(torch.cat(parts), encoder(release)(IMAGES), rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(3, 224, 224), (3, 32, 32), (3, 64, 64), (1, 28, 28), (1, 8, 8), (21,)])
def test_usual_inputs_need_no_example(shape: tuple[int, ...]) -> None:
    width = torch.Size(shape).numel()
    release = load(nn.Sequential(nn.Flatten(), nn.Linear(width, 4), nn.ReLU(), nn.Linear(4, C)))
    assert encoder(release)(torch.randn(2, *shape)).shape == (2, 4)


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
    model = Rich(ENDS["bias first, constant weights"])
    release = load(model, example=EXAMPLE, device="cpu")
    assert isinstance(release.encoder, ModuleEncoder)
    assert release.encoder.model is model  # not copied: it is there already
    assert (release.source, release.class_names, release.preprocess) == ("Rich (nn.Module)", None, None)
    assert load(copy.deepcopy(model), example=IMAGES).fingerprint == release.fingerprint
    changes: list[Callable[[], Tensor]] = [lambda: model.conv.weight.detach(), lambda: model.constant]
    for tensor in changes:  # also in a tensor that no state dict holds
        before = load(model, example=EXAMPLE).fingerprint
        tensor().view(-1)[0] += 1e-3
        assert load(model, example=EXAMPLE).fingerprint != before


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(InputError, match="cannot use the device 'gpu'"):
        load(Net(), example=EXAMPLE, device="gpu")
