"""How far the pixels that a network is given lie from those of transformers' AutoImageProcessor, family by family.

    python benchmarks/preprocessing.py

Every family has the ``preprocessor_config.json`` of a published checkpoint. Two photographs, wide, tall and square, and
digits go through both; the table has the largest difference of a value, as the network gets it, and of a pixel, in
grey levels of 255. Needs transformers, Pillow and scikit-learn, no network.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from sklearn.datasets import load_digits, load_sample_images
from torch import Tensor

from sfra.release.processors import CLIP, IMAGENET, STANDARD, preprocess_from

EFFICIENTNET = {"image_mean": IMAGENET["image_mean"], "image_std": [0.47853944, 0.4732864, 0.47434163]}
_ALL = {"do_resize": True, "do_normalize": True}
_NEW = {**_ALL, "do_rescale": True, "rescale_factor": 1 / 255}


def _box(side: int) -> dict[str, int]:
    return {"height": side, "width": side}


FILES: dict[str, dict[str, Any]] = {
    "ViT": {**_NEW, "image_processor_type": "ViTImageProcessor", "resample": 2, "size": _box(224), **STANDARD},
    "ViT, old file": {**_ALL, "feature_extractor_type": "ViTFeatureExtractor", "resample": 2, "size": 384, **STANDARD},
    "Swin": {**_ALL, "feature_extractor_type": "ViTFeatureExtractor", "resample": 3, "size": 224, **IMAGENET},
    "DeiT": {
        **_ALL,
        "feature_extractor_type": "DeiTFeatureExtractor",
        "resample": 3,
        "size": 256,
        **IMAGENET,
        "do_center_crop": True,
        "crop_size": 224,
    },
    "BEiT": {
        **_ALL,
        "feature_extractor_type": "BeitFeatureExtractor",
        "resample": 2,
        "size": 224,
        **STANDARD,
        "do_center_crop": False,
        "crop_size": 224,
    },
    "ConvNeXT": {**_ALL, "feature_extractor_type": "ConvNextFeatureExtractor", "size": 224, "crop_pct": 0.875},
    "ConvNeXT 384": {**_NEW, "image_processor_type": "ConvNextImageProcessor", "size": {"shortest_edge": 384}},
    "ResNet, RegNet": {
        **_ALL,
        "feature_extractor_type": "ConvNextFeatureExtractor",
        "resample": 3,
        "size": 224,
        **IMAGENET,
        "crop_pct": 0.95,
    },
    "EfficientNet": {
        **_NEW,
        "image_processor_type": "EfficientNetImageProcessor",
        "resample": 0,
        "size": _box(224),
        "do_center_crop": False,
        "crop_size": _box(289),
        "include_top": True,
        "rescale_offset": False,
        **EFFICIENTNET,
    },
    "EfficientNet, offset": {
        **_NEW,
        "image_processor_type": "EfficientNetImageProcessor",
        "size": _box(260),
        "resample": 3,
        "rescale_factor": 1 / 127.5,
        "rescale_offset": True,
        "include_top": False,
        "do_center_crop": True,
        **EFFICIENTNET,
    },
    "MobileNetV1": {
        **_NEW,
        "image_processor_type": "MobileNetV1ImageProcessor",
        "resample": 2,
        **STANDARD,
        "size": {"shortest_edge": 256},
        "do_center_crop": True,
        "crop_size": _box(192),
    },
    "MobileNetV2": {
        **_NEW,
        "image_processor_type": "MobileNetV2ImageProcessor",
        "resample": 2,
        **STANDARD,
        "size": {"shortest_edge": 256},
        "do_center_crop": True,
        "crop_size": _box(224),
    },
    "MobileViT": {
        "do_resize": True,
        "feature_extractor_type": "MobileViTFeatureExtractor",
        "resample": 2,
        "size": 288,
        "do_center_crop": True,
        "crop_size": 256,
        "do_flip_channel_order": True,
    },
    "MobileViTV2, file silent": {"image_processor_type": "MobileViTImageProcessor"},
    "LeViT": {
        **_ALL,
        "feature_extractor_type": "LevitFeatureExtractor",
        "resample": 3,
        "size": 224,
        **IMAGENET,
        "do_center_crop": True,
    },
    "PoolFormer": {
        **_ALL,
        "feature_extractor_type": "PoolFormerFeatureExtractor",
        "resample": 3,
        "size": 224,
        **IMAGENET,
        "crop_pct": 0.95,
    },
    "BiT": {
        **_NEW,
        "image_processor_type": "BitImageProcessor",
        "resample": 2,
        **STANDARD,
        "size": {"shortest_edge": 448},
        "do_center_crop": True,
        "crop_size": _box(448),
        "do_convert_rgb": True,
    },
    "DINOv2": {
        **_NEW,
        "image_processor_type": "BitImageProcessor",
        "resample": 3,
        **IMAGENET,
        "size": {"shortest_edge": 256},
        "do_center_crop": True,
        "crop_size": _box(224),
        "do_convert_rgb": True,
    },
    "CLIP": {
        **_ALL,
        "feature_extractor_type": "CLIPFeatureExtractor",
        "resample": 3,
        "size": 224,
        **CLIP,
        "do_center_crop": True,
        "crop_size": 224,
    },
    "CLIP, longest side": {
        "image_processor_type": "CLIPImageProcessor",
        "size": {"shortest_edge": 240, "longest_edge": 300},
        "resample": 1,
        "crop_size": _box(210),
    },
    "SigLIP": {**_NEW, "image_processor_type": "SiglipImageProcessor", "resample": 3, "size": _box(224), **STANDARD},
    "PVT": {**_NEW, "image_processor_type": "PvtImageProcessor", "resample": 2, "size": _box(224), **IMAGENET},
    "SegFormer": {
        **_ALL,
        "feature_extractor_type": "SegformerFeatureExtractor",
        "resample": 2,
        "size": 512,
        **IMAGENET,
        "do_reduce_labels": False,
    },
}
"""Files as published checkpoints have them, old and new."""


@dataclass(frozen=True, kw_only=True)
class Compared:
    """What became of one family's images."""

    family: str
    words: str
    """What is done to the images."""
    value: float
    """Largest difference of a value that enters the network."""
    pixel: float
    """The same, in grey levels of 255."""


def pictures() -> list[Tensor]:
    """Return photographs, wide, tall and square, and a digit, as bytes ``[3, h, w]``."""
    china, flower = (torch.from_numpy(image.copy()).permute(2, 0, 1) for image in load_sample_images().images)
    digit = torch.from_numpy((load_digits().images[7] * 255 / 16).round()).to(torch.uint8).expand(3, -1, -1)
    return [china, flower.transpose(1, 2), china[:, :, 100:527], flower[:, 3:190, 5:92], digit]


def compare(family: str, config: dict[str, Any]) -> Compared:
    """Prepare the pictures as transformers does, and as we do."""
    from transformers import AutoImageProcessor

    prepare = preprocess_from(config)
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "preprocessor_config.json").write_text(json.dumps(config), encoding="utf-8")
        processor = AutoImageProcessor.from_pretrained(folder, backend="pil")
    deviation = torch.tensor(prepare.std).reshape(1, -1, 1, 1)
    value = pixel = 0.0
    for picture in pictures():
        theirs = processor(picture.permute(1, 2, 0).numpy(), return_tensors="pt")["pixel_values"]
        ours = prepare(picture[None])
        assert ours.shape == theirs.shape, (family, ours.shape, theirs.shape)
        off = (ours - theirs).abs()
        value, pixel = max(value, float(off.max())), max(pixel, 255 * float((off * deviation).max()))
    return Compared(family=family, words=str(prepare), value=value, pixel=pixel)


def table(rows: list[Compared]) -> Iterator[str]:
    """Write the table of the documentation."""
    yield "| family | what is done | largest difference of a value | in grey levels |"
    yield "|---|---|---:|---:|"
    for row in rows:
        yield f"| {row.family} | {row.words} | {row.value:.1e} | {row.pixel:.1e} |"


def main() -> None:
    """Compare every family, and print the table."""
    print("\n".join(table([compare(family, config) for family, config in FILES.items()])))


if __name__ == "__main__":
    main()
