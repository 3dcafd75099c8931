"""What a user sees who types the name of a result: one line with its sizes, never a dump of tensors."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from PIL import Image
from torch import nn

from builders.audits import trace_of
from sfra.attack.path import Trajectory
from sfra.attack.probes import sample_probes
from sfra.core.batches import TensorData
from sfra.core.head import Head
from sfra.data import ArrayPixels, FeatureSet, ImageSet, ImageTensors, load_data
from sfra.models.backbones.checkpoint import Checkpoint
from sfra.unlearn.base import Record, Unlearned
from sfra.unlearn.quality import Quality
from sfra.unlearn.splits import Splits
from sfra.unlearn.task import View

LABELS = torch.arange(2000) % 7
IMAGES = torch.zeros(2000, 3, 8, 8)
NAMES = ("ant", "bee", "cat", "dog", "elk", "fox", "gnu", "hen")
NETWORK = nn.Sequential(nn.Flatten(), nn.Linear(192, 8))

DATA = TensorData(IMAGES, LABELS)
SAMPLES = ImageTensors(images=IMAGES.byte(), labels=LABELS, generator=torch.Generator())
VIEW = View.where(DATA, LABELS == 3)
CHECKPOINT = Checkpoint(model=NETWORK, backbone="small-mlp", classes=8, notes={"losses": [0.5] * 1000})
RECORD = Record(epoch=2, loss=0.5, quality=Quality(retain=0.9, forget=0.1, aus=0.8))

SHOWN: dict[str, object] = {
    "features with names": FeatureSet(features=torch.zeros(2000, 16), labels=LABELS, class_names=NAMES, source="x.npz"),
    "images in memory": ImageSet(pixels=ArrayPixels(IMAGES.numpy()), labels=LABELS),
    "probes": sample_probes(Head(torch.eye(4)), 3, n=100, m=10, threads=1),
    "a trajectory": Trajectory(
        weights=torch.zeros(101, 8, 16), biases=torch.zeros(101, 8), losses=torch.arange(101.0), kept=tuple(range(101))
    ),
    "a trace": trace_of([[8, 0], [6, 3]], [8, 4], (1,)),
    "samples": DATA,
    "both splits": Splits(train=SAMPLES, validation=None, classes=8, class_names=NAMES * 100),
    "a view": VIEW,
    "a checkpoint": CHECKPOINT,
    "an unlearned model": Unlearned(
        model=NETWORK, method="delete", settings={"epochs": 3}, epoch=2, history=(RECORD,) * 500
    ),
}


@pytest.mark.parametrize("case", SHOWN)
def test_a_result_is_shown_in_one_line_of_sizes(case: str) -> None:
    text = repr(SHOWN[case])
    assert re.fullmatch(rf"{type(SHOWN[case]).__name__}\(.*\d.*\)", text)
    assert len(text) < 180
    assert "tensor(" not in text


def test_the_sizes_are_those_of_the_content() -> None:
    assert repr(DATA) == "TensorData(2,000 samples of [3, 8, 8], labels 0 to 6)"
    assert repr(VIEW) == "View(286 of 2,000 samples, labels 3 to 3)"
    assert repr(CHECKPOINT) == "Checkpoint('small-mlp', 8 classes, 1,544 weights)"


def test_a_folder_of_images_is_shown_without_opening_them(tmp_path: Path) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    for i in range(30):
        Image.new("RGB", (4, 4)).save(tmp_path / "a" / f"{i}.png")
    images = load_data(tmp_path)
    for file in (tmp_path / "a").iterdir():
        file.write_bytes(b"")
    assert isinstance(images, ImageSet)
    assert repr(images) == f"ImageSet({images.source!r}: 30 images, 2 classes)"
    assert repr(images.pixels) == "FilePixels(30 images)"
