"""Our own networks: two small classifiers for the 8×8 digits, and a ResNet-18 for small images.

The configuration of transformers' ResNet has no field for its stem (7×7, stride 2, then pooling), so a model
directory of a ResNet-18 for small images could not be loaded back as what it is. Hence a plain module. Its
parameters are named as in torchvision's ResNet, so that a state dict saved here loads into
``torchvision.models.resnet18`` (or timm's) whose ``conv1`` was exchanged for a 3×3 convolution and whose
``maxpool`` for the identity.
"""

from __future__ import annotations

from collections.abc import Callable

from jaxtyping import Float
from torch import Tensor, nn

from sfra.core.types import Logits
from sfra.release.architecture import Backbone, register

WIDTH = 64
"""Features of the small classifiers."""

STAGES = (64, 128, 256, 512)
"""Channels of the four stages of the ResNet; the last is the number of features."""


def backbone(
    name: str, description: str, *, shape: tuple[int, int, int], any_size: bool = False
) -> Callable[[Callable[[int], nn.Module]], Callable[[int], nn.Module]]:
    """Register the decorated function, from a number of classes to a classifier, under a name."""

    def decorate(construct: Callable[[int], nn.Module]) -> Callable[[int], nn.Module]:
        register(Backbone(name=name, description=description, shape=shape, construct=construct, any_size=any_size))
        return construct

    return decorate


class SmallClassifier(nn.Module):
    """An encoder with 64 features and a linear head."""

    def __init__(self, encoder: nn.Sequential, classes: int) -> None:
        super().__init__()
        self.encoder = encoder
        self.classifier = nn.Linear(WIDTH, classes)

    def forward(self, images: Float[Tensor, "n c h w"]) -> Logits:
        """Return the logits of a batch of images."""
        logits: Tensor = self.classifier(self.encoder(images))
        return logits


@backbone(
    "small-cnn", "3 convolutions with batch norm, 24 thousand weights, 64 features", shape=(1, 8, 8), any_size=True
)
def small_cnn(classes: int) -> nn.Module:
    """Build three 3×3 convolutions, one pooling between them, then the mean over the positions."""
    encoder = nn.Sequential(
        *_convolution(1, 16),
        *_convolution(16, 32),
        nn.MaxPool2d(2),
        *_convolution(32, WIDTH),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
    )
    return SmallClassifier(encoder, classes)


@backbone("small-mlp", "2 hidden layers, 17 thousand weights, 64 features", shape=(1, 8, 8))
def small_mlp(classes: int) -> nn.Module:
    """Build a multilayer perceptron, 64 pixels to 128 to 64 features, without normalisation."""
    encoder = nn.Sequential(nn.Flatten(), nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, WIDTH), nn.ReLU())
    return SmallClassifier(encoder, classes)


def _convolution(inputs: int, outputs: int) -> tuple[nn.Module, ...]:
    convolution = nn.Conv2d(inputs, outputs, kernel_size=3, padding=1, bias=False)
    return convolution, nn.BatchNorm2d(outputs), nn.ReLU()


class ResidualBlock(nn.Module):
    """Two 3×3 convolutions around which the input passes, projected where the shape changes."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.conv1 = _conv3x3(inputs, outputs, stride)
        self.bn1 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.conv2 = _conv3x3(outputs, outputs)
        self.bn2 = nn.BatchNorm2d(outputs)
        self.downsample: nn.Module | None = None
        if stride != 1 or inputs != outputs:
            projection = nn.Conv2d(inputs, outputs, kernel_size=1, stride=stride, bias=False)
            self.downsample = nn.Sequential(projection, nn.BatchNorm2d(outputs))

    def forward(self, x: Float[Tensor, "n c h w"]) -> Float[Tensor, "n c2 h2 w2"]:
        """Return ``relu(F(x) + x)``."""
        residual = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        identity = x if self.downsample is None else self.downsample(x)
        out: Tensor = self.relu(residual + identity)
        return out


class SmallImageResNet18(nn.Module):
    """ResNet-18 whose first stage sees the image at full resolution; any image of 8×8 or more will do."""

    def __init__(self, classes: int) -> None:
        super().__init__()
        self.conv1 = _conv3x3(3, STAGES[0])
        self.bn1 = nn.BatchNorm2d(STAGES[0])
        self.relu = nn.ReLU(inplace=True)
        self.layer1 = _stage(STAGES[0], STAGES[0], stride=1)
        self.layer2 = _stage(STAGES[0], STAGES[1], stride=2)
        self.layer3 = _stage(STAGES[1], STAGES[2], stride=2)
        self.layer4 = _stage(STAGES[2], STAGES[3], stride=2)
        self.avgpool = nn.AdaptiveAvgPool2d(1)
        self.fc = nn.Linear(STAGES[3], classes)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")

    def forward(self, images: Float[Tensor, "n 3 h w"]) -> Logits:
        """Return the logits of a batch of images."""
        x = self.relu(self.bn1(self.conv1(images)))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        logits: Tensor = self.fc(self.avgpool(x).flatten(1))
        return logits


@backbone(
    "resnet18-small",
    "ResNet-18 for images of 32x32 or 64x64 (3x3 stem), 512 features",
    shape=(3, 32, 32),
    any_size=True,
)
def resnet18_small(classes: int) -> nn.Module:
    """Build the usual ResNet-18 for CIFAR and TinyImageNet."""
    return SmallImageResNet18(classes)


def _stage(inputs: int, outputs: int, *, stride: int) -> nn.Sequential:
    return nn.Sequential(ResidualBlock(inputs, outputs, stride), ResidualBlock(outputs, outputs, 1))


def _conv3x3(inputs: int, outputs: int, stride: int = 1) -> nn.Conv2d:
    return nn.Conv2d(inputs, outputs, kernel_size=3, stride=stride, padding=1, bias=False)
