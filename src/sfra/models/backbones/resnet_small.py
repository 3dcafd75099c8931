"""ResNet-18 for small images: a 3×3 stem of stride 1 and no pooling.

The configuration of transformers' ResNet has no field for its stem (7×7, stride 2, then pooling), so a model
directory of this network could not be loaded back as what it is. Hence a plain module. Its parameters are
named as in torchvision's ResNet, so that a state dict saved here loads into ``torchvision.models.resnet18``
(or timm's) whose ``conv1`` was exchanged for a 3×3 convolution and whose ``maxpool`` for the identity.
"""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from sfra.core.types import Logits
from sfra.models.backbones.registry import backbone

STAGES = (64, 128, 256, 512)
"""Channels of the four stages; the last is the number of features."""


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
