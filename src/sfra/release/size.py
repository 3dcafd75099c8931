"""How large a network may become while it is built: about as large as the weights that are there to fill it."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from safetensors import safe_open
from torch import Tensor
from torch.nn.modules.module import (
    register_module_buffer_registration_hook,
    register_module_parameter_registration_hook,
)

from sfra.core.errors import InputError

ROOM = 4
"""transformers enters every weight twice, once as an outline and once filled; buffers come on top."""

SPARE_TENSORS, SPARE_NUMBERS = 1000, 2**24
"""What may come on top of that, as for a small model."""

LAYERS = re.compile(r"layers|depths?$|blocks")
"""Names of settings that say how many parts a network has."""


@contextmanager
def limited(config: Mapping[str, Any], shards: Sequence[Path]) -> Iterator[None]:
    """Refuse, while the network of a configuration is built, to make it much larger than its weights.

    A configuration of a stranger can ask for a million layers, or one of a billion features: they would be built, or
    filled with random numbers, before anything is compared with the weights.
    """
    shapes = [shape for shard in shards for shape in _shapes(shard)]
    tensors = ROOM * len(shapes) + SPARE_TENSORS
    numbers = ROOM * sum(map(math.prod, shapes)) + SPARE_NUMBERS
    _check_layers(config, tensors)
    made = [0, 0]

    def count(module: object, name: str, tensor: Tensor | None) -> None:
        made[0] += tensor is not None
        made[1] += 0 if tensor is None else tensor.numel()
        if made[0] > tensors or made[1] > numbers:
            raise _too_large(f"{len(shapes):,} weights of {sum(map(math.prod, shapes)):,} numbers", "many times more")

    handles = [register_module_parameter_registration_hook(count), register_module_buffer_registration_hook(count)]
    try:
        yield
    finally:
        for handle in handles:
            handle.remove()


def entries(config: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Yield every name with its value, however deeply nested; the entries of a list under the name of the list."""
    waiting: list[tuple[str, Any]] = list(config.items())
    while waiting:
        name, value = waiting.pop()
        yield name, value
        if isinstance(value, Mapping):
            waiting.extend(value.items())
        elif isinstance(value, list):
            waiting.extend((name, one) for one in value)


def _check_layers(config: Mapping[str, Any], most: int) -> None:
    """Refuse numbers of layers beyond any that the weights could fill; some are counted out before they are built."""
    for name, value in entries(config):
        if isinstance(value, int | float) and LAYERS.search(name) and value > most:
            raise _too_large(f"{name} of at most {most:,}", f"{value:,}")


def _too_large(expected: str, got: str) -> InputError:
    return InputError(
        "config.json describes a far larger network than the weights belong to",
        expected=expected,
        got=got,
        do="the two files do not belong together: copy the directory again",
    )


def _shapes(shard: Path) -> list[list[int]]:
    with safe_open(shard, framework="pt") as file:
        return [file.get_slice(name).get_shape() for name in file.keys()]  # noqa: SIM118 - not a mapping
