"""Architectures by name: paper-sized ones, a ResNet-18 for small images, and two for the demo.

Importing this package registers them; our own pyproject announces it to :mod:`sfra.release.architecture`.
"""

from sfra.models.backbones import huggingface
from sfra.models.backbones.build import build, describe, input_shape
from sfra.models.backbones.plain import backbone
from sfra.release.architecture import Backbone, find, names

__all__ = ["Backbone", "backbone", "build", "describe", "find", "huggingface", "input_shape", "names"]
