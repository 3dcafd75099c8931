"""Seconds per epoch of a training, its steps launched one by one and replayed as a CUDA graph, in the same run.

    python benchmarks/training.py --device cuda            # ResNet-18, batches of 256, 50,000 random 32x32 images
    python benchmarks/training.py --device cuda --compile

On a CPU there are no graphs and the two are the same. Both, and a repetition, should end with equal bits.
"""

from __future__ import annotations

import argparse
import itertools
import time
from typing import Any

import torch

from sfra.data import Augment, ImageTensors
from sfra.models import backbones
from sfra.models.training import stepper
from sfra.models.training.train import Epoch, train
from sfra.release import Preprocess

SETTINGS: dict[str, Any] = {"epochs": 6, "learning_rate": 0.1, "batch_size": 256}


def random_images(count: int, device: str) -> ImageTensors:
    """Make labelled images of 32 by 32."""
    generator = torch.Generator().manual_seed(0)
    return ImageTensors(
        images=torch.randint(0, 256, (count, 3, 32, 32), dtype=torch.uint8, generator=generator).to(device),
        labels=torch.randint(0, 10, (count,), generator=generator),
        generator=torch.Generator(device),
        augment=Augment(),
        prepare=Preprocess(size=(32, 32), mean=(0.5,), std=(0.25,)),
    )


def main() -> None:
    """Train the same network plainly and twice captured, and print the seconds of every epoch of each."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--images", type=int, default=50_000)
    parser.add_argument("--compile", action="store_true")
    asked = parser.parse_args()
    data, ends = random_images(asked.images, asked.device), []
    for name, warm_ups in (("plain", 10**9), ("captured", 3), ("captured", 3)):
        stepper.WARM_UPS, marks = warm_ups, [time.perf_counter()]

        def tell(_: Epoch, marks: list[float] = marks) -> None:
            if data.images.is_cuda:
                torch.cuda.synchronize()
            marks.append(time.perf_counter())

        start = backbones.build("resnet18-small", classes=10, seed=0)
        model = train(start, data, device=asked.device, progress=tell, compile=asked.compile, **SETTINGS)
        ends.append(torch.cat([one.flatten().double() for one in model.cpu().state_dict().values()]))
        print(name, *(f"{after - before:.3f}" for before, after in itertools.pairwise(marks)), flush=True)
    print(f"equal bits: plain and captured {ends[0].equal(ends[1])}, repeated {ends[1].equal(ends[2])}")


if __name__ == "__main__":
    main()
