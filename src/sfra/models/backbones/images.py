"""The images of a backbone: how they are prepared, and how a checkpoint says so."""

from __future__ import annotations

from collections.abc import Sequence

from sfra.core.errors import InputError
from sfra.release.architecture import find
from sfra.release.preprocess import Preprocess

BILINEAR = 2
"""Pillow's number for the interpolation that :class:`Preprocess` uses."""


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
    height, width = preprocess.size
    box = {"height": height, "width": width}
    # Of transformers' processors, the one for ViT resizes to a size; the one for CLIP resizes the edge and crops.
    place: dict[str, object] = {"image_processor_type": "ViTImageProcessor", "size": box}
    if preprocess.edge is not None:
        place = {
            "image_processor_type": "CLIPImageProcessor",
            "size": {"shortest_edge": preprocess.edge},
            "do_center_crop": True,
            "crop_size": box,
            "do_convert_rgb": channels == 3,
        }
    return {
        **place,
        "do_resize": True,
        "resample": BILINEAR,
        "do_rescale": True,
        "rescale_factor": 1 / 255,
        "do_normalize": True,
        "image_mean": list(_per_channel(preprocess.mean, channels)),
        "image_std": list(_per_channel(preprocess.std, channels)),
    }


def _per_channel(values: Sequence[float], channels: int) -> tuple[float, ...]:
    """Give every channel its own entry; transformers does not repeat a single one."""
    return tuple(map(float, values)) * (channels if len(values) == 1 else 1)
