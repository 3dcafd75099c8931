"""Networks in memory: ends that are folded into the head, and those that are refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch
from torch import Tensor, nn
from torch.nn.functional import cosine_similarity, linear, log_softmax, normalize, relu

from checkpoint_cases.case import CLASSES, EXAMPLE, Made, Maker, add, dense, seeded, shrunk

End = Callable[["Ending", Tensor], Tensor]
WIDTH = 16


class Ending(nn.Module):
    """Two layers, and what is done with the features after the first."""

    def __init__(self, end: End, logits: End | None = None) -> None:
        super().__init__()
        self.trunk = nn.Sequential(nn.Flatten(), nn.Linear(64, WIDTH), nn.ReLU())
        self.fc, self.side = nn.Linear(WIDTH, CLASSES), nn.Linear(WIDTH, CLASSES)
        self.warmth = nn.Parameter(torch.tensor([1.7]))
        self.end, self.logits = end, logits or end

    def forward(self, images: Tensor) -> Tensor:
        """Return what the end makes of the features."""
        return self.end(self, self.trunk(images))


class Unnormalised(nn.Module):
    """The same network without its softmax, to compare with."""

    def __init__(self, whole: Ending) -> None:
        super().__init__()
        self.whole = whole

    def forward(self, images: Tensor) -> Tensor:
        """Return the logits."""
        return self.whole.logits(self.whole, self.whole.trunk(images))


def ending(end: End, logits: End | None = None) -> Maker:
    """Make a network with an end; ``logits`` is the same without a softmax."""

    def make(_: Path) -> Made:
        model = seeded(lambda: Ending(end, logits))
        assert isinstance(model, Ending)
        return Made(source=model, options={"example": EXAMPLE}, logits=Unnormalised(model))

    return make


def tempered(net: Ending, z: Tensor) -> Tensor:
    """Divide by a temperature that is written out for every score, as usual code does."""
    scores: Tensor = net.fc(z)
    return scores / net.warmth.unsqueeze(1).expand(scores.shape)


def cosine(net: Ending, z: Tensor) -> Tensor:
    """Return sixteen times the cosine of features and rows."""
    return 16 * linear(normalize(z), normalize(net.fc.weight))


def adapted(net: Ending, z: Tensor) -> Tensor:
    """Add an adapter to the last layer, not merged."""
    added: Tensor = net.lora_B(net.lora_A(z))  # type: ignore[operator]
    return torch.add(net.fc(z), added, alpha=0.5)


def with_adapter(_: Path) -> Made:
    """Make a network with an adapter on its head."""
    model = seeded(lambda: Ending(adapted))
    for name, layer in {"lora_A": nn.Linear(WIDTH, 2), "lora_B": nn.Linear(2, CLASSES)}.items():
        model.fc.register_module(name, layer)
        model.register_module(name, layer)
    return Made(source=model, options={"example": EXAMPLE})


def in_memory(build: Callable[[], nn.Module]) -> Maker:
    """Pass a module that is refused."""
    return lambda _: Made(source=build(), options={"example": EXAMPLE})


add(
    "`nn.Module` in memory",
    {
        "a linear layer": ending(lambda n, z: n.fc(z)),
        "a product and a sum": ending(lambda n, z: z @ n.fc.weight.T + n.fc.bias),
        "a layer, then a softmax": ending(lambda n, z: n.fc(z).softmax(1), lambda n, z: n.fc(z)),
        "a layer, then a log-softmax": ending(lambda n, z: log_softmax(n.fc(z), dim=1), lambda n, z: n.fc(z)),
        "a temperature": ending(lambda n, z: n.fc(z) / 1.5),
        "a temperature that is a parameter, as usual code writes it": ending(tempered),
        "a temperature, then a softmax": ending(lambda n, z: tempered(n, z).softmax(1), tempered),
        "a scale and a shift for each output": ending(lambda n, z: n.fc(z) * n.side.bias - n.fc.bias),
        "a cosine head": ending(cosine),
        "a cosine head whose scale is a parameter": ending(
            lambda n, z: n.warmth.exp() * normalize(z) @ normalize(n.fc.weight).T
        ),
        "a scale that depends on the input": (ending(lambda n, z: n.fc(z) * z.mean()), "before any other step"),
        "a cosine by `cosine_similarity`": (
            ending(lambda n, z: cosine_similarity(z[:, None], n.fc.weight[None], dim=2)),
            "before any other step",
        ),
        "a ReLU after the last layer": (ending(lambda n, z: relu(n.fc(z))), "before any other step"),
        "two heads, averaged": (ending(lambda n, z: (n.fc(z) + n.side(z)) / 2), "before any other step"),
        "a LoRA head": (with_adapter, "merge_and_unload"),
        "a quantised network": (in_memory(shrunk), "dequantize"),
        "one output (a binary classifier)": (in_memory(lambda: dense(1)), "one or two outputs cannot be audited"),
    },
)
