"""Progress: bars on a terminal, a few lines in a log, nothing when quiet."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading

import pytest
from rich.progress import Progress

from builders.cli import Files
from sfra.cli.progress import Bars, Lines, showing

Capture = pytest.CaptureFixture[str]


def test_a_log_gets_a_line_when_a_stage_begins_or_begins_again(capsys: Capture) -> None:
    with showing() as tell:
        for stage, done in [("extracting", 100), ("extracting", 200), ("relearning", 1), ("relearning", 2)]:
            tell(stage, done, 2000)
        tell("relearning", 1, 1)
    assert capsys.readouterr().err == "extracting (101 of 2,000)\nrelearning: 2,000 runs\nrelearning\n"


@pytest.mark.parametrize(
    ("told", "line"),
    [
        (("training", 0, 40), "training: 40 epochs"),
        (("unlearning", 0, 1), "unlearning"),
        (("resuming", 12, 40), "resuming a run of 40 epochs"),
        (("extracting features", 447, 447), "extracting features: 447 samples"),
        (("auditing delete", 1, 5), "auditing delete (2 of 5)"),
        (("auditing other N and M", 5, 5), "auditing other N and M (5 of 5)"),
    ],
)
def test_a_line_says_what_is_counted_or_which_step_of_how_many_begins(
    capsys: Capture, told: tuple[str, int, int], line: str
) -> None:
    Lines()(*told)
    assert capsys.readouterr().err == f"{line}\n"


def test_a_log_gets_no_more_than_a_few_lines(capsys: Capture) -> None:
    tell = Lines(limit=3)
    for stage in range(50):
        tell(str(stage), 0, 1)
    assert capsys.readouterr().err == "0\n1\n2\n"


def test_quiet_shows_nothing(capsys: Capture) -> None:
    with showing(quiet=True) as tell:
        tell("relearning", 1, 3)
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


def test_there_is_one_bar_at_a_time_and_it_follows_the_stage() -> None:
    progress = Progress(disable=True)
    tell = Bars(progress)
    assert [task.description for task in progress.tasks] == ["loading"]
    tell("relearning", 2, 3)
    assert [(task.description, task.completed, task.total) for task in progress.tasks] == [("relearning", 2, 3)]
    tell("relearning", 1, 9)
    assert [(task.description, task.completed, task.total) for task in progress.tasks] == [("relearning", 1, 9)]


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="there are no pseudo-terminals here")
def test_bars_go_to_the_terminal_and_leave_stdout_to_the_json(files: Files) -> None:
    ours, theirs = os.openpty()
    seen = bytearray()

    def read() -> None:
        try:
            while chunk := os.read(ours, 4096):
                seen.extend(chunk)
        except OSError:
            return  # the other end was closed

    reader = threading.Thread(target=read)
    reader.start()
    command = [sys.executable, "-m", "sfra", *map(str, files.measured), "--json"]
    ran = subprocess.run(
        command, stdout=subprocess.PIPE, stderr=theirs, env=os.environ | {"TERM": "xterm"}, check=False
    )
    os.close(theirs)
    reader.join()
    os.close(ours)
    assert ran.returncode == 0
    assert json.loads(ran.stdout)["schema"] == "sfra.audit/1"
    assert b"loading" in seen
    assert b"\x1b[" in seen
