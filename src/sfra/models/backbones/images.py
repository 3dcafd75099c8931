"""The images of a backbone: how they are prepared, and how a checkpoint says so."""

from __future__ import annotations

from collections.abc import Sequence

from sfra.core.errors import InputError
from sfra.release.architecture import find
from sfra.release.preprocess import Preprocess
from sfra.release.resample import FILTERS


def default_preprocess(
    name: str,
    image_shape: Sequence[int],
    *,
    mean: Sequence[float] = (0.0,),
    std: Sequence[float] = (1.0,),
) -> Preprocess:
    """Prepare images of a data set for a backbone: resized only where it cannot take them as they are.

    Args:
        name: The backbone.
        image_shape: Channels, height and width of the data set's images.
        mean: Subtracted from each channel, of values in [0, 1].
        std: Divides each channel after that.

    >>> default_preprocess("vit-b-16", (3, 32, 32)).size, default_preprocess("resnet18-small", (3, 64, 64)).size
    ((224, 224), (64, 64))
    """
    known = find(name)
    channels, height, width = image_shape
    if channels not in (1, known.shape[0]):
        raise InputError(
            f"{name} cannot take these images",
            expected=f"{known.shape[0]} channels, or 1 that is repeated",
            got=f"{channels} channels",
        )
    size = (height, width) if known.any_size else known.shape[1:]
    return Preprocess(size=size, mean=_per_channel(mean, known.shape[0]), std=_per_channel(std, known.shape[0]))


def processor_config(preprocess: Preprocess, *, channels: int) -> dict[str, object]:
    """Write a preprocessing down as ``preprocessor_config.json``, for us and for transformers' image processors."""
    if preprocess.channels not in (None, "rgb"):
        what = f"preprocessor_config.json cannot say that images are converted to {preprocess.channels}"
        raise InputError(what, expected="rgb, or none", do="convert the images themselves")
    # Of transformers' processors, the one for ViT resizes to a size; the one for CLIP resizes the edge and crops.
    straight = preprocess.size is not None and preprocess.crop is None
    place: dict[str, object] = {
        "image_processor_type": "ViTImageProcessor" if straight else "CLIPImageProcessor",
        "do_convert_rgb": preprocess.channels == "rgb",
        "do_resize": preprocess.size is not None or preprocess.resize is not None,
        "do_center_crop": preprocess.crop is not None,
    }
    if preprocess.size is not None:
        place["size"] = _box(preprocess.size)
    if preprocess.resize is not None:
        most = {} if preprocess.longest is None else {"longest_edge": preprocess.longest}
        place["size"] = {"shortest_edge": preprocess.resize, **most}
    if preprocess.crop is not None:
        place["crop_size"] = _box(preprocess.crop)
    return {
        **place,
        "resample": FILTERS.index(preprocess.resample),
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(_per_channel(preprocess.mean, channels)),
        "image_std": list(_per_channel(preprocess.std, channels)),
    }


def _box(size: tuple[int, int]) -> dict[str, int]:
    return {"height": size[0], "width": size[1]}


def _per_channel(values: Sequence[float], channels: int) -> tuple[float, ...]:
    """Give every channel its own entry; transformers does not repeat a single one."""
    return tuple(map(float, values)) * (channels if len(values) == 1 else 1)
