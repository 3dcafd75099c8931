"""Kill trainings while they write their state, and let two audits write to one folder: nothing may be lost or mixed.

    python benchmarks/kills.py                  # 15 kills of a training, ten pairs of audits: a few minutes

A training is killed at random moments after it has saved a state, and started again with the same command; at the end
the weights must be those of an undisturbed run, byte for byte. Two audits with different seeds write to one folder at
once: a report with its relearned head must remain, of one of the two. Exits with 1 if a promise was broken.
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

TRAIN = """
import sys
from sfra.models.training import train
train.train.__kwdefaults__["checkpoint_seconds"] = 0.0  # a state after every epoch
from sfra.cli import main
digits = ["--data", "digits", "--backbone", "small-cnn", "--epochs", "60"]
sys.exit(main(["train", *digits, "--quiet", "--out", sys.argv[1]]))
"""
AUDIT = """
import sys, time
from pathlib import Path
import torch
from sfra import Head, audit
seed, folder, times = int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3])
model = Head(torch.randn(10, 64, generator=torch.Generator().manual_seed(0)))
for turn in range(times):
    (folder / f"ready-{turn}-{seed}").touch()
    while len([*folder.glob(f"ready-{turn}-*")]) < 2:
        time.sleep(0.001)
    report = audit(model, 3, n=500, m=20, epochs=3, seed=seed)
    for _ in range(20):
        report.save(folder / f"out-{turn}")
"""
FILES = {"audit.json", "relearned_head.safetensors"}


def start(program: str, *arguments: object) -> subprocess.Popen[bytes]:
    """Start one of the programs above."""
    return subprocess.Popen([sys.executable, "-c", program, *map(str, arguments)])  # noqa: S603 - our own


def kill_trainings(folder: Path, kills: int, chance: random.Random) -> list[str]:
    """Kill a training again and again after it saved a state; return what is wrong with its end."""
    start(TRAIN, folder / "undisturbed").wait()
    expected = (folder / "undisturbed" / "model.safetensors").read_bytes()
    hits, rounds, problems = 0, 0, list[str]()
    while hits < kills:
        rounds += 1
        out = folder / f"round-{rounds}"
        hits += _round(out, kills - hits, chance)
        if (out / "model.safetensors").read_bytes() != expected:
            problems.append(f"round {rounds}: other weights than those of the undisturbed run")
        problems += [f"round {rounds}: left behind: {path.name}" for path in folder.glob(f"*{out.name}.*")]
    print(f"trainings  {hits} kills that hit a saved state, in {rounds} rounds; weights as undisturbed: {not problems}")
    return problems


def _round(out: Path, kills: int, chance: random.Random) -> int:
    """Start, kill and start again until a training ends by itself; return how many kills left a saved state."""
    state, hits = out.parent / f"{out.name}.resume", 0
    while True:
        before = state.stat().st_mtime_ns if state.exists() else 0
        process = start(TRAIN, out)
        while hits < kills and process.poll() is None:
            if state.exists() and state.stat().st_mtime_ns > before:
                time.sleep(chance.random() * 0.2)
                process.kill()
            time.sleep(0.001)
        if process.wait() == 0:
            return hits
        hits += state.exists()


def race_audits(folder: Path, times: int) -> list[str]:
    """Let two audits write to one folder at once, each twenty times, and read it all the while."""
    from sfra.auditing.stored import read_result
    from sfra.core.errors import InputError

    problems, reads = list[str](), 0
    writers = [start(AUDIT, seed, folder, times) for seed in (0, 1)]
    while any(writer.poll() is None for writer in writers):
        for audit in sorted(folder.glob("out-*/audit.json"))[-1:]:
            try:
                read_result(audit)
                reads += 1
            except InputError as problem:
                problems.append(f"{audit.parent.name}: {problem}")
        time.sleep(0.01)
    problems += [f"exit code {writer.returncode}" for writer in writers if writer.returncode]
    last = [read_result(folder / f"out-{turn}" / "audit.json").settings["seed"] for turn in range(times)]
    left = {path.name for path in folder.glob("out-*/*")}
    problems += [f"left behind: {sorted(left - FILES)}"] if left != FILES else []
    by = f"{last.count(0)} by the one, {last.count(1)} by the other"
    print(f"audits     {times} pairs into one folder, {reads} reads meanwhile; written last {by}", flush=True)
    return problems


def main(arguments: Sequence[str] | None = None) -> int:
    """Run both, report, and return the exit code."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kills", type=int, default=15)
    parser.add_argument("--pairs", type=int, default=10)
    parser.add_argument("--seed", type=int, default=0, help="of the moments")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="sfra-kills-") as folder:
        problems = race_audits(Path(folder), chosen.pairs) if chosen.pairs else []
        if chosen.kills:
            chance = random.Random(chosen.seed)  # noqa: S311 - moments, not secrets
            problems += kill_trainings(Path(folder), chosen.kills, chance)
    for problem in problems:
        print(f"VIOLATION  {problem}")
    print("all promises kept" if not problems else f"{len(problems)} violations")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
