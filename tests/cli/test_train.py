"""``sfra train``: model directories, references, resumption, messages."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from builders.cli import Files, run
from sfra.cli.progress import Lines, duration
from sfra.models.backbones.checkpoint import load_model

Capture = pytest.CaptureFixture[str]
TRAIN = ("train", "--data", "digits", "--backbone", "small-mlp", "--epochs", "2")


def test_train_unlearn_and_audit_fit_together(files: Files, capfd: Capture) -> None:
    original = run(capfd, *TRAIN, "--epochs", 6, "--out", "original")
    assert original.code == 0
    lines = original.out.splitlines()
    assert lines[0].startswith("Trained: small-mlp on digits, ")
    assert lines[1].startswith("On the validation split: accuracy ")
    assert lines[2:5] == ["Written to original.", "", "Next:"]
    reference = run(capfd, *shlex.split(lines[5])[1:])
    assert lines[5] == "  sfra train --data digits --backbone small-mlp --without 0 --epochs 6 --out reference"
    assert reference.out.startswith("Trained without class 0: small-mlp on digits, ")
    assert "forget 0.0 %" in reference.out
    unlearned = run(capfd, *shlex.split(lines[6])[1:], "--set", "learning_rate=0.02")
    assert (reference.code, unlearned.code) == (0, 0)
    following = unlearned.out.splitlines()[-1]
    assert following == "  sfra audit unlearned --forget 0 --data digits --reference reference"
    small = ("--n", 300, "--m", 30, "--epochs", 2, "--json")
    audited = run(capfd, *shlex.split(following)[1:], *small)
    assert audited.code == 0
    report = json.loads(audited.out)
    assert report["forget"]["before"] < 0.3
    assert report["delta_rs"] is not None


def test_json_is_all_there_is_on_stdout_and_repeats_in_the_notes(files: Files, capfd: Capture) -> None:
    ran = run(capfd, *TRAIN, "--without", "7,3", "--seed", 4, "--json", "--out", "new/reference")
    facts = json.loads(ran.out)
    assert ran.code == 0
    assert (facts.pop("schema"), facts.pop("out")) == ("sfra.reference/1", "new/reference")
    assert (facts["without"], facts["seed"], facts["training"]["epochs"]) == ([3, 7], 4, 2)
    assert load_model("new/reference").notes == facts
    assert "training: 2 epochs" in ran.err
    assert [path.name for path in Path("new").iterdir()] == ["reference"]


def test_options_win_over_the_recipe(files: Files, capfd: Capture) -> None:
    options = ("--learning-rate", "0.03", "--batch-size", 100, "--compile", "--recipe", "digits-small-cnn")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "compile", lambda network: network)
        ran = run(capfd, *TRAIN, *options, "--json", "--quiet", "--out", "m")
    training = json.loads(ran.out)["training"]
    assert (training["learning_rate"], training["batch_size"], training["compile"]) == (0.03, 100, True)
    assert json.loads(ran.out)["recipe"] == "digits-small-cnn"
    assert ran.err == ""


def test_a_pretrained_model_is_where_training_starts(files: Files, capfd: Capture) -> None:
    run(capfd, *TRAIN, "--out", "first", "--quiet")
    still = ("--epochs", 1, "--learning-rate", "1e-12", "--json")
    ran = run(capfd, *TRAIN, *still, "--pretrained", "first", "--out", "second")
    assert json.loads(ran.out)["pretrained"] == "first"
    first, second = (load_model(name).model.state_dict() for name in ("first", "second"))
    assert torch.allclose(first["encoder.1.weight"], second["encoder.1.weight"], atol=1e-6)
    assert not torch.allclose(first["classifier.weight"], second["classifier.weight"], atol=1e-2)


def test_an_interrupted_run_says_how_to_go_on_and_does(
    files: Files, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(self: Lines, stage: str, done: int, total: int) -> None:
        if (stage, done) == ("training", 3):
            raise KeyboardInterrupt

    command = (*TRAIN, "--epochs", 5, "--out", "m", "--json")
    with monkeypatch.context() as patch:
        patch.setattr("sfra.models.training.resume.time.monotonic", iter(range(0, 10**6, 60)).__next__)
        patch.setattr(Lines, "__call__", interrupt)
        stopped = run(capfd, *command)
    assert stopped.code == 130
    assert stopped.err == "stopped: the run so far is in m.resume; give the same command again to go on\ninterrupted\n"
    assert not Path("m").exists()
    resumed = run(capfd, *command)
    assert resumed.code == 0
    assert "resuming a run of 5 epochs" in resumed.err
    assert not Path("m.resume").exists()
    whole = run(capfd, *command[:-3], "--out", "whole", "--json")
    assert json.loads(resumed.out)["losses"] == json.loads(whole.out)["losses"]
    ended, undisturbed = (load_model(name).model.state_dict() for name in ("m", "whole"))
    assert all(torch.equal(value, undisturbed[name]) for name, value in ended.items())


def test_a_run_that_is_interrupted_at_once_kept_nothing(
    files: Files, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(**settings: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("sfra.unlearn.make.train_model", interrupt)
    ran = run(capfd, *TRAIN, "--out", "m")
    assert (ran.code, ran.err.splitlines()[0][:31]) == (130, "stopped: nothing was kept yet; ")


def test_the_unfinished_run_of_another_command_is_refused(files: Files, capfd: Capture) -> None:
    run(capfd, *TRAIN, "--out", "m", "--quiet")
    Path("m.resume").write_text("something else")
    ran = run(capfd, *TRAIN, "--out", "m", "--quiet")
    assert ran.code == 2
    assert "the unfinished training cannot be read" in ran.err
    assert "delete it to start anew" in ran.err


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--data", "digitz"), "there is no such data set"),
        (("--backbone", "small-net"), "small-net"),
        (("--without", "11"), "the classes to leave out do not fit the data"),
        (("--without", "seven"), "there is no class named 'seven'"),
        (("--recipe", "mine.toml"), "there is no such file"),
        (("--device", "nowhere"), "the device 'nowhere' cannot be used"),
        (("--epochs", "0"), "epochs is out of range"),
        (("--batch-size", "0"), "batch_size is out of range"),
    ],
)
def test_what_the_user_can_fix_ends_with_a_message_and_2(
    files: Files, capfd: Capture, options: tuple[str, str], message: str
) -> None:
    ran = run(capfd, *TRAIN, "--learning-rate", "0.1", *options, "--out", "m", "--quiet")
    assert ran.code == 2
    assert message in ran.err
    assert ran.out == ""
    assert [*files.folder.iterdir()] == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--backbone", "smal-mlp"), "there is no backbone 'smal-mlp'"),
        (("--backbone", "smal-mlp"), "do:       write small-mlp, if you mean that"),
        (("--backbone", "alexnet"), "do:       choose one of sfra list backbones"),
        (("--data", "digitz"), "there is no such data set"),
        (("--recipe", "digit-small-mlp"), "do:       write digits-small-mlp"),
        (("--recipe", "mine"), "do:       choose one of sfra list recipes"),
    ],
)
def test_a_misspelt_name_is_what_the_message_is_about_rather_than_its_missing_recipe(
    files: Files, capfd: Capture, options: tuple[str, str], message: str
) -> None:
    ran = run(capfd, "train", "--data", "digits", "--backbone", "small-mlp", *options, "--out", "m", "--quiet")
    assert ran.code == 2
    assert message in ran.err
    assert "there is no recipe for" not in ran.err


def test_without_a_recipe_the_length_and_the_rate_must_be_given(files: Files, capfd: Capture) -> None:
    folder = files.folder / "images"
    (folder / "train" / "cat").mkdir(parents=True)
    Image.new("L", (8, 8)).save(folder / "train" / "cat" / "1.png")
    ran = run(capfd, "train", "--data", folder, "--backbone", "small-mlp", "--out", "m", "--quiet")
    assert ran.code == 2
    assert "there is no recipe for small-mlp on" in ran.err
    assert "pass --recipe (sfra list recipes), or --epochs and --learning-rate" in ran.err


def test_a_place_that_holds_something_else_is_refused_before_the_work(
    files: Files, capfd: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(**settings: Any) -> None:
        raise AssertionError("the work has begun")

    monkeypatch.setattr("sfra.unlearn.make.train_model", never)
    Path("full").mkdir()
    Path("full/mine.txt").write_text("mine")
    Path("file").write_text("mine")
    for out in ("full", "file"):
        ran = run(capfd, *TRAIN, "--out", out)
        assert ran.code == 2, ran.err
    assert Path("full/mine.txt").read_text() == Path("file").read_text() == "mine"


def test_a_log_hears_how_long_a_long_stage_still_takes(capsys: Capture) -> None:
    times = iter([0.0, 5.0, 30.0, 31.0, 60.0, 900.0, 1000.0])
    tell = Lines(clock=lambda: next(times))
    for done in (0, 5, 20, 40, 50, 90, 100):
        tell("training", done, 100)
    assert capsys.readouterr().err.splitlines() == [
        "training: 100 epochs",
        "training: 20 of 100, 2 min left",
        "training: 50 of 100, 60 s left",
        "training: 90 of 100, 2 min left",
    ]


def test_the_time_left_does_not_count_what_an_earlier_run_did(capsys: Capture) -> None:
    times = iter([0.0, 20.0])
    tell = Lines(clock=lambda: next(times))
    tell("training", 80, 100)
    tell("training", 90, 100)
    assert capsys.readouterr().err.splitlines()[-1] == "training: 90 of 100, 20 s left"


@pytest.mark.parametrize(
    ("seconds", "text"), [(0.4, "0 s"), (99.0, "99 s"), (100.0, "2 min"), (3599.0, "1 h 0 min"), (9000.0, "2 h 30 min")]
)
def test_durations_are_read_at_a_glance(seconds: float, text: str) -> None:
    assert duration(seconds) == text
