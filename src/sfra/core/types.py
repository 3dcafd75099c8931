"""Shapes in signatures, kept in one place.

``C`` classes, ``d`` features (the width of the head's input), ``n`` samples, ``epochs`` points of a
trajectory (epoch 0 is the released head). The aliases are checked at run time during the tests only.
"""

from collections.abc import Callable

from jaxtyping import Float, Int
from torch import Tensor

Weight = Float[Tensor, "C d"]
"""Rows of a linear head, one per class."""

Bias = Float[Tensor, " C"]
"""Offsets of a linear head, one per class."""

Features = Float[Tensor, "n d"]
"""Inputs of the head, one row per sample."""

Labels = Int[Tensor, " n"]
"""Class indices, one per sample."""

Logits = Float[Tensor, "n C"]
"""Outputs of the head before the softmax."""

Curve = Float[Tensor, " epochs"]
"""A quantity per epoch of a trajectory."""

Progress = Callable[[str, int, int], None]
"""Told what is going on, how many parts of it are done, and of how many."""
