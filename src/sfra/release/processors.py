"""What ``preprocessor_config.json`` asks for, as transformers' image processors do it: honoured, or refused by name."""

from __future__ import annotations

import re
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

from sfra.core.errors import InputError
from sfra.release.preprocess import Preprocess
from sfra.release.resample import FILTERS

STANDARD = {"image_mean": [0.5, 0.5, 0.5], "image_std": [0.5, 0.5, 0.5]}
IMAGENET = {"image_mean": [0.485, 0.456, 0.406], "image_std": [0.229, 0.224, 0.225]}
CLIP = {
    "image_mean": [0.48145466, 0.4578275, 0.40821073],
    "image_std": [0.26862954, 0.26130258, 0.27577711],
}
_BASE = {"do_resize": True, "do_rescale": True, "rescale_factor": 1 / 255, "do_normalize": True, "resample": 3}
_UNNAMED = {"resample": 2, "image_mean": 0.0, "image_std": 1.0}
_CROP = {"do_center_crop": True, "crop_size": 224}
_EDGE = {"size": {"shortest_edge": 224}}

FAMILIES: dict[str, dict[str, Any]] = {
    "ViT": {"size": 224, "resample": 2, **STANDARD},
    "DeiT": {"size": 256, **_CROP, **STANDARD},
    "Beit": {"size": 224, "crop_size": 224, **STANDARD},
    "Pvt": {"size": 224, **IMAGENET},
    "Segformer": {"size": 512, "resample": 2, **IMAGENET},
    "Siglip": {"size": 224, "do_convert_rgb": True, **STANDARD},
    "EfficientNet": {"size": 346, "crop_size": 289, "rescale_offset": False, "include_top": True, **STANDARD},
    "ConvNext": {"size": {"shortest_edge": 384}, "crop_pct": 224 / 256, **STANDARD},
    "PoolFormer": {**_EDGE, **_CROP, "crop_pct": 0.9, **IMAGENET},
    "Levit": {**_EDGE, **_CROP, **IMAGENET},
    "MobileNetV1": {"size": {"shortest_edge": 256}, **_CROP, "resample": 2, **STANDARD},
    "MobileNetV2": {"size": {"shortest_edge": 256}, **_CROP, "resample": 2, **STANDARD},
    "MobileViT": {**_EDGE, "do_center_crop": True, "crop_size": 256, "do_flip_channel_order": True},
    "Bit": {**_EDGE, **_CROP, "do_convert_rgb": True, **CLIP},
    "CLIP": {**_EDGE, **_CROP, "do_convert_rgb": True, **CLIP},
    "ChineseCLIP": {**_EDGE, **_CROP, "do_convert_rgb": True, **CLIP},
}
"""What each image processor of transformers does where the file is silent, by the first part of its name.

A size as one number is that of both sides here. In a file it is the shorter side where the family's own is.
"""

MODELS = {
    **dict.fromkeys(("vit", "dinat", "ijepa", "swiftformer", "swin", "swinv2", "vit_mae", "vit_msn"), "ViT"),
    **dict.fromkeys(("bit", "dinov2", "focalnet", "hiera"), "Bit"),
    **dict.fromkeys(("convnext", "convnextv2", "cvt", "regnet", "resnet"), "ConvNext"),
    "beit": "Beit",
    "data2vec-vision": "Beit",
    "clip": "CLIP",
    "metaclip_2": "CLIP",
    "deit": "DeiT",
    "efficientnet": "EfficientNet",
    "levit": "Levit",
    "mobilenet_v1": "MobileNetV1",
    "mobilenet_v2": "MobileNetV2",
    "mobilevit": "MobileViT",
    "mobilevitv2": "MobileViT",
    "poolformer": "PoolFormer",
    "pvt": "Pvt",
    "pvt_v2": "Pvt",
    "segformer": "Segformer",
    "siglip": "Siglip",
}
"""The image processor of a model type, for files that do not name theirs."""

FIELDS = {
    *("do_resize", "size", "default_to_square", "resample", "do_center_crop", "crop_size", "do_rescale"),
    *("rescale_factor", "do_normalize", "image_mean", "image_std", "do_convert_rgb"),
    *("image_processor_type", "feature_extractor_type"),
}
"""Fields that all families read."""

SPECIAL = {"crop_pct", "rescale_offset", "include_top", "do_flip_channel_order"}
"""Fields that some families read, as :data:`FAMILIES` shows; the others disregard them."""

NEUTRAL = {
    *("processor_class", "do_reduce_labels", "reduce_labels", "input_data_format", "device", "return_tensors"),
    *("disable_grouping", "image_seq_length", "use_fast", "model_input_names", "transformers_version", "_name_or_path"),
    *("_valid_processor_keys", "_processor_class", "name_or_path", "_commit_hash", "pad_size", "max_size"),
}
"""Fields that leave the pixels of a classifier's images alone."""

WARPED = 384
"""Side from which the processor of ConvNeXT resizes to a square and crops nothing."""

OTHERWISE = "say how images are prepared: --size, --resize, --crop, --mean, --std, --resample, --channels (preprocess=)"


def preprocess_from(config: Mapping[str, Any], model_type: str | None = None) -> Preprocess:
    """Read the settings of a ``preprocessor_config.json``.

    Rescaling, two normalisations and all are one: with pixels ``x`` in [0, 1], a rescale factor ``f`` and an offset
    ``o``, ``(255 f x - o - mean)/std = (x - (mean + o)/(255 f)) / (std/(255 f))``.
    """
    family = _family(config, model_type)
    own = _BASE | FAMILIES.get(family or "", _UNNAMED)
    given = {name: value for name, value in config.items() if value is not None}
    _refuse_unknown(given, FIELDS | NEUTRAL | (SPECIAL if family else set()))
    try:
        found = own | {name: value for name, value in given.items() if name in own or name not in SPECIAL}
        mean, std = _normalisation(found, family)
        return Preprocess(
            **_places(found, family, square="shortest_edge" not in _pair(own.get("size", 224))),
            resample=FILTERS[int(found["resample"])],
            mean=mean,
            std=std,
            channels="bgr" if found.get("do_flip_channel_order") else "rgb" if found.get("do_convert_rgb") else None,
        )
    except (TypeError, ValueError, KeyError, IndexError, AttributeError, ZeroDivisionError, OverflowError) as problem:
        raise InputError(
            "preprocessor_config.json cannot be used",
            expected="an image size, and numbers for image_mean and image_std",
            got=" ".join(f"{type(problem).__name__}: {problem}".split())[:200],
            do=f"correct the file, or {OTHERWISE}",
        ) from None


def _family(config: Mapping[str, Any], model_type: str | None) -> str | None:
    """Return the family that a file names, or else that of the model; refuse one that prepares images otherwise."""
    named = config.get("image_processor_type") or config.get("feature_extractor_type")
    if named is None:
        return MODELS.get(str(model_type))
    family = re.sub(r"(ImageProcessor(Fast|Pil)?|FeatureExtractor)$", "", str(named))
    if family not in FAMILIES:
        raise InputError(
            "preprocessor_config.json names an image processor that is not known here",
            expected=", ".join(f"{name}ImageProcessor" for name in FAMILIES),
            got=str(named)[:120],
            do=OTHERWISE,
        )
    return family


def _refuse_unknown(given: Mapping[str, Any], known: AbstractSet[str]) -> None:
    strange = {name: value for name, value in given.items() if name not in known and value is not False}
    if strange.get("data_format") == "channels_first":
        del strange["data_format"]
    if strange:
        name, value = next(iter(strange.items()))
        raise InputError(
            f"preprocessor_config.json asks for something that is not done here: {str(name)[:60]}",
            got=f"{name}: {value}"[:160],
            do=OTHERWISE,
        )


def _normalisation(found: Mapping[str, Any], family: str | None) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Fold rescaling, its offset and the normalisations into one mean and one deviation per channel."""
    factor, offset = 255.0, 0.0
    if found["do_rescale"]:
        factor, offset = 255 * float(found["rescale_factor"]), 1.0 if found.get("rescale_offset") else 0.0
    mean, std, again = [0.0], [1.0], 1
    if found["do_normalize"] and family != "MobileViT":
        mean, std = _list(found["image_mean"]), _list(found["image_std"])
        again = 2 if found.get("include_top") else 1
    elif found.get("include_top"):
        std = _list(found["image_std"])
    return tuple((m + offset) / factor for m in mean), tuple(s**again / factor for s in std)


def _places(found: Mapping[str, Any], family: str | None, *, square: bool) -> dict[str, Any]:
    """Return to what size images are resized and cropped."""
    crops = found.get("do_center_crop") and family != "Segformer"
    crop = {"crop": _box(_pair(found["crop_size"]))} if crops else {}
    if not found["do_resize"] or "size" not in found:
        return crop
    size = _pair(found["size"], square=bool(found.get("default_to_square", square)))
    if family == "ConvNext":
        edge = int(size["shortest_edge"])
        if edge >= WARPED:
            return {"size": (edge, edge)} | crop
        if crop:
            raise ValueError("do_center_crop, where crop_pct crops already")
        return {"resize": int(edge / float(found["crop_pct"])), "crop": (edge, edge)}
    if family == "PoolFormer":
        return _widened(size, 1 / float(found["crop_pct"])) | crop
    if family == "Levit" and "shortest_edge" in size:
        return {"resize": int(256 / 224 * size["shortest_edge"])} | crop
    if size.keys() == {"shortest_edge", "longest_edge"}:
        return {"resize": int(size["shortest_edge"]), "longest": int(size["longest_edge"])} | crop
    return ({"resize": int(size["shortest_edge"])} if size.keys() == {"shortest_edge"} else {"size": _box(size)}) | crop


def _widened(size: Mapping[str, Any], by: float) -> dict[str, Any]:
    """Resize to more than will be cropped; both sides of a square keep the shape of the image."""
    if "shortest_edge" in size or size["height"] == size["width"]:
        return {"resize": int(size.get("shortest_edge", size.get("height")) * by)}
    return {"size": (int(size["height"] * by), int(size["width"] * by))}


def _pair(size: Any, *, square: bool = True) -> dict[str, Any]:
    """Write a size of any form as a mapping, as transformers does."""
    if isinstance(size, Mapping):
        return dict(size)
    if isinstance(size, list | tuple):
        return {"height": size[0], "width": size[1]}
    return {"height": int(size), "width": int(size)} if square else {"shortest_edge": int(size)}


def _box(size: Mapping[str, Any]) -> tuple[int, int]:
    if size.keys() != {"height", "width"}:
        raise ValueError(f"a size with {', '.join(map(str, size))}")
    return int(size["height"]), int(size["width"])


def _list(values: Any) -> list[float]:
    return [float(value) for value in (values if isinstance(values, list | tuple) else [values])]
