"""Progress: a bar on a terminal, a few lines in a log, nothing when quiet."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
import threading
from typing import Any

import pytest
from rich.console import Console
from rich.progress import Progress as Bar

from builders.cli import Files
from sfra.bench.engine.cell import Cell
from sfra.bench.engine.summary import Progress
from sfra.cli import progress as progress_module
from sfra.cli.progress import GridBar, GridLines, Lines, StageBar, beginning, showing, showing_grid
from sfra.core.progress import PARTS, duration

Capture = pytest.CaptureFixture[str]
LONG = "validation features of negative-gradient-plus 23+25+38 (tiny-imagenet, resnet18-small, seed 0) – ünï"


def test_log_gets_a_line_when_a_stage_begins_or_begins_again(capsys: Capture) -> None:
    with showing() as tell:
        for stage, done in [("extracting", 100), ("extracting", 200), ("training", 1), ("training", 2)]:
            tell(stage, done, 2000)
        tell("training", 1, 1)
    assert capsys.readouterr().err == "extracting (101 of 2,000)\ntraining: 2,000 epochs\ntraining\n"
    assert beginning("resuming", 12, 40) == "resuming a run of 40 epochs"
    assert beginning("auditing other N and M", 5, 5) == "auditing other N and M (5 of 5)"


def test_log_gets_no_more_than_a_few_lines(capsys: Capture) -> None:
    tell = Lines(limit=3)
    for stage in range(50):
        tell(str(stage), 0, 1)
    assert capsys.readouterr().err == "0\n1\n2\n"


@pytest.mark.parametrize(
    ("stage", "total", "heard", "lines"),
    [
        (
            "training",
            100,
            {0.0: 0, 5.0: 5, 30.0: 20, 31.0: 40, 60.0: 50, 900.0: 90, 1000.0: 100},
            ["20 of 100, about 2 min left", "50 of 100, about 60 s left", "90 of 100, about 2 min left"],
        ),
        ("training", 100, {0.0: 80, 20.0: 90}, ["90 of 100, about 20 s left"]),
        (
            "auditing (drawing probes)",
            PARTS,
            {0.0: 0, 20.0: 5000, 40.0: 2000},
            ["50 %, about 20 s left", "20 %, about 3 min left"],
        ),
        (
            "auditing (relearning)",
            PARTS,
            {0.0: 0, 12.0: PARTS // 1000, 20.0: PARTS // 400, 40.0: PARTS // 200, 85.0: PARTS // 100},
            ["0 %, about 2 h 13 min left", "1 %, about 2 h 20 min left"],
        ),
    ],
    ids=["long", "resumed", "falling share", "no estimate at first, then a line a minute"],
)
def test_log_says_how_long_a_long_stage_still_takes(
    capsys: Capture, stage: str, total: int, heard: dict[float, int], lines: list[str]
) -> None:
    times = iter(heard)
    tell = Lines(clock=lambda: next(times))
    for done in heard.values():
        tell(stage, done, total)
    assert capsys.readouterr().err.splitlines() == [beginning(stage, 0, total), *(f"{stage}: {line}" for line in lines)]


def test_news_of_a_stage_begin_no_other_one_and_the_first_estimate_comes_after_ten_seconds(capsys: Capture) -> None:
    times = iter([1.0, 6.0, 11.0, 21.0, 31.0])
    tell = Lines(clock=lambda: next(times))
    for full, done in enumerate((10, 15, 20, 30, 150)):
        tell(f"auditing (drawing probes, {full} of 9 classes full)", done * PARTS // 900, PARTS)
    assert capsys.readouterr().err.splitlines() == [
        "auditing: drawing probes, 0 of 9 classes full",
        "auditing (drawing probes, 2 of 9 classes full): 2 %, about 15 min left",
        "auditing (drawing probes, 4 of 9 classes full): 16 %, about 3 min left",
    ]


def test_durations_are_read_at_a_glance() -> None:
    texts = {0.4: "0 s", 99.0: "99 s", 100.0: "2 min", 3599.0: "1 h 0 min", 9000.0: "2 h 30 min"}
    assert {seconds: duration(seconds) for seconds in texts} == texts


def test_quiet_shows_nothing(capsys: Capture) -> None:
    with showing(quiet=True) as tell:
        tell("relearning", 1, 3)
    with showing_grid(quiet=True) as hear:
        assert hear is None
    captured = capsys.readouterr()
    assert captured.out + captured.err == ""


def test_there_is_one_bar_at_a_time_and_it_follows_the_stage() -> None:
    bar = Bar(disable=True)
    tell = StageBar(bar)
    assert [task.description for task in bar.tasks] == ["loading"]
    tell("relearning", 2, 3)
    assert [(task.description, task.completed, task.total) for task in bar.tasks] == [("relearning", 2, 3)]
    tell("relearning", 1, 9)
    assert [(task.description, task.completed, task.total) for task in bar.tasks] == [("relearning", 1, 9)]


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
    assert json.loads(ran.stdout)["verdict"]
    assert b"loading" in seen
    assert b"\x1b[" in seen


# a grid


def cell(label: str) -> Cell:
    return Cell(kind="train", version=1, settings={"label": label}, label=label)


def cells(event: str, label: str = "original", **facts: Any) -> Progress:
    running = facts.pop("running", (cell(label),))
    given = {"message": "", "step": None, "done": 3, "failed": 0, "left": 7, "eta": 95.0, **facts}
    return Progress(event=event, cell=cell(label), running=running, **given)


def drawn(monkeypatch: pytest.MonkeyPatch, width: int, *events: Progress) -> str:
    """Draw a terminal of a width and return its last picture, with everything printed above it."""
    screen = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None, legacy_windows=False)
    monkeypatch.setattr("rich.console.Console", lambda **options: screen)
    bar = progress_module._bar()
    terminal = GridBar(bar)
    with screen.capture() as captured:
        for event in events:
            terminal(event)
        screen.print(bar.get_renderable())
    return captured.get()


def test_log_of_a_grid_names_the_first_cell_then_some_and_the_last(capsys: Capture) -> None:
    times = iter([1.0, 1.0, 2.0, 9.0, 9.0, 10.0, 10.0])
    tell = GridLines(clock=lambda: next(times))
    for n in (1, 2, 3):
        tell(cells("written", f"cell {n}", done=n, left=10 - n))
    tell(cells("written", "last", done=10, left=0, eta=None))
    assert capsys.readouterr().err.splitlines() == [
        "1 of 10 cells, about 95 s left; last: cell 1",
        "3 of 10 cells, about 95 s left; last: cell 3",
        "10 of 10 cells, time left not known yet; last: last",
    ]


def test_log_of_a_grid_tells_failures_in_one_line_and_waiting_once(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    with showing_grid() as tell:
        assert tell is not None
        tell(cells("failed", "delete 3", message="raised: it went wrong\n  expected: better"))
        tell(cells("again", "delete 7", message="killed by SIGKILL"))
        tell(cells("waiting"))
        tell(cells("waiting"))
    assert capsys.readouterr().err.splitlines() == [
        "delete 3 failed: raised: it went wrong",
        "delete 7 crashed and will be tried again: killed by SIGKILL",
        "original is computed by another run",
    ]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_figures_stay_whole_on_a_narrow_terminal(monkeypatch: pytest.MonkeyPatch, width: int) -> None:
    running = (cell("other"), cell(LONG))
    picture = drawn(monkeypatch, width, cells("start", LONG, running=running, done=35, left=23, eta=42.0))
    [line] = picture.splitlines()
    assert "35/58" in line
    assert "about 42 s left" in line
    assert len(line) <= width
    assert (LONG in line and "and 1 more" in line) == (width == 200)


def test_failure_is_printed_above_the_bar_as_text_and_counted_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = cells("failed", "[red]delete[/red] 3", message="raised: [bold]it went wrong", failed=1, running=())
    above, bar = drawn(monkeypatch, 100, failed).splitlines()
    assert above == "[red]delete[/red] 3 failed: raised: [bold]it went wrong"
    assert "about 95 s left, 1 failed" in bar


@pytest.mark.parametrize("facts", [{"eta": 600.0, "seen": 0.08}, {"eta": None}])
def test_no_time_is_named_before_most_cells_are_of_a_known_kind(
    monkeypatch: pytest.MonkeyPatch, facts: dict[str, Any]
) -> None:
    picture = drawn(monkeypatch, 100, cells("start", **facts))
    assert "3/10" in picture
    assert "left" not in picture
