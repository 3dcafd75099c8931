"""The fuzzer sees what it looks for, repeats itself, and finds nothing in a small slice of its inputs."""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from fuzzing.mutate import change_arrays, change_bytes, change_json

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"
pytestmark = pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="processes are watched through /proc")

TARGETS = """
import json, os, signal, subprocess, sys, time
from pathlib import Path
from fuzzing.outcome import Child, Limits

def say(code, text, stream=2):
    os.write(stream, text.encode())
    return code

TARGETS = {
    "ok": lambda _: say(0, '{"rs": 0.5}', 1),
    "refused": lambda _: say(2, "error: not a head"),
    "silent": lambda _: 2,
    "traceback": lambda _: [][0],
    "code": lambda _: 70,
    "hang": lambda _: time.sleep(60),
    "memory": lambda _: time.sleep(60 * len(bytearray(b"x") * 2**28)),
    "crash": lambda _: os.kill(os.getpid(), signal.SIGSEGV),
    "not-finite": lambda _: say(0, '{"rs": [1, NaN]}', 1),
    "canary": lambda _: Path("executed").touch() or 0,
    "program": lambda _: subprocess.run(["true"]).returncode,
    "elsewhere": lambda _: (Path("..") / "mine").write_text("x") and 0,
}
found = {}
for name, run in TARGETS.items():
    limits = Limits(seconds=1.0 if name == "hang" else 30.0, memory=2**27)
    child = Child(name, lambda place: ["x"], run, Path(sys.argv[1]).resolve() / name, limits)
    while (outcome := child.poll()) is None:
        time.sleep(0.01)
    found[name] = outcome.result
print(json.dumps(found))
"""


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    source = Path(__file__).parents[2] / "src"
    environment = {**os.environ, "PYTHONPATH": f"{BENCHMARKS}{os.pathsep}{source}"}
    return subprocess.run([sys.executable, *map(str, arguments)], env=environment, capture_output=True, text=True)


def test_every_defect_is_seen_and_nothing_else(tmp_path: Path) -> None:
    ran = run("-c", TARGETS, tmp_path)
    assert ran.returncode == 0, ran.stderr
    found = json.loads(ran.stdout)
    same = ("ok", "refused", "silent", "traceback", "hang", "memory", "crash", "not-finite")
    others = {"code": "traceback", "canary": "executed", "program": "executed", "elsewhere": "executed"}
    assert found == {name: name for name in same} | others


@pytest.mark.parametrize("seed", range(20))
def test_equal_seeds_change_alike_and_leave_the_whole_input_as_it_is(seed: int) -> None:
    arrays = {"weight": np.arange(12.0).reshape(3, 4), "labels": np.arange(3)}
    whole = {"a": [1, {"b": 2.5}], "c": "text"}
    changes: list[tuple[Callable[[Any, random.Random], object], object]] = [
        (change_bytes, b"some bytes"),
        (change_json, whole),
        (change_arrays, arrays),
    ]
    for change, value in changes:
        first, second = (repr(change(value, random.Random(seed))) for _ in range(2))  # noqa: S311
        assert first == second
    assert whole == {"a": [1, {"b": 2.5}], "c": "text"}
    np.testing.assert_array_equal(arrays["weight"], np.arange(12.0).reshape(3, 4))


def test_a_slice_of_the_inputs_shows_no_defect(tmp_path: Path) -> None:
    ran = run(BENCHMARKS / "fuzz.py", "--inputs", 54, "--seed", 7, "--out", tmp_path / "counts.csv")
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "7 of 7 bombs go off where they are opened without care" in ran.stdout
    rows = [line.split(",") for line in (tmp_path / "counts.csv").read_text().splitlines()]
    assert len(rows) == 2 + 18
    total = dict(zip(rows[0], rows[-1], strict=True))
    assert total["inputs"] == "54"
    assert int(total["ok"]) + int(total["refused"]) == 54
    assert int(total["ok"]) > 5
    assert int(total["refused"]) > 20
