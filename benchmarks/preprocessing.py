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
BILINEAR, BICUBIC = {"resample": 2}, {"resample": 3}


def _box(side: int) -> dict[str, int]:
    return {"height": side, "width": side}


def _old(family: str, size: int, *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Write a file as older versions of transformers did, of an extractor."""
    merged = {name: value for part in parts for name, value in part.items()}
    basic = {"do_resize": True, "do_normalize": True, "feature_extractor_type": f"{family}FeatureExtractor"}
    return {**basic, "size": size, **merged, **more}


def _new(family: str, size: dict[str, int], *parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    """Write a file as newer versions do, of a processor."""
    merged = {name: value for part in parts for name, value in part.items()}
    basic = {"do_resize": True, "do_normalize": True, "do_rescale": True, "rescale_factor": 1 / 255}
    return {**basic, "image_processor_type": f"{family}ImageProcessor", "size": size, **merged, **more}


def _crop(size: int | dict[str, int]) -> dict[str, Any]:
    return {"do_center_crop": True, "crop_size": size}


FILES: dict[str, dict[str, Any]] = {
    "ViT": _new("ViT", _box(224), BILINEAR, STANDARD),
    "ViT, old file": _old("ViT", 384, BILINEAR, STANDARD),
    "Swin": _old("ViT", 224, BICUBIC, IMAGENET),
    "DeiT": _old("DeiT", 256, BICUBIC, IMAGENET, _crop(224)),
    "BEiT": _old("Beit", 224, BILINEAR, STANDARD, do_center_crop=False, crop_size=224),
    "ConvNeXT": _old("ConvNext", 224, crop_pct=0.875),
    "ConvNeXT 384": _new("ConvNext", {"shortest_edge": 384}),
    "ResNet, RegNet": _old("ConvNext", 224, BICUBIC, IMAGENET, crop_pct=0.95),
    "EfficientNet": _new(
        *("EfficientNet", _box(224), EFFICIENTNET),
        resample=0,
        do_center_crop=False,
        crop_size=_box(289),
        include_top=True,
        rescale_offset=False,
    ),
    "EfficientNet, offset": _new(
        *("EfficientNet", _box(260), BICUBIC, EFFICIENTNET),
        rescale_factor=1 / 127.5,
        rescale_offset=True,
        include_top=False,
        do_center_crop=True,
    ),
    "MobileNetV1": _new("MobileNetV1", {"shortest_edge": 256}, BILINEAR, STANDARD, _crop(_box(192))),
    "MobileNetV2": _new("MobileNetV2", {"shortest_edge": 256}, BILINEAR, STANDARD, _crop(_box(224))),
    "MobileViT": {
        "do_resize": True,
        "feature_extractor_type": "MobileViTFeatureExtractor",
        "size": 288,
        **BILINEAR,
        **_crop(256),
        "do_flip_channel_order": True,
    },
    "MobileViTV2, file silent": {"image_processor_type": "MobileViTImageProcessor"},
    "LeViT": _old("Levit", 224, BICUBIC, IMAGENET, do_center_crop=True),
    "PoolFormer": _old("PoolFormer", 224, BICUBIC, IMAGENET, crop_pct=0.95),
    "BiT": _new("Bit", {"shortest_edge": 448}, BILINEAR, STANDARD, _crop(_box(448)), do_convert_rgb=True),
    "DINOv2": _new("Bit", {"shortest_edge": 256}, BICUBIC, IMAGENET, _crop(_box(224)), do_convert_rgb=True),
    "CLIP": _old("CLIP", 224, BICUBIC, CLIP, _crop(224)),
    "CLIP, longest side": {
        "image_processor_type": "CLIPImageProcessor",
        "size": {"shortest_edge": 240, "longest_edge": 300},
        "resample": 1,
        "crop_size": _box(210),
    },
    "SigLIP": _new("Siglip", _box(224), BICUBIC, STANDARD),
    "PVT": _new("Pvt", _box(224), BILINEAR, IMAGENET),
    "SegFormer": _old("Segformer", 512, BILINEAR, IMAGENET, do_reduce_labels=False),
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
