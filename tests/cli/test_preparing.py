"""Options that say how images are prepared: of an audit, and of the doctor."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from builders.cli import SMALL, Files, Run
from sfra.auditing.stored import parse_result
from sfra.cli.preparing import chosen
from sfra.core.errors import InputError
from sfra.release.preprocess import Preprocess
from sfra.report.page.repeat import command

ALL = ("--size", "8x8", "--mean", "0.3", "--std", "0.4", "--resample", "bicubic", "--channels", "grey")
WHOLE = Preprocess(size=(8, 8), mean=(0.3,), std=(0.4,), resample="bicubic", channels="grey")
NONE: dict[str, Any] = dict.fromkeys(("size", "resize", "crop", "mean", "std", "resample", "channels"))


def audited(files: Files, run: Run, *options: str) -> dict[str, Any]:
    arguments = ("audit", files.state_dict, "--arch", "small-mlp", "--forget", 7, "--data", "digits", *SMALL)
    content: dict[str, Any] = json.loads(run(*arguments, *options, "--no-cache", "--json").out)
    return content


def test_options_change_what_the_network_gets_and_stand_in_the_result(files: Files, run: Run) -> None:
    plain, prepared = audited(files, run), audited(files, run, *ALL)
    assert parse_result(plain, "plain").model.preprocess == Preprocess()
    assert parse_result(prepared, "prepared").model.preprocess == WHOLE
    assert plain["retain"] != prepared["retain"]


def test_the_command_that_repeats_an_audit_prepares_images_alike(files: Files, run: Run) -> None:
    repeated = command(parse_result(audited(files, run, *ALL), "prepared")).replace("\\\n", "")
    assert " ".join(ALL) in " ".join(repeated.split())


def test_the_doctor_takes_the_same_options_and_hands_them_on(files: Files, run: Run) -> None:
    arguments = ("doctor", files.state_dict, "--arch", "small-mlp", "--data", "digits", *ALL)
    found = json.loads(run(*arguments, "--json").out)
    assert found["preprocess"]["mean"] == [0.3]
    assert " ".join(ALL) in found["audit"]


def test_next_steps_keep_the_options(files: Files, run: Run) -> None:
    arguments = ("audit", files.state_dict, "--arch", "small-mlp", "--forget", 7, "--data", "digits", *SMALL)
    shown = run(*arguments, "--mean", "0.5", "--no-cache").out
    assert "Images     mean 0.5, std 1" in shown
    assert "sfra doctor" in shown
    assert "--arch small-mlp --mean 0.5" in shown


def test_a_directory_without_its_file_is_told_of(files: Files, run: Run, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers")
    config = transformers.ViTConfig(
        hidden_size=16,
        num_hidden_layers=1,
        num_attention_heads=2,
        intermediate_size=16,
        image_size=8,
        patch_size=4,
        num_channels=1,
        num_labels=10,
    )
    transformers.ViTForImageClassification(config).save_pretrained(tmp_path / "vit")
    findings = [
        {one["code"] for one in json.loads(run(*arguments, "--json").out)["data"]["findings"]}
        for arguments in (
            ("doctor", tmp_path / "vit", "--data", "digits"),
            ("doctor", tmp_path / "vit", "--data", "digits", "--mean", "0", "--std", "1"),
        )
    ]
    assert [("images-unprepared" in codes) for codes in findings] == [True, False]


def test_sizes_and_numbers_are_read_in_every_usual_form() -> None:
    assert chosen(**NONE) is None
    assert chosen(**{**NONE, "size": "224"}) == Preprocess(size=(224, 224))
    assert chosen(**{**NONE, "resize": 256, "crop": "224,192"}) == Preprocess(resize=256, crop=(224, 192))
    numbers = {"mean": "0.5, 0.4,0.3", "std": "0.2"}
    assert chosen(**{**NONE, **numbers, "channels": "gray"}) == Preprocess(
        mean=(0.5, 0.4, 0.3), std=(0.2,), channels="grey"
    )


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"size": "big"}, r"--size is not a size"),
        ({"size": "8", "resize": 9}, r"image size makes no sense"),
        ({"mean": "a,b"}, r"--mean is not a list of numbers"),
        ({"std": "0"}, r"normalisation makes no sense"),
        ({"resample": "sharp"}, r"(?s)no resample 'sharp'.*bicubic"),
        ({"channels": "yuv"}, r"(?s)no channels 'yuv'.*rgb, bgr, grey"),
        ({"mean": "127.5", "std": "127.5"}, r"(?s)values in 0 to 255.*--mean 0\.5 --std 0\.5,"),
    ],
)
def test_what_makes_no_sense_is_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        chosen(**{**NONE, **options})


def test_a_head_alone_takes_no_preparation(files: Files, run: Run) -> None:
    ended = run("audit", files.head, "--forget", 3, "--data", files.features, "--mean", "0.5")
    assert ended.code == 2
    assert "there are no images to prepare" in ended.err
