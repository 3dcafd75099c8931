"""Every backbone: shape, size, seed; the small ones learn; the transformers ones are ordinary directories."""

from itertools import combinations

import pytest
import torch
from torch import nn

from builders.backbones import run
from sfra.core.errors import InputError
from sfra.models import backbones

HEAVY = ("vit-b-16", "swin-t", "swin-t-small", "vit-small")
LIGHT = tuple(name for name in backbones.names() if name not in HEAVY)

# Sizes as published for ImageNet's 1000 classes, and for the usual CIFAR-10 ResNet-18.
PUBLISHED = [
    ("resnet18", 1000, 11_689_512),
    ("vit-b-16", 1000, 86_567_656),
    ("swin-t", 1000, 28_288_354),
    ("resnet18-small", 10, 11_173_962),
]


def width_of(model: nn.Module) -> int:
    *_, last = (module for module in model.modules() if isinstance(module, nn.Linear))
    return last.in_features


@pytest.mark.parametrize("name", backbones.names())
def test_every_backbone_answers_its_own_input_shape_and_says_its_width(name: str) -> None:
    model = backbones.build(name, classes=7, seed=0)
    logits = run(model, torch.rand(2, *backbones.input_shape(name)))
    assert logits.shape == (2, 7)
    assert torch.isfinite(logits).all()
    assert f"{width_of(model)} features" in backbones.describe(name)
    assert "\n" not in backbones.describe(name)


@pytest.mark.parametrize(("name", "classes", "parameters"), PUBLISHED)
def test_the_paper_sized_networks_have_the_published_number_of_parameters(
    name: str, classes: int, parameters: int
) -> None:
    model = backbones.build(name, classes=classes, seed=0)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


@pytest.mark.parametrize("name", [*LIGHT, "swin-t"])
def test_the_seed_alone_decides_the_weights_and_the_global_random_state_is_left_alone(name: str) -> None:
    before = torch.get_rng_state()
    first, again, *others = (backbones.build(name, classes=3, seed=seed).state_dict() for seed in (5, 5, 6, None, None))
    assert torch.equal(torch.get_rng_state(), before)
    assert all(torch.equal(first[key], again[key]) for key in first)
    for one, two in combinations([first, *others], 2):
        assert any(not torch.equal(one[key], two[key]) for key in one)


@pytest.mark.parametrize("side", [32, 64])
def test_the_small_resnet_keeps_the_full_resolution_in_its_first_stage(side: int) -> None:
    model = backbones.build("resnet18-small", classes=4, seed=0)
    shapes: dict[str, torch.Size] = {}
    for name in ("layer1", "layer4"):
        layer = model.get_submodule(name)
        layer.register_forward_hook(lambda _m, _i, out, name=name: shapes.update({name: out.shape}))
    assert run(model, torch.rand(1, 3, side, side)).shape == (1, 4)
    assert shapes == {"layer1": (1, 64, side, side), "layer4": (1, 512, side // 8, side // 8)}


def test_the_small_resnet_names_and_orders_its_weights_as_torchvision_does() -> None:
    norm = ("weight", "bias", "running_mean", "running_var", "num_batches_tracked")
    expected = ["conv1.weight", *(f"bn1.{part}" for part in norm)]
    for block in (f"layer{stage}.{number}." for stage in (1, 2, 3, 4) for number in (0, 1)):
        for layer in ("1", "2"):
            expected += [f"{block}conv{layer}.weight", *(f"{block}bn{layer}.{part}" for part in norm)]
        if block.endswith(".0.") and block != "layer1.0.":
            expected += [f"{block}downsample.0.weight", *(f"{block}downsample.1.{part}" for part in norm)]
    state = backbones.build("resnet18-small", classes=4, seed=0).state_dict()
    assert list(state) == [*expected, "fc.weight", "fc.bias"]


@pytest.mark.parametrize("name", HEAVY)
def test_the_configuration_of_a_transformer_describes_all_of_its_weights(name: str) -> None:
    from transformers import AutoConfig, AutoModelForImageClassification

    model = backbones.build(name, classes=5, seed=0)
    config = model.config.to_dict()  # type: ignore[union-attr, operator]
    with torch.device("meta"):
        again = AutoModelForImageClassification.from_config(AutoConfig.for_model(**config))
    assert type(again) is type(model)
    shapes = {key: value.shape for key, value in model.state_dict().items()}
    assert {key: value.shape for key, value in again.state_dict().items()} == shapes


@pytest.mark.parametrize("name", ["swin-t-small", "vit-small"])
def test_a_small_transformer_compiles_as_a_whole_in_half_precision(name: str) -> None:
    model = backbones.build(name, classes=5, seed=0).train()
    compiled = torch.compile(model, backend="aot_eager", fullgraph=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        compiled(torch.rand(2, *backbones.input_shape(name))).logits.float().sum().backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


def test_an_unknown_name_and_a_classifier_without_outputs_are_refused() -> None:
    with pytest.raises(InputError, match=r"there is no backbone 'resnet19'\n.*resnet18, resnet18-small"):
        backbones.build("resnet19", classes=10)
    with pytest.raises(InputError, match="no outputs"):
        backbones.build("small-cnn", classes=0)


def test_a_name_cannot_be_registered_twice() -> None:
    with pytest.raises(ValueError, match="two backbones are called 'small-cnn'"):
        backbones.backbone("small-cnn", "again", shape=(1, 8, 8))(lambda classes: nn.Linear(64, classes))
    assert "24 thousand" in backbones.describe("small-cnn")
