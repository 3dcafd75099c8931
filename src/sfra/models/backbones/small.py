"""Two small classifiers for the 8×8 digits; they train on a CPU in seconds."""

from __future__ import annotations

from jaxtyping import Float
from torch import Tensor, nn

from sfra.core.types import Logits
from sfra.models.backbones.registry import backbone

WIDTH = 64
"""Features of both classifiers."""


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
