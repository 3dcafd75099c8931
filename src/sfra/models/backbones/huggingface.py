"""Paper-sized backbones from transformers: their checkpoints are ordinary model directories."""

from __future__ import annotations

from typing import Any

from torch import nn

from sfra.release.architecture import Backbone, register
from sfra.release.base import require

IMAGENET = (3, 224, 224)
"""Channels, height and width that these networks are made for."""


def add(name: str, description: str, *, family: str, shape: tuple[int, int, int], **settings: object) -> Backbone:
    """Register a member of a family (``model_type``) of transformers' image classifiers.

    ``settings`` are the fields of the configuration that make it this member.
    """

    def construct(classes: int) -> nn.Module:
        hf = require("transformers", extra="huggingface")
        config = hf.AutoConfig.for_model(family, num_labels=classes, **settings)
        model: nn.Module = hf.AutoModelForImageClassification.from_config(config)
        return model

    known = Backbone(
        name=name, description=description, shape=shape, construct=construct, family=family, settings=settings
    )
    register(known)
    return known


def differences(known: Backbone, config: Any) -> list[str]:
    """Say in which settings a transformers configuration is another member of the family, or another family."""
    if config.model_type != known.family:
        return [f"model_type {config.model_type!r} instead of {known.family!r}"]
    found = {key: getattr(config, key, None) for key in known.settings}
    return [
        f"{key} {_listed(found[key])!r} instead of {_listed(wanted)!r}"
        for key, wanted in known.settings.items()
        if _listed(found[key]) != _listed(wanted)
    ]


def _listed(value: object) -> object:
    return list(value) if isinstance(value, tuple) else value


add(
    "resnet18",
    "ResNet-18 with the ImageNet stem, 512 features (transformers)",
    family="resnet",
    shape=IMAGENET,
    embedding_size=64,
    hidden_sizes=[64, 128, 256, 512],
    depths=[2, 2, 2, 2],
    layer_type="basic",
)

add(
    "vit-b-16",
    "ViT-B/16, 768 features (transformers)",
    family="vit",
    shape=IMAGENET,
    image_size=224,
    patch_size=16,
    hidden_size=768,
    num_hidden_layers=12,
    num_attention_heads=12,
    intermediate_size=3072,
)

add(
    "vit-small",
    "ViT for small images: patches of 4, 256 features, 7 layers (transformers)",
    family="vit",
    shape=(3, 32, 32),
    image_size=32,
    patch_size=4,
    hidden_size=256,
    num_hidden_layers=7,
    num_attention_heads=4,
    intermediate_size=512,
)

SWIN_T: dict[str, Any] = {
    "family": "swin",
    "patch_size": 4,
    "embed_dim": 96,
    "depths": [2, 2, 6, 2],
    "num_heads": [3, 6, 12, 24],
}

add("swin-t", "Swin-T, 768 features (transformers)", shape=IMAGENET, image_size=224, window_size=7, **SWIN_T)

# Each window must fit into the last of the four stages, which has an eighth of the patches in a row: 24 / 8 = 3.
add(
    "swin-t-small",
    "Swin-T for images of 96 x 96: windows of 3, 768 features (transformers)",
    shape=(3, 96, 96),
    image_size=96,
    window_size=3,
    **SWIN_T,
)
