"""A preparation that is code of the user's own: a torchvision transform, an image processor, any function of images."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor

from sfra.core.errors import InputError, printable

LONGEST = 300
"""Letters of a description that are kept."""


class OwnTransform:
    """Call a function with images in whichever form it takes them: one by one as Pillow images, or as a batch.

    Transforms of torchvision and image processors of transformers take Pillow images, and are given the bytes that the
    files had. What does not take those, or does not make tensors of them, is given batches ``[n, c, h, w]`` in [0, 1].
    """

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self.function = function
        self._forms = {"as a Pillow image": self._one_by_one, "as a batch": self._at_once}

    def __str__(self) -> str:
        """Name the function, in one line that is the same in every process."""
        text = printable(" ".join(re.sub(r" at 0x[0-9a-fA-F]+", "", repr(self.function)).split()))
        return f"by {text if len(text) <= LONGEST else text[: LONGEST - 1] + '…'}"

    def __call__(self, images: Tensor) -> Tensor:
        """Prepare images ``[n, c, h, w]`` in [0, 1]; the form that served once serves from then on."""
        problems = []
        for name, form in self._forms.items():
            try:
                made = form(images)
            except Exception as problem:  # the user's own code raises whatever it likes
                problems.append(f"{name}: {type(problem).__name__}: {problem}")
            else:
                self._forms = {name: form}
                return made
        raise InputError(
            "the preprocess cannot prepare these images",
            expected="a function of a Pillow image, or of a batch [n, c, h, w] in 0 to 1, that returns tensors",
            got="; ".join(problems)[:600],
        )

    def _one_by_one(self, images: Tensor) -> Tensor:
        from PIL import Image

        pixels = (255 * images).round().to(torch.uint8).permute(0, 2, 3, 1).cpu().numpy()
        grey = images.shape[1] == 1
        made = [self.function(Image.fromarray(image[..., 0] if grey else image)) for image in pixels]
        return torch.stack([_tensor(one, single=True) for one in made]).to(images.device)

    def _at_once(self, images: Tensor) -> Tensor:
        made = _tensor(self.function(images), single=False)
        if len(made) != len(images):
            raise TypeError(f"{len(made)} results for {len(images)} images")
        return made


def _tensor(made: Any, *, single: bool) -> Tensor:
    """Take the tensor out of what a function returned."""
    if isinstance(made, Mapping):
        made = made["pixel_values"]
        made = made[0] if single and len(made) == 1 else made
    if not single and not isinstance(made, Tensor):
        raise TypeError(f"it returned a {type(made).__name__}")
    tensor = torch.as_tensor(made)
    if not tensor.is_floating_point():
        raise TypeError(f"it returned {tensor.dtype}, not floats")
    return tensor.float()
