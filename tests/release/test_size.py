"""A configuration that asks for far more than the weights can fill is refused before it is built."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from builders.backbones import add_tiny, edit
from sfra.core.errors import InputError
from sfra.models.backbones import build
from sfra.release import load
from sfra.release.size import SPARE_NUMBERS, SPARE_TENSORS, limited

transformers = pytest.importorskip("transformers")


@pytest.mark.parametrize(
    ("name", "changes"),
    [
        ("tiny-vit", {"num_hidden_layers": 1_000_000}),
        ("tiny-vit", {"intermediate_size": 10**9}),
        ("tiny-vit", {"image_size": 100_000}),
        ("tiny-resnet", {"depths": [10**12, 10**12]}),
        ("tiny-resnet", {"num_channels": 10**8}),
    ],
)
def test_a_network_far_larger_than_its_weights_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str, changes: dict[str, object]
) -> None:
    add_tiny(monkeypatch)
    transformers.utils.logging.disable_progress_bar()
    build(name, classes=4, seed=0).save_pretrained(tmp_path / "tiny")  # type: ignore[operator]
    transformers.utils.logging.enable_progress_bar()
    edit(tmp_path / "tiny" / "config.json", **changes)
    with pytest.raises(InputError, match="far larger network than the weights belong to"):
        load(tmp_path / "tiny")


def test_what_is_built_is_counted_up_to_the_limit_and_no_longer(tmp_path: Path) -> None:
    file = tmp_path / "model.safetensors"
    save_file({"weight": torch.zeros(10, 10)}, file)
    with limited({}, [file]):
        for _ in range((4 + SPARE_TENSORS) // 2):
            nn.Linear(2, 2)  # two parameters
        with pytest.raises(InputError, match=r"1 weights of 100 numbers"):
            nn.Linear(2, 2)
    with limited({}, [file]), torch.device("meta"), pytest.raises(InputError, match="far larger"):
        nn.Linear(1, 400 + SPARE_NUMBERS + 1, bias=False)
    with torch.device("meta"):
        nn.Linear(1, 400 + SPARE_NUMBERS + 1, bias=False)


@pytest.mark.parametrize("nested", [{}, {"vision_config": {"num_hidden_layers": 1e30}}, {"depths": [3, 10**9]}])
def test_numbers_of_layers_are_found_wherever_they_stand(tmp_path: Path, nested: dict[str, object]) -> None:
    file = tmp_path / "model.safetensors"
    save_file({"weight": torch.zeros(2, 2)}, file)
    plain = {"num_hidden_layers": 12, "depths": [2, 2], "image_size": 10**9, "id2label": {"0": "ten blocks"}}
    refused = False
    try:
        with limited(json.loads(json.dumps(plain | nested)), [file]):
            pass
    except InputError:
        refused = True
    assert refused == bool(nested)
