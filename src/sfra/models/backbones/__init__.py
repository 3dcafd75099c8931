"""Architectures by name: paper-sized ones, a ResNet-18 for small images, and two for the demo."""

from sfra.models.backbones import huggingface, resnet_small, small
from sfra.models.backbones.registry import Backbone, backbone, build, describe, find, input_shape, names

__all__ = [
    "Backbone",
    "backbone",
    "build",
    "describe",
    "find",
    "huggingface",
    "input_shape",
    "names",
    "resnet_small",
    "small",
]
