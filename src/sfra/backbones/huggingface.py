"""Paper-sized backbones from transformers: their checkpoints are ordinary model directories."""

from __future__ import annotations

from typing import Any

from torch import nn

from sfra.backbones.registry import backbone
from sfra.errors import MissingPackageError

IMAGENET = (3, 224, 224)
"""Channels, height and width that these networks are made for."""


@backbone("resnet18", "ResNet-18 with the ImageNet stem, 512 features (transformers)", shape=IMAGENET)
def resnet18(classes: int) -> nn.Module:
    """Build ResNet-18 as for ImageNet: a 7×7 stem of stride 2, then pooling."""
    hf = _transformers()
    config = hf.ResNetConfig(
        embedding_size=64,
        hidden_sizes=[64, 128, 256, 512],
        depths=[2, 2, 2, 2],
        layer_type="basic",
        num_labels=classes,
    )
    model: nn.Module = hf.ResNetForImageClassification(config)
    return model


@backbone("vit-b-16", "ViT-B/16, 768 features (transformers)", shape=IMAGENET)
def vit_b_16(classes: int) -> nn.Module:
    """Build the vision transformer of 12 layers over patches of 16×16."""
    hf = _transformers()
    config = hf.ViTConfig(image_size=224, patch_size=16, num_labels=classes)
    model: nn.Module = hf.ViTForImageClassification(config)
    return model


@backbone("swin-t", "Swin-T, 768 features (transformers)", shape=IMAGENET)
def swin_t(classes: int) -> nn.Module:
    """Build the smallest shifted-window transformer: 4 stages of 2, 2, 6 and 2 layers."""
    hf = _transformers()
    config = hf.SwinConfig(
        image_size=224,
        patch_size=4,
        embed_dim=96,
        depths=[2, 2, 6, 2],
        num_heads=[3, 6, 12, 24],
        window_size=7,
        num_labels=classes,
    )
    model: nn.Module = hf.SwinForImageClassification(config)
    return model


def _transformers() -> Any:
    try:
        import transformers
    except ImportError as problem:
        raise MissingPackageError(
            "this backbone needs transformers", got=problem, do="pip install 'sfra[huggingface]'"
        ) from None
    return transformers
