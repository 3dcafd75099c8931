"""Progress in one line: what is written, how often, and how it ends."""

from __future__ import annotations

import io
import re
import sys
from types import ModuleType

import pytest
import torch

import sfra
from sfra.core.errors import InputError
from sfra.core.progress import Line


class Clock:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


def lines(stream: io.StringIO) -> list[str]:
    """What was written, each time the line began again."""
    return [text.rstrip(" ") for text in stream.getvalue().split("\r")[1:]]


def test_a_line_tells_stage_share_and_time_left_and_is_written_over() -> None:
    stream, clock = io.StringIO(), Clock()
    line = Line(stream, clock)
    for clock.now, done in ((0.0, 0), (3.0, 1), (9.0, 3)):
        line("relearning", done, 4)
    line("loading", 0, 1)
    clock.now = 200.0
    line.end()
    *told, last = lines(stream)
    assert told == [
        "░" * 20 + " relearning 0 of 4",
        "█" * 5 + "░" * 15 + " relearning 1 of 4, about 9 s left",
        "█" * 15 + "░" * 5 + " relearning 3 of 4, about 3 s left",
        "░" * 20 + " loading",
    ]
    assert last.split() == ["done", "in", "3", "min"]
    widths = [len(text.rstrip("\n")) for text in stream.getvalue().split("\r")[1:]]
    shown = [len(text.rstrip("\n")) for text in lines(stream)]
    assert all(wide >= before for wide, before in zip(widths[1:], shown, strict=False))


def test_steps_that_follow_closely_are_left_out_but_never_the_last() -> None:
    stream, clock = io.StringIO(), Clock()
    line = Line(stream, clock)
    for done in range(101):
        clock.now = done / 1000
        line("drawing", done, 100)
    assert [text.split(" ", 1)[1].split(",")[0] for text in lines(stream)] == ["drawing 0 of 100", "drawing 100 of 100"]


def test_a_stage_that_starts_again_is_timed_again() -> None:
    stream, clock = io.StringIO(), Clock()
    line = Line(stream, clock)
    for clock.now, done in ((0.0, 0), (100.0, 10), (101.0, 0), (102.0, 1)):
        line("relearning", done, 10)
    assert lines(stream)[-1].endswith("relearning 1 of 10, about 9 s left")


@pytest.mark.parametrize("notebook", [False, True])
def test_an_audit_shows_a_line_when_asked(
    notebook: bool, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if notebook:
        monkeypatch.setitem(sys.modules, "ipykernel", ModuleType("ipykernel"))
    else:
        monkeypatch.delitem(sys.modules, "ipykernel", raising=False)
    head = sfra.Head(weight=torch.eye(4))
    sfra.audit(head, 3, n=100, m=10, epochs=1)
    assert capsys.readouterr() == ("", "")
    sfra.audit(head, 3, n=100, m=10, epochs=1, progress=True)
    out, err = capsys.readouterr()
    shown, silent = (out, err) if notebook else (err, out)
    assert "auditing (3 draws of probes, as many relearnings of 1 epoch: 3 of the model) 0 %" in shown
    assert re.search(r"\rdone in \d+ s *\n$", shown)
    assert silent == ""


def test_an_audit_that_fails_leaves_the_line(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(InputError):
        sfra.audit("nowhere.npz", 3, progress=True)
    assert capsys.readouterr().err.endswith("\n")
