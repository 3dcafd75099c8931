"""Options that say how images are prepared, the same in all commands, and what they make together."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Annotated

from sfra.cli.options import Count, Text, group
from sfra.core.errors import InputError

if TYPE_CHECKING:
    from sfra.release.preprocess import Preprocess

given = group("How images are prepared, instead of what the model says")

Size = Annotated[Text, given("N|HxW", "Height and width to resize to: 224, or 224x192.", default="their own size")]
Resize = Annotated[Count, given("N", "Shorter side to resize to, keeping the shape; instead of --size.")]
Crop = Annotated[Text, given("N|HxW", "Centre to cut out after that.", default="all of it")]
Mean = Annotated[Text, given("X,...", "Subtracted from each channel, of values in 0 to 1: 0.485,0.456,0.406.")]
Std = Annotated[Text, given("X,...", "Divides each channel after that: 0.229,0.224,0.225.")]
Resample = Annotated[Text, given("NAME", "nearest, bilinear, bicubic, lanczos, box or hamming.", default="bilinear")]
Channels = Annotated[Text, given("NAME", "rgb, bgr or grey: what images are converted to.", default="as they are")]


def chosen(
    *,
    size: str | None,
    resize: int | None,
    crop: str | None,
    mean: str | None,
    std: str | None,
    resample: str | None,
    channels: str | None,
) -> Preprocess | None:
    """Put the options together; None if none was given."""
    options = {"size": size, "resize": resize, "crop": crop, "mean": mean, "std": std}
    if all(value is None for value in (*options.values(), resample, channels)):
        return None
    from sfra.release.preprocess import Preprocess

    means, stds = _numbers("--mean", mean, 0.0), _numbers("--std", std, 1.0)
    _refuse_bytes(means, stds)
    return Preprocess(
        size=_sides("--size", size),
        resize=resize,
        crop=_sides("--crop", crop),
        mean=means,
        std=stds,
        resample=resample or "bilinear",
        channels="grey" if channels == "gray" else channels,
    )


def _sides(option: str, text: str | None) -> tuple[int, int] | None:
    """Read a height and a width, or one number for both.

    >>> _sides("--size", "224"), _sides("--size", "224x192")
    ((224, 224), (224, 192))
    """
    if text is None:
        return None
    found = re.fullmatch(r"\s*(\d{1,6})\s*(?:[x×,]\s*(\d{1,6}))?\s*", text)
    if found is None:
        raise InputError(f"{option} is not a size", expected="one number, or height and width: 224x192", got=text)
    return int(found[1]), int(found[2] or found[1])


def _numbers(option: str, text: str | None, usual: float) -> tuple[float, ...]:
    try:
        return (usual,) if text is None else tuple(float(part) for part in text.split(","))
    except ValueError:
        expected = "a number, or one for each channel with commas: 0.485,0.456,0.406"
        raise InputError(f"{option} is not a list of numbers", expected=expected, got=text) from None


def _refuse_bytes(mean: tuple[float, ...], std: tuple[float, ...]) -> None:
    """Refuse a mean of values in 0 to 255, and write it for values in 0 to 1."""
    if max(map(abs, mean)) > 1:
        scaled = (",".join(f"{value / 255:.6g}" for value in values) for values in (mean, std))
        raise InputError(
            "--mean is for values in 0 to 255",
            expected="mean and std of values in 0 to 1",
            got=",".join(f"{value:g}" for value in mean),
            do="--mean {} --std {}, if these are the same for values in 0 to 255".format(*scaled),
        )
