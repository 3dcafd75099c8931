"""Seconds per epoch of a training, its steps launched one by one and replayed as a CUDA graph, in the same run.

    python benchmarks/training.py --device cuda            # ResNet-18, batches of 256, 50,000 random 32x32 images
    python benchmarks/training.py --device cpu --images 512 --epochs 2 --backbone small-cnn

On a CPU there are no graphs and the two are the same. Also says whether both, and a repetition, end with equal bits.
"""

from __future__ import annotations

import argparse
import itertools
import time

import torch
from torch import nn

from sfra.data import Augment, ImageTensors
from sfra.models import backbones
from sfra.models.training import stepper
from sfra.models.training.train import Epoch, train
from sfra.release import Preprocess


def random_images(count: int, backbone: str, device: torch.device) -> ImageTensors:
    """Make images of the size that a network is made for."""
    channels, height, width = backbones.input_shape(backbone)
    generator = torch.Generator().manual_seed(0)
    pixels = torch.randint(0, 256, (count, channels, height, width), dtype=torch.uint8, generator=generator)
    return ImageTensors(
        images=pixels.to(device),
        labels=torch.randint(0, 10, (count,), generator=generator),
        generator=torch.Generator(device),
        augment=Augment(),
        prepare=Preprocess(size=(height, width), mean=(0.5,), std=(0.25,)),
    )


def run(asked: argparse.Namespace, data: ImageTensors, name: str, *, warm_ups: int) -> tuple[nn.Module, float]:
    """Train, print the seconds of every epoch, and return the model and the shortest epoch."""
    stepper.WARM_UPS = warm_ups
    marks, notes = [time.perf_counter()], set()

    def tell(done: Epoch) -> None:
        if data.images.is_cuda:
            torch.cuda.synchronize()
        marks.append(time.perf_counter())
        notes.add(done.note)

    model = backbones.build(asked.backbone, classes=10, seed=0)
    settings = {"epochs": asked.epochs, "learning_rate": 0.1, "batch_size": asked.batch_size, "compile": asked.compile}
    trained = train(model, data, device=data.images.device, progress=tell, **settings)
    seconds = [after - before for before, after in itertools.pairwise(marks)]
    print(name, " ".join(f"{one:.3f}" for one in seconds), *(note for note in notes if note), flush=True)
    return trained, min(seconds)


def equal(one: nn.Module, other: nn.Module) -> bool:
    """Compare all weights and buffers."""
    pairs = zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    return all(torch.equal(left, right) for left, right in pairs)


def main() -> None:
    """Train the same network plainly and captured, and print a line for each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--backbone", default="resnet18-small")
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--epochs", type=int, default=6)
    parser.add_argument("--batch-size", type=int, default=256)
    parser.add_argument("--compile", action="store_true")
    asked = parser.parse_args()
    data = random_images(asked.images, asked.backbone, torch.device(asked.device))
    plain = run(asked, data, "plain", warm_ups=10**9)
    captured = run(asked, data, "captured", warm_ups=3)
    again = run(asked, data, "captured", warm_ups=3)
    print(f"equal bits: plain and captured {equal(plain[0], captured[0])}, repeated {equal(captured[0], again[0])}")
    print(f"ratio: {plain[1] / captured[1]:.2f}")


if __name__ == "__main__":
    main()
