"""Messages for the user: in four parts, and safe to print whatever a file put into them."""

from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path

import pytest

from sfra.cli.command import DEFECT, FIXABLE, OF_THE_DISK, report, say
from sfra.core.errors import InputError, SfraError, meant, printable

HOSTILE = ["\x1b[2J", "\x1b]0;title\x07", "\x9b31m", "\r", "\x08", "\u202e", "\ud800", "\ufffe"]
"""Clear a screen, name a window, colour, overwrite a line, delete, turn the direction of writing, are no characters."""


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_in_a_message_acts_upon_a_terminal(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    error = InputError(f"no class {text}", expected=[text], got=text, do=f"look at {text}")
    for message in (str(error), error.what, printable(text)):
        assert all(letter.isprintable() or letter == "\n" for letter in message)
    say(f"failed: {text}")
    assert text not in capsys.readouterr().err


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("smal-cnn", "write small-cnn, if you mean that"),
        ("Small-C", "write small-cnn, if you mean that"),
        ("alexnet", None),
        (3, None),
    ],
)
def test_a_name_like_the_one_given_is_proposed_and_no_other(given: object, expected: str | None) -> None:
    assert meant(given, ["resnet18", "small-cnn", "swin-t"]) == expected


def test_letters_of_every_script_and_ends_of_lines_stay() -> None:
    assert printable("Δ κ 狗 ñ\nнет") == "Δ κ 狗 ñ\nнет"
    assert str(SfraError("what", got="a\nb")) == "what\n  got:      a\nb"


@pytest.mark.parametrize("code", OF_THE_DISK)
def test_trouble_with_a_file_is_for_the_user_to_fix(code: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert report(OSError(code, "so it is", "some/where")) == FIXABLE
    told = capsys.readouterr().err
    assert told.startswith("error: cannot use some/where\n  got:      so it is\n  do:")


def test_other_trouble_is_a_defect(capsys: pytest.CaptureFixture[str]) -> None:
    assert report(OSError(errno.EBADF, "bad")) == DEFECT
    assert report(ZeroDivisionError("oh")) == DEFECT
    assert "ZeroDivisionError: oh" in capsys.readouterr().err


def test_a_full_disk_behind_standard_output_is_said(tmp_path: Path) -> None:
    with Path("/dev/full").open("w") as full:
        ran = subprocess.run(
            [sys.executable, "-m", "sfra", "list", "findings", "--json"],
            stdout=full,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
            cwd=tmp_path,
        )
    assert ran.returncode == FIXABLE
    assert ran.stderr.startswith("error: cannot use")
