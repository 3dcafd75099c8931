"""Images are prepared as the model says or the caller does, for model, reference and control; the result says how."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from sfra.auditing.audit import audit
from sfra.auditing.config import AuditConfig
from sfra.auditing.inputs import open_inputs
from sfra.auditing.result import AuditReport
from sfra.auditing.stored import parse_result, read_result
from sfra.core.errors import InputError
from sfra.core.head import Head
from sfra.release import Preprocess, Release, load

QUICK: dict[str, Any] = {"n": 200, "m": 20, "epochs": 2, "self_controls": 0, "cache": False}
CLASSES = 4
DARK = Preprocess(size=(4, 4), resample="box", mean=(0.5,), std=(0.25,))


class Stripes(nn.Module):
    """Answers which of four rows is brightest, of 4 x 4 images with mean 0 and standard deviation 1."""

    def __init__(self, scale: float = 1.0) -> None:
        super().__init__()
        self.features = nn.Linear(16, CLASSES, bias=False)
        self.head = nn.Linear(CLASSES, CLASSES)
        with torch.no_grad():
            self.features.weight.copy_(scale * torch.eye(CLASSES).repeat_interleave(4, 1))
            self.head.weight.copy_(torch.eye(CLASSES))
            self.head.bias.zero_()

    def forward(self, images: Tensor) -> Tensor:
        bright: Tensor = (self.features(images.flatten(1)) - 4).clamp(min=0)  # what is not normalised is lost
        return self.head(bright)  # type: ignore[no-any-return]


def stripes(n: int = 80) -> tuple[Tensor, Tensor]:
    """Images of 8 x 8 bytes, a bright row pair in each."""
    labels = torch.arange(n) % CLASSES
    images = torch.randint(0, 60, (n, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    for image, label in zip(images, labels.tolist(), strict=True):
        image[0, 2 * label : 2 * label + 2] = 230
    return images, labels


def release(**changed: Any) -> Release:
    return replace(load(Stripes(), example=torch.zeros(2, 1, 4, 4)), **changed)


def run(model: Any = None, **given: Any) -> AuditReport:
    return audit(release() if model is None else model, 3, data=stripes(), **{**QUICK, **given})


def test_a_network_that_says_nothing_is_right_only_if_the_caller_says_how_images_are_prepared() -> None:
    with pytest.raises(InputError, match="cannot process these images"):
        run()
    report = run(preprocess=DARK)
    assert report.retain.before == 1.0
    assert run(preprocess=replace(DARK, mean=(0.0,), std=(1.0,))).retain.before == pytest.approx(1 / 3)
    assert run(preprocess=lambda batch: DARK(batch)).retain.before == 1.0


def test_the_result_says_what_was_done_and_reads_the_same(tmp_path: Path) -> None:
    report = run(preprocess=DARK)
    assert report.model.preprocess == DARK
    assert read_result(report.save(tmp_path)).model.preprocess == DARK
    assert "Images     resized to 4 x 4 (box), mean 0.5, std 0.25" in report.summary()
    own = run(preprocess=DARK.__call__)
    assert str(own.model.preprocess).startswith("by <bound method Preprocess.__call__")
    raw = audit(Stripes(), 3, data=(DARK(stripes()[0]), stripes()[1]), **QUICK)
    assert raw.model.preprocess == Preprocess()
    assert audit(Head(torch.eye(4)), 3, data=(torch.rand(80, 4), stripes()[1]), **QUICK).model.preprocess is None


def test_a_result_of_an_earlier_version_does_not_know() -> None:
    content = json.loads(run(preprocess=DARK).to_json())
    del content["model"]["preprocess"]
    assert parse_result(content, "old").model.preprocess is None


def test_a_reference_gets_its_images_as_the_model_does_unless_it_says_otherwise() -> None:
    silent, own = release(fingerprint="a"), release(fingerprint="b", preprocess=replace(DARK, resample="nearest"))
    original = release(fingerprint="c", silent=True)
    inputs = open_inputs(
        release(),
        3,
        AuditConfig(),
        lambda *_: None,
        preprocess=DARK,
        data=stripes(),
        reference=[replace(one, head=Head(0.9 * one.head.weight)) for one in (silent, own)],
        control=replace(original, head=Head(0.8 * original.head.weight)),
        **dict.fromkeys(
            ("reference_data", "control_data", "validation", "arch", "reference_arch", "key", "head_key"), None
        ),
        missing_row=False,
        cache=False,
    )
    prepared = [one.release.preprocess for one in (inputs.model, *inputs.references, inputs.control)]  # type: ignore
    assert prepared == [DARK, DARK, own.preprocess, DARK]


def test_a_preparation_without_images_is_refused() -> None:
    features = torch.rand(80, 4), stripes()[1]
    for model, data in ((Head(torch.eye(4)), features), (release(), features), (release(), None)):
        with pytest.raises(InputError, match=r"(?s)no images to prepare.*leave preprocess out"):
            audit(model, 3, data=data, preprocess=DARK, **QUICK)


def test_a_head_with_images_to_prepare_asks_for_the_whole_model() -> None:
    with pytest.raises(InputError, match="whole model"):
        audit(Head(torch.eye(4)), 3, data=stripes(), preprocess=DARK, **QUICK)


def test_a_directory_that_does_not_say_is_a_finding_until_the_caller_does() -> None:
    raw = audit(release(silent=True), 3, data=(DARK(stripes()[0]), stripes()[1]), **QUICK)
    assert "images-unprepared" in {one.code for one in raw.findings}
    said = run(release(silent=True), preprocess=DARK)
    assert "images-unprepared" not in {one.code for one in said.findings}
