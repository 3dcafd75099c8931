"""``sfra unlearn``: settings, classes by name, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders.cli import Files, Run
from sfra.models.backbones import build
from sfra.models.backbones.checkpoint import load_model, save_model
from sfra.release import Preprocess

NAMES = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


@pytest.fixture
def original(files: Files) -> Path:
    """An untrained network with names for its classes: all that these tests need."""
    model = build("small-mlp", classes=10, seed=0)
    return save_model("original", model, backbone="small-mlp", classes=10, class_names=NAMES)


def unlearn(run: Run, *options: object) -> tuple[int, str, str]:
    command = ("unlearn", "original", "--data", "digits", "--method", "delete", "--out", "m", "--set", "epochs=2")
    ran = run(*command, *options)
    return ran.code, ran.out, ran.err


def test_classes_go_by_name_and_settings_by_type(original: Path, run: Run) -> None:
    settings = ("--set", "optimizer=adam", "--set", "freeze_batch_norm=true", "--set", "learning_rate=1e-4")
    code, out, err = unlearn(run, "--forget", "seven,2", *settings, "--seed", 3, "--json")
    facts = json.loads(out)
    assert code == 0
    assert (facts["schema"], facts["forget"], facts["method"], facts["seed"]) == (
        "sfra.unlearned/1",
        [2, 7],
        "delete",
        3,
    )
    chosen = facts["settings"]
    assert (chosen["optimizer"], chosen["freeze_batch_norm"], chosen["learning_rate"]) == ("adam", True, 1e-4)
    assert load_model("m").class_names == NAMES
    assert [record["epoch"] for record in facts["history"]] == [1, 2]
    assert "unlearning: 2 epochs" in err


def test_summary_ends_with_the_audit_to_try(original: Path, run: Run) -> None:
    code, out, _ = unlearn(run, "--forget", 7)
    assert code == 0
    assert out.startswith("Unlearned by delete, epoch ")
    assert "\nOn the validation split: retain " in out
    assert out.endswith(
        "\nWritten to m.\n\nNext:\n"
        "  sfra unlearn original --forget 7 --data digits --method retrained --out reference-7\n"
        "  sfra audit m --forget 7 --data digits --reference reference-7\n"
    )


def next_lines(out: str) -> list[str]:
    return out.partition("\nNext:\n")[2].splitlines()


def test_reference_that_lies_there_is_used(original: Path, run: Run) -> None:
    retrained = ("--method", "retrained", "--set", "learning_rate=0.1", "--out", "reference-1-3")
    _, out, _ = unlearn(run, "--forget", "3,1", *retrained)
    assert next_lines(out) == ["  sfra audit UNLEARNED --forget 1,3 --data digits --reference reference-1-3"]
    lines = next_lines(unlearn(run, "--forget", "3,1")[1])
    assert lines == ["  sfra audit m --forget 1,3 --data digits --reference reference-1-3"]


def test_reference_is_trained_by_the_recipe_of_the_original(files: Files, run: Run) -> None:
    model = build("small-mlp", classes=10, seed=0)
    notes = {"recipe": "digits-small-cnn"}
    save_model("original", model, backbone="small-mlp", classes=10, notes=notes)
    lines = next_lines(unlearn(run, "--forget", 7)[1])
    assert "--method retrained --recipe digits-small-cnn --out reference-7" in lines[0]
    own = unlearn(run, "--forget", 7, "--recipe", "digits-small-mlp")[1]
    assert "--method retrained --recipe digits-small-mlp --out reference-7" in next_lines(own)[0]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--forget", "7", "--set", "lr=1"), "expected: epochs, batch_size, learning_rate, optimizer"),
        (("--forget", "7", "--set", "momentum"), "--set NAME=VALUE"),
        (("--forget", "7", "--set", "momentum=" + "9" * 5000), "--set NAME=VALUE"),
        (("--forget", "7", "--set", "epochs=3"), "epochs is set twice"),
        (("--forget", "7", "--method", "bad-teachr"), "do:       write bad-teacher, if you mean that"),
        (("--forget", "7,-1"), "an index from 0 to 9 (the head has 10 outputs)\n  got:      -1"),
        (("--forget", "7", "--out", "original"), "the original would be replaced"),
    ],
)
def test_unlearn_refuses_bad_input_with_a_message(
    original: Path, run: Run, options: tuple[str, ...], message: str
) -> None:
    code, out, err = unlearn(run, *options)
    assert code == 2, err
    assert message in err
    assert out == ""
    assert not Path("m").exists()


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder, hidden ones too."""
    return {str(path): path.read_bytes() for path in sorted(folder.rglob("*")) if path.is_file()}


@pytest.mark.parametrize(
    ("before", "moment"),
    [
        ("nothing", "sfra.cli.progress.Lines.__call__"),
        ("an earlier model", "sfra.models.backbones.checkpoint.processor_config"),
    ],
)
def test_interrupted_run_leaves_everything_as_it_was_and_can_be_repeated(
    original: Path, run: Run, monkeypatch: pytest.MonkeyPatch, before: str, moment: str
) -> None:
    if before != "nothing":
        save_model("m", build("small-mlp", classes=10, seed=1), backbone="small-mlp", classes=10)
    save_model(
        "original",
        load_model("original").model,
        backbone="small-mlp",
        classes=10,
        preprocess=Preprocess(size=(8, 8), mean=(0.5,), std=(0.5,)),
    )
    kept = contents(Path())

    def interrupt(*told: object, **options: object) -> None:
        if told[1:3] in (("unlearning", 1), ()) or options:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(moment, interrupt)
        code, out, err = unlearn(run, "--forget", 7)
    assert (code, out) == (130, "")
    assert err.endswith("stopped: nothing was written to m; give the same command again\ninterrupted\n")
    assert contents(Path()) == kept
    assert unlearn(run, "--forget", 7)[0] == 0
    assert load_model("m").notes["kind"] == "unlearned"
    assert {path.name for path in Path().iterdir()} == {"m", "original"}


def test_unlearn_refuses_what_is_no_model_directory(files: Files, run: Run) -> None:
    code, _, err = unlearn(run, "--forget", 7)
    assert (code, "original" in err) == (2, True)
    ran = run("unlearn", files.state_dict, "--data", "digits", "--method", "delete", "--forget", 7, "--out", "m")
    assert ran.code == 2
    assert "weights.pt is not a model directory" in ran.err
    assert "make one with sfra train, or save_pretrained of transformers" in ran.err
