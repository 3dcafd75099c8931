"""Kill -9 at random moments, and two runners on one store: every cell once, none after it was written."""

from __future__ import annotations

import subprocess
from collections import Counter
from pathlib import Path

import pytest

from builders.kills import contents, torment, toy_command, violations
from sfra.bench.engine.journal import read_journals
from sfra.bench.engine.store import Store

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are watched through /proc")


def test_a_run_killed_again_and_again_ends_with_the_results_of_an_undisturbed_one(tmp_path: Path) -> None:
    told = torment(toy_command("--sleep", "0.04"), tmp_path, kills=5, seed=3)
    assert told.problems == []
    assert told.kills == 5
    assert told.orphans == 0
    assert told.starts > told.cells * told.rounds, "some computations were really cut off"


def test_two_runners_at_the_same_time_compute_every_cell_once(tmp_path: Path) -> None:
    command = toy_command("--sleep", "0.03", "--size", "20")
    store = tmp_path / "shared"
    runners = [subprocess.Popen(command(store)) for _ in range(2)]
    assert [runner.wait() for runner in runners] == [0, 0]
    events = read_journals(store / "log")
    cells = len(contents(store))
    assert cells == 50
    starts = Counter(event["key"] for event in events if event["event"] == "start")
    assert (len(starts), set(starts.values())) == (cells, {1})
    assert violations(Store(store, read_only=True)) == []
    assert len({event["pid"] for event in events}) >= 3, "both runners have computed"


def test_one_runner_killed_leaves_the_other_to_finish(tmp_path: Path) -> None:
    command = toy_command("--sleep", "0.05", "--size", "14")
    store = tmp_path / "shared"
    doomed, other = (subprocess.Popen(command(store)) for _ in range(2))
    while len(read_journals(store / "log")) < 12:
        pass
    doomed.kill()
    doomed.wait()
    assert other.wait() == 0
    assert len(contents(store)) == 35
    assert violations(Store(store, read_only=True)) == []
