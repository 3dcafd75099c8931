"""``sfra bench``: a small grid as a user meets it, with what goes wrong and how it goes on."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from builders.bench import in_this_process
from builders.cli import Files, Ran, Run
from sfra.cli import main

RECIPE = """
dataset = "digits"
backbone = "small-mlp"
[training]
epochs = 2
learning_rate = 0.1
batch_size = 64
[methods.delete]
epochs = 1
"""
PROTOCOL = """
name = "own"
extends = "digits-tiny"
recipe = "own-recipe.toml"
forget = [[3]]
methods = ["retrained", "delete"]
[audit]
n = 300
m = 20
epochs = 2
[pra]
supports = 1
[linear_probe]
epochs = 2
"""
MOODY = '''
import os
import time
from dataclasses import dataclass

from sfra.unlearn.delete import Delete


@dataclass(frozen=True, kw_only=True)
class Moody(Delete):
    """Do what the environment says."""

    epochs: int = 1

    def plan(self, task):
        if os.environ.get("MOOD") == "bad":
            raise RuntimeError("not today")
        while os.environ.get("MOOD") == "idle":
            time.sleep(0.05)
        return super().plan(task)
'''
GOALS = 1 + 3 * 3
"""The original; an audit, PRA and a linear probe of three models."""


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with protocols, a recipe, a method of the user's own, and a complete store."""
    folder = tmp_path_factory.mktemp("bench")
    (folder / "own-recipe.toml").write_text(RECIPE)
    (folder / "own.toml").write_text(PROTOCOL)
    moody = 'name = "moody"\nextends = "own.toml"\nmethods = ["retrained", "delete", "moody_method:Moody"]\n'
    (folder / "moody.toml").write_text(moody)
    (folder / "moody_method.py").write_text(MOODY)
    options = ("--store", str(folder / "store"), "--workers", "1", "--quiet")
    with in_this_process():
        assert main(["bench", "run", str(folder / "own.toml"), *options]) == 0
    return folder


@pytest.fixture
def own(made: Path, files: Files, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Those files in the working directory, to be changed at will; the method can be imported."""
    shutil.copytree(made, files.folder, dirs_exist_ok=True)
    monkeypatch.syspath_prepend(str(files.folder))
    monkeypatch.delitem(sys.modules, "moody_method", raising=False)
    with in_this_process():
        yield files.folder


def content(folder: Path) -> set[str]:
    return {path.relative_to(folder).as_posix() for path in folder.rglob("*")}


# a complete store


def test_second_run_computes_nothing_and_names_the_next_command(own: Path, run: Run) -> None:
    ran = run("bench", "run", "own.toml", "--store", "store")
    assert (ran.code, ran.out) == (0, f"{GOALS} of {GOALS} goals done\n")
    assert ran.err == "make the tables with: sfra bench report own.toml --store store\n"
    assert run("bench", "run", "own.toml", "--store", "store", "--quiet").out == ""


@pytest.mark.parametrize("command", ["run", "status", "retry"])
def test_json_is_one_object_on_stdout(own: Path, run: Run, command: str) -> None:
    ran = run("bench", command, "own.toml", "--store", "store", "--json")
    found = json.loads(ran.out)
    assert ran.code == 0
    assert found["schema"] == "sfra.bench-status/1"
    assert (found["complete"], found["goals"], found["done"], found["computed"]) == (True, GOALS, GOALS, 0)
    assert (found["failed"], found["blocked"], found["left"]) == ([], [], 0)


def test_status_writes_nothing_and_counts_a_part(own: Path, run: Run) -> None:
    before = content(own)
    ran = run("bench", "status", "own.toml", "--store", "store", "--only", "method=delete, what=audit")
    assert (ran.code, ran.out, ran.err) == (0, "1 of 1 goals done\n", "")
    assert content(own) == before


def test_report_prints_tables_and_keeps_all_of_them_if_asked(own: Path, run: Run) -> None:
    before = content(own)
    shown = run("bench", "report", "own.toml", "--store", "store")
    assert shown.code == 0
    assert "| DELETE" in shown.out
    assert "are not there" not in shown.out
    assert shown.err == "Nothing was written: pass --out DIR to keep all tables.\n"
    assert content(own) == before
    kept = run("bench", "report", "own.toml", "--store", "store", "--out", "new/report")
    assert (kept.code, kept.out, kept.err) == (0, shown.out, "Written to new/report.\n")
    told = run("bench", "report", "own.toml", "--store", "store", "--json")
    assert json.loads(told.out) == json.loads((own / "new/report/bench.json").read_text())
    quiet = run("bench", "report", "own.toml", "--store", "store", "--out", "again", "--quiet")
    assert (quiet.code, quiet.out, quiet.err) == (0, "", "")
    assert content(own / "again") == content(own / "new/report")


def test_complete_store_needs_neither_features_nor_data_nor_device(
    own: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("sfra.data.load_data", lambda *_, **__: pytest.fail("the data were asked for"))
    assert run("bench", "run", "own.toml", "--store", "store", "--device", "nowhere").code == 0
    shutil.rmtree(own / "store/cells/features")
    ran = run("bench", "status", "own.toml", "--store", "store")
    assert ran.out == f"{GOALS - 1} of {GOALS} goals done, 1 cell to compute\n"


# parts, failures, interruptions


def test_part_is_computed_alone_and_report_says_what_is_missing(own: Path, run: Run) -> None:
    options = ("--store", "new", "--only", "what=accuracy", "--workers", 1)
    ran = run("bench", "run", "own.toml", *options, "--json")
    found = json.loads(ran.out)
    assert (ran.code, found["complete"], found["goals"], found["computed"]) == (0, True, 1, 2)
    assert "1 of 2 cells, time left not known yet; last: original (digits, small-mlp, seed 0)" in ran.err
    status = run("bench", "status", "own.toml", "--store", "new")
    assert status.code == 0
    assert status.out.startswith(f"1 of {GOALS} goals done, ")
    report = run("bench", "report", "own.toml", "--store", "new")
    assert report.code == 0
    assert f"{GOALS - 1} results of the protocol are not there" in report.out


def test_failing_method_is_shown_everywhere_and_retried_when_the_cause_is_gone(
    own: Path, run: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    command = ("moody.toml", "--store", "store", "--workers", 1)
    monkeypatch.setenv("MOOD", "bad")
    ran = run("bench", "run", *command)
    assert ran.code == 1
    assert "moody_method:Moody 3 (digits, small-mlp, seed 0) failed: raised: RuntimeError: not today" in ran.err
    assert "once the cause is fixed, try again with: sfra bench retry moody.toml --store store" in ran.err
    assert ran.out.startswith(f"{GOALS} of {GOALS + 3} goals done, 1 failed, 6 blocked")

    status = run("bench", "status", *command[:3])
    assert status.code == 0
    line = next(i for i, text in enumerate(MOODY.splitlines(), 1) if "not today" in text)
    assert f"  raised: RuntimeError: not today\n  at {own / 'moody_method.py'}:{line} in plan\n  log: " in status.err
    log = Path(status.err.split("  log: ")[1].splitlines()[0])
    assert log.read_text().startswith("moody_method:Moody 3 (digits, small-mlp, seed 0)\n\nraised: RuntimeError: not")
    assert "Traceback (most recent call last)" in log.read_text()
    found = json.loads(run("bench", "status", *command[:3], "--json").out)
    assert [(each["kind"], each["reason"], each["attempts"]) for each in found["failed"]] == [("unlearn", "raised", 1)]
    assert {each["by"] for each in found["blocked"]} == {"moody_method:Moody 3 (digits, small-mlp, seed 0)"}

    report = run("bench", "report", *command[:3])
    assert report.code == 0
    assert "RuntimeError: not today" in report.out
    assert "3 results of the protocol are not there" in report.out

    monkeypatch.delenv("MOOD")
    again = run("bench", "run", *command, "--quiet")
    assert (again.code, again.out, again.err) == (1, "", "")  # a failure is kept until it is asked to go

    refused = run("bench", "retry", *command, "--device", "nowhere")
    assert refused.code == 2
    assert len(list((own / "store/failures").glob("*.json"))) == 1  # nothing was cleared for a run that cannot be
    retried = run("bench", "retry", *command)
    assert retried.code == 0
    assert "failed cells that will be tried again: 1" in retried.err
    assert retried.out.startswith(f"{GOALS + 3} of {GOALS + 3} goals done")
    assert "not there" not in (complete := run("bench", "report", *command[:3]).out)
    assert "moody" in complete
    assert list((own / "store/failures").iterdir()) == []


def test_a_method_that_was_edited_is_computed_again_and_the_others_are_not(own: Path, run: Run) -> None:
    text = (own / "moody.toml").read_text().replace("moody_method:Moody", "./moody_method.py:Moody")
    (own / "moody.toml").write_text(text)
    command = ("bench", "run", "moody.toml", "--store", "store", "--workers", 1, "--json")
    first = json.loads(run(*command).out)
    assert (first["complete"], first["computed"]) == (True, 1 + 3 + 3)  # the model, its features, three results
    (own / "moody_method.py").write_text(MOODY.replace("epochs: int = 1", "epochs: int = 1  # still"))
    assert not json.loads(run("bench", "status", *command[2:5], "--json").out)["complete"]
    assert json.loads(run(*command).out)["computed"] == 1 + 3 + 3
    (own / "moody_method.py").write_text(MOODY)
    assert json.loads(run(*command).out)["computed"] == 0  # the first results are still there


@pytest.mark.parametrize(
    ("only", "again", "others"),
    [
        ("method=delete,what=audit", 1, 0),
        ("method=retrained", 1 + 3 + 3, 2),  # the model, its features, three results; two audits compare with it
        ("what=accuracy", 1 + 1, 2 * (1 + 3 + 3)),  # the original, of which two of the three models were made
    ],
)
def test_rerun_computes_a_part_again_and_removes_what_was_made_of_it(
    own: Path, run: Run, only: str, again: int, others: int
) -> None:
    before = {path: path.stat().st_mtime_ns for path in own.glob("store/cells/*/*/result.json")}
    ran = run("bench", "rerun", "own.toml", "--store", "store", "--only", only, "--workers", 1)
    assert ran.code == 0
    assert f"cells that will be computed again: {again}\n" in ran.err
    assert (f"\n{others} other cells were made of them and removed: sfra bench run own" in ran.err) == bool(others)
    kept = [path for path, when in before.items() if path.exists() and path.stat().st_mtime_ns == when]
    assert len(kept) == len(before) - again - others
    assert run("bench", "run", "own.toml", "--store", "store", "--quiet", "--workers", 1).code == 0
    assert set(own.glob("store/cells/*/*/result.json")) == {*before}


@pytest.mark.usefixtures("interruptible")
def test_ctrl_c_leaves_a_store_that_goes_on_and_says_how(own: Path, run: Run) -> None:
    command = ("moody.toml", "--store", "store", "--workers", "1")
    program = [sys.executable, "-m", "sfra", "bench", "run", *command]
    paths = os.pathsep.join((str(own), *sys.path))
    environment = {**os.environ, "MOOD": "idle", "PYTHONPATH": paths}
    started = subprocess.Popen(program, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    until = time.monotonic() + 300  # on a busy machine the workers take their time to start
    while not (running := _running(run)) and time.monotonic() < until:
        time.sleep(0.1)
    started.send_signal(signal.SIGINT)
    out, err = started.communicate(timeout=300)
    assert running == ["moody_method:Moody 3 (digits, small-mlp, seed 0)"]
    assert (started.returncode, out) == (130, "")
    assert err.splitlines()[-2:] == [
        "stopped: what was done is kept; continue with: sfra bench run moody.toml --store store",
        "interrupted",
    ]
    assert _running(run) == []
    assert run("bench", "run", *command, "--quiet").code == 0


def _running(run: Run) -> list[str]:
    found = json.loads(run("bench", "status", "moody.toml", "--store", "store", "--json").out)
    assert not found["failed"]
    return list(found["running"])


# what is refused, before anything is computed or written


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ("forgte = [[3]]", "forgte"),
        ("forget = [[99]]", "an index from 0 to 9"),
        ('methods = ["no_such_module:Method"]', "no_such_module"),
        ("[audit]\nn = 10\nm = 20", "lower m to 5 or raise n to 40"),
    ],
)
def test_bench_refuses_a_wrong_protocol_at_once(own: Path, run: Run, changes: str, message: str) -> None:
    (own / "wrong.toml").write_text(f'name = "wrong"\nextends = "own.toml"\n{changes}\n')
    refused(run("bench", "run", "wrong.toml", "--store", "fresh"), message)
    assert not (own / "fresh").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("run", "digitz"), "do:       write digits, if you mean that"),
        (("run", "own.toml", "--only", "method=magic"), "expected: method of delete, masked, original, retrained"),
        (("run", "own.toml", "--executor", "slurm"), "local or ray"),
        (("run", "own.toml", "--device", "cpu,nowhere"), "nowhere"),
        (("run", "own.toml", "--workers", "0"), "--workers"),
        (("run", "own.toml", "--time-limit", "0"), "seconds above 0"),
        (("rerun", "own.toml"), "--only"),
        (("rerun", "own.toml", "--only", "method=delete"), "no benchmark store"),
        (("status", "own.toml"), "fresh"),
        (("report", "own.toml"), "sfra bench run"),
    ],
)
def test_bench_refuses_wrong_options_and_leaves_nothing(
    own: Path, run: Run, options: tuple[str, ...], message: str
) -> None:
    refused(run("bench", *options, "--store", "fresh"), message)
    assert not (own / "fresh").exists()


def refused(ran: Ran, message: str) -> None:
    assert (ran.code, ran.out) == (2, "")
    assert message in ran.err
    assert "Traceback" not in ran.err


def test_missing_data_set_is_one_message_before_any_work(own: Path, run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SFRA_DATA", str(own / "nothing"))
    monkeypatch.setenv("XDG_CACHE_HOME", str(own / "cache"))
    ran = run("bench", "run", "cifar10-resnet18", "--store", "fresh")
    assert ran.code == 2
    assert ran.err.count("error: ") == 1
    assert "there is no copy of cifar10 on this machine" in ran.err
    assert not (own / "fresh").exists()


@pytest.mark.parametrize(("command", "store"), [("run", "foreign"), ("retry", "file"), ("rerun", "foreign")])
def test_what_is_no_store_is_refused_and_left_alone(own: Path, run: Run, command: str, store: str) -> None:
    (own / "foreign").mkdir()
    for file in ("foreign/mine.txt", "file"):
        (own / file).write_text("mine")
    before = content(own)
    part = ("--only", "method=delete") if command == "rerun" else ()
    refused(run("bench", command, "own.toml", "--store", store, *part), store)
    assert content(own) == before


def test_results_are_packed_and_reported_from_another_store(own: Path, run: Run) -> None:
    packed = run("bench", "pack", "own.toml", "--store", "store", "--out", "r.tar.gz", "--json")
    facts = json.loads(packed.out)
    assert (packed.code, facts["missing"], facts["bytes"]) == (0, 0, (own / "r.tar.gz").stat().st_size)
    told = run("bench", "unpack", "r.tar.gz", "--store", "home", "--json")
    assert (told.code, json.loads(told.out)["new"]) == (0, facts["results"])
    here, there = (run("bench", "report", "own.toml", "--store", store).out for store in ("store", "home"))
    assert here == there
    assert "DELETE" in here


def test_wrong_or_missing_archive_is_refused(own: Path, run: Run) -> None:
    told = run("bench", "pack", "own.toml", "--store", "store", "--out", "results.zip")
    assert (told.code, "ending in .tar, .tar.gz, .tar.xz" in told.err) == (2, True)
    for name in ("none.tar.gz", "own.toml"):
        told = run("bench", "unpack", name)
        assert (told.code, name in told.err) == (2, True)
    assert not (own / "sfra-bench").exists()
