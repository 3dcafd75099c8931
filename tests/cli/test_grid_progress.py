"""How far a grid is: lines of a log, and a bar that keeps its figures on every terminal."""

from __future__ import annotations

import io
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from sfra.bench.engine.cell import Cell
from sfra.bench.engine.summary import Progress, estimate, seen_share
from sfra.cli import grid_progress
from sfra.cli.grid_progress import clock, sentence, showing_grid

Capture = pytest.CaptureFixture[str]
LONG = "validation features of negative-gradient-plus 23+25+38 (tiny-imagenet, resnet18-small, seed 0) – ünï"


def cell(label: str) -> Cell:
    return Cell(kind="train", version=1, settings={"label": label}, label=label)


def progress(event: str, label: str = "original", **facts: Any) -> Progress:
    running = facts.pop("running", (cell(label),))
    given = {"message": "", "step": None, "done": 3, "failed": 0, "left": 7, "eta": 95.0, **facts}
    return Progress(event=event, cell=cell(label), running=running, **given)


def lines(capsys: Capture, *events: Progress) -> list[str]:
    with showing_grid() as tell:
        assert tell is not None
        for event in events:
            tell(event)
    captured = capsys.readouterr()
    assert captured.out == ""
    return captured.err.splitlines()


def drawn(monkeypatch: pytest.MonkeyPatch, width: int, *events: Progress) -> str:
    """Draw a terminal of a width and return its last picture, with everything printed above it."""
    screen = Console(file=io.StringIO(), force_terminal=True, width=width, color_system=None, legacy_windows=False)
    monkeypatch.setattr("rich.console.Console", lambda **options: screen)
    bar = grid_progress._bar()
    terminal = grid_progress._Terminal(bar)
    with screen.capture() as captured:
        for event in events:
            terminal(event)
        screen.print(bar.get_renderable())
    return captured.get()


def test_a_quiet_run_is_told_nothing() -> None:
    with showing_grid(quiet=True) as tell:
        assert tell is None


def test_a_log_hears_of_the_first_cell_then_now_and_then_and_of_the_last(
    capsys: Capture, monkeypatch: pytest.MonkeyPatch
) -> None:
    times = iter([0.0, 1.0, 1.0, 2.0, 9.0, 9.0, 10.0, 10.0])
    monkeypatch.setattr(grid_progress, "time", SimpleNamespace(monotonic=lambda: next(times)))
    told = [progress("start"), *(progress("written", f"cell {n}", done=n, left=10 - n) for n in (1, 2, 3))]
    assert lines(capsys, *told, progress("written", "last", done=10, left=0, eta=0.0)) == [
        "1 of 10 cells, about 1:35 to go; last: cell 1",
        "3 of 10 cells, about 1:35 to go; last: cell 3",
        "10 of 10 cells, about 0:00 to go; last: last",
    ]


def test_failures_are_always_told_in_one_line_and_waiting_once(capsys: Capture) -> None:
    told = (
        progress("failed", "delete 3", message="raised: it went wrong\n  expected: better"),
        progress("again", "delete 7", message="killed by SIGKILL"),
        progress("waiting", "original"),
        progress("waiting", "original"),
    )
    assert lines(capsys, *told) == [
        "delete 3 failed: raised: it went wrong",
        "delete 7 crashed and will be tried again: killed by SIGKILL",
        "original is computed by another run",
    ]


def test_a_dumb_terminal_gets_lines(capsys: Capture, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "dumb")
    assert lines(capsys, progress("written", eta=None)) == ["3 of 10 cells, time to go not known yet; last: original"]


@pytest.mark.parametrize("width", [40, 80, 200])
def test_the_figures_stay_whole_however_narrow_the_terminal_and_long_the_label(
    monkeypatch: pytest.MonkeyPatch, width: int
) -> None:
    running = (cell("other"), cell(LONG))
    picture = drawn(monkeypatch, width, progress("start", LONG, running=running, done=35, left=23, eta=42.0))
    [line] = picture.splitlines()
    assert "35/58" in line
    assert "about 0:42 to go" in line
    assert len(line) <= width
    assert (LONG in line and "and 1 more" in line) == (width == 200)


def test_a_failure_is_printed_above_the_bar_and_counted_in_it(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = progress("failed", "[red]delete[/red] 3", message="raised: [bold]it went wrong", failed=1, running=())
    picture = drawn(monkeypatch, 100, failed)
    above, bar = picture.splitlines()
    assert above == "[red]delete[/red] 3 failed: raised: [bold]it went wrong"
    assert "about 1:35 to go, 1 failed" in bar


def test_brackets_in_a_label_are_text(monkeypatch: pytest.MonkeyPatch) -> None:
    assert "audit of delete 3 [score=energy]" in drawn(
        monkeypatch, 120, progress("start", "audit of delete 3 [score=energy]")
    )


def test_no_time_is_named_before_most_of_the_cells_are_of_a_known_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    to_do = {"train": 4, "features": 30, "audit": 16}
    early, later = {"train": 12.0}, {"train": 12.0, "features": 1.0}
    assert (seen_share(to_do, early), seen_share(to_do, later), seen_share({"train": 0}, {})) == (0.08, 0.68, 1.0)
    assert estimate(to_do, later) == 4 * 12.0 + 30 * 1.0 + 16 * 6.5
    for told in ({"eta": 600.0, "seen": 0.08}, {"eta": None}):
        picture = drawn(monkeypatch, 100, progress("start", **told))
        assert "3/10" in picture
        assert "to go" not in picture
    assert "about 1:18 to go" in drawn(monkeypatch, 100, progress("start", eta=78.0, seen=0.68))


def test_durations_and_sentences() -> None:
    assert [clock(seconds) for seconds in (0.4, 59.6, 3600.0)] == ["0:00", "1:00", "1:00:00"]
    assert sentence("failed", "a", "") == "a failed"
