"""What numbers pictures are made of."""

from __future__ import annotations

from torch import Tensor

OVERSHOOT = 0.5
"""How far floats may lie outside 0 to 1: resizing with bicubic filters goes beyond the edges."""


def foreign_range(images: Tensor) -> str | None:
    """Return the range of floats that lie far outside 0 to 1; None if they may be pictures, as bytes are.

    >>> import torch
    >>> foreign_range(torch.tensor([0.0, 16.0])), foreign_range(torch.tensor([-0.1, 1.1]))
    ('0 to 16', None)
    """
    low, high = map(float, images.aminmax())
    far = images.is_floating_point() and (low < -OVERSHOOT or high > 1 + OVERSHOOT)
    return f"{low:.3g} to {high:.3g}" if far else None
