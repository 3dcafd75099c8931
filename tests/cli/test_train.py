"""``sfra train``: model directories, references, resumption, messages."""

from __future__ import annotations

import json
import shlex
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from builders.cli import Files, Run
from builders.data import write_folders
from sfra.cli.progress import Lines
from sfra.models.backbones.checkpoint import load_model

TRAIN = ("train", "--data", "digits", "--backbone", "small-mlp", "--epochs", "2")


def test_train_unlearn_and_audit_fit_together(files: Files, run: Run) -> None:
    original = run(*TRAIN, "--epochs", 6, "--out", "original")
    assert original.code == 0
    lines = original.out.splitlines()
    assert lines[0].startswith("Trained: small-mlp on digits, ")
    assert lines[1].startswith("On the validation split: accuracy ")
    assert lines[2:5] == ["Written to original.", "", "Next:"]
    reference = run(*shlex.split(lines[5])[1:])
    assert lines[5] == "  sfra train --data digits --backbone small-mlp --without 0 --epochs 6 --out reference-0"
    assert reference.out.startswith("Trained without class 0: small-mlp on digits, ")
    assert "forget 0.0 %" in reference.out
    unlearned = run(*shlex.split(lines[6])[1:], "--set", "learning_rate=0.02")
    assert (reference.code, unlearned.code) == (0, 0)
    following = unlearned.out.splitlines()[-1]
    assert following == "  sfra audit unlearned --forget 0 --data digits --reference reference-0"
    small = ("--n", 300, "--m", 30, "--epochs", 2, "--json")
    audited = run(*shlex.split(following)[1:], *small)
    assert audited.code == 0
    report = json.loads(audited.out)
    assert report["forget"]["before"] < 0.3
    assert report["delta_rs"] is not None


def test_classes_that_are_numbered_from_one_stay_what_they_are_called(files: Files, run: Run) -> None:
    images = torch.randint(0, 256, (48, 1, 8, 8), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    part = (images.numpy(), torch.arange(48).remainder(4).numpy())
    write_folders(files.folder / "stars", ["1", "2", "3", "4"], train=part, validation=part)
    settings = ("--backbone", "small-mlp", "--epochs", 1, "--learning-rate", 0.01)
    original = run("train", "--data", "stars", *settings, "--out", "original")
    assert "--without 1 " in original.out
    reference = run("train", "--data", "stars", *settings, "--without", 3, "--out", "reference-2")
    assert reference.out.startswith("Trained without class 2 (3): small-mlp on stars, ")
    assert "sfra audit UNLEARNED --forget 3 " in reference.out
    unlearned = run("unlearn", "original", "--data", "stars", "--forget", 3, "--method", "delete", "--out", "m")
    assert "sfra audit m --forget 3 " in unlearned.out
    assert load_model("m").notes["forget"] == [2]


def test_json_is_all_of_stdout_and_repeats_in_the_notes(files: Files, run: Run) -> None:
    ran = run(*TRAIN, "--without", "7,3", "--seed", 4, "--json", "--out", "new/reference")
    facts = json.loads(ran.out)
    assert ran.code == 0
    assert (facts.pop("schema"), facts.pop("out")) == ("sfra.reference/1", "new/reference")
    assert (facts["without"], facts["seed"], facts["training"]["epochs"]) == ([3, 7], 4, 2)
    assert load_model("new/reference").notes == facts
    assert "training: 2 epochs" in ran.err
    assert [path.name for path in Path("new").iterdir()] == ["reference"]


def test_options_win_over_the_recipe(files: Files, run: Run) -> None:
    options = ("--learning-rate", "0.03", "--batch-size", 100, "--compile", "--recipe", "digits-small-cnn")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(torch, "compile", lambda network: network)
        ran = run(*TRAIN, *options, "--json", "--quiet", "--out", "m")
    training = json.loads(ran.out)["training"]
    assert (training["learning_rate"], training["batch_size"], training["compile"]) == (0.03, 100, True)
    assert json.loads(ran.out)["recipe"] == "digits-small-cnn"
    assert ran.err == ""


def test_training_starts_at_the_pretrained_model(files: Files, run: Run) -> None:
    run(*TRAIN, "--out", "first", "--quiet")
    still = ("--epochs", 1, "--learning-rate", "1e-12", "--json")
    ran = run(*TRAIN, *still, "--pretrained", "first", "--out", "second")
    assert json.loads(ran.out)["pretrained"] == "first"
    first, second = (load_model(name).model.state_dict() for name in ("first", "second"))
    assert torch.allclose(first["encoder.1.weight"], second["encoder.1.weight"], atol=1e-6)
    assert not torch.allclose(first["classifier.weight"], second["classifier.weight"], atol=1e-2)


def test_interrupted_run_says_how_to_go_on_and_does(files: Files, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(self: Lines, stage: str, done: int, total: int) -> None:
        if (stage, done) == ("training", 3):
            raise KeyboardInterrupt

    command = (*TRAIN, "--epochs", 5, "--out", "m", "--json")
    with monkeypatch.context() as patch:
        patch.setattr("sfra.models.training.resume.time.monotonic", iter(range(0, 10**6, 60)).__next__)
        patch.setattr(Lines, "__call__", interrupt)
        stopped = run(*command)
    assert stopped.code == 130
    assert (
        stopped.err == "stopped: the run so far is in m.resume; give the same command again to continue\ninterrupted\n"
    )
    assert not Path("m").exists()
    resumed = run(*command)
    assert resumed.code == 0
    assert "resuming a run of 5 epochs" in resumed.err
    assert not Path("m.resume").exists()
    whole = run(*command[:-3], "--out", "whole", "--json")
    assert json.loads(resumed.out)["losses"] == json.loads(whole.out)["losses"]
    ended, undisturbed = (load_model(name).model.state_dict() for name in ("m", "whole"))
    assert all(torch.equal(value, undisturbed[name]) for name, value in ended.items())


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--backbone", "smal-mlp"), "do:       write small-mlp, if you mean that"),
        (("--without", "seven"), "seven"),
        (("--recipe", "digit-small-mlp"), "do:       write digits-small-mlp"),
        (("--device", "nowhere"), "nowhere"),
        (("--epochs", "0"), "epochs"),
        (("--seed", "-1"), "the seed is out of range\n  expected: 0 to 2^63 - 1\n  got:      -1"),
        (("--seed", "9" * 20), "the seed is out of range"),
    ],
)
def test_train_refuses_bad_input_with_one_message_about_it(
    files: Files, run: Run, options: tuple[str, str], message: str
) -> None:
    ran = run("train", "--data", "digits", "--backbone", "small-mlp", *options, "--out", "m", "--quiet")
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert "there is no recipe for" not in ran.err
    assert [*files.folder.iterdir()] == []


def test_without_a_recipe_epochs_and_learning_rate_are_needed(files: Files, run: Run) -> None:
    folder = files.folder / "images"
    (folder / "train" / "cat").mkdir(parents=True)
    Image.new("L", (8, 8)).save(folder / "train" / "cat" / "1.png")
    ran = run("train", "--data", folder, "--backbone", "small-mlp", "--out", "m", "--quiet")
    assert ran.code == 2
    assert "there is no recipe for small-mlp on" in ran.err
    assert "pass --recipe (sfra list recipes), or --epochs and --learning-rate" in ran.err


def test_train_refuses_a_folder_that_holds_something_else_before_the_work(
    files: Files, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    def never(**settings: Any) -> None:
        raise AssertionError("the work has begun")

    monkeypatch.setattr("sfra.unlearn.make.train_model", never)
    Path("full").mkdir()
    Path("full/mine.txt").write_text("mine")
    Path("file").write_text("mine")
    for out in ("full", "file"):
        ran = run(*TRAIN, "--out", out)
        assert ran.code == 2, ran.err
    assert Path("full/mine.txt").read_text() == Path("file").read_text() == "mine"
