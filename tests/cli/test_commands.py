"""The command line as a whole: help, version, lists, the demonstration, streams and start-up."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from typer.main import get_command

import sfra
from builders.cli import Files, Run
from sfra import data, unlearn
from sfra.attack.probes import proposals, scores
from sfra.attack.scale import KAPPA, SCALES
from sfra.attack.weight import FORGET_WEIGHTS
from sfra.auditing import findings
from sfra.auditing.rules import RULES
from sfra.auditing.verdicts import VERDICTS
from sfra.cli.app import app
from sfra.cli.command import ENDINGS, check_there
from sfra.cli.list import LISTS, names
from sfra.cli.options import completion
from sfra.core.errors import InputError
from sfra.models import backbones, recipes
from sfra.release import LOADERS


def python(*arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run Python in a fresh process."""
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        capture_output=True,
        text=True,
        encoding="utf-8",
        env=os.environ | environment,
        check=False,
    )


def test_nothing_heavy_is_imported_before_a_command_needs_it(tmp_path: Path) -> None:
    commands = [
        *("--help", "audit --help", "list", "audit head.npz --forget 1,,2", "audit nothing --forget 1"),
        *("audit nothing.pt --forget 1", "audit no/body --forget 1 --data ./nothing", "doctor nothing.onnx"),
        "unlearn nothing --data digits --forget 1 --method delete --out x",
    ]
    probe = (
        f"import os, sys; os.chdir({str(tmp_path)!r}); from sfra.cli import main; codes = []\n"
        f"for line in {commands}: codes.append(main(line.split()))\n"
        "print(codes, *({'torch', 'numpy', 'numba', 'scipy', 'transformers', 'rich'} & {*sys.modules}))"
    )
    assert python("-c", probe).stdout.splitlines()[-1] == f"{[0, 0, 0] + [2] * 6}"


def test_compiler_is_imported_only_where_something_is_computed(files: Files) -> None:
    probe = "import sys; from sfra.cli import main; code = main(sys.argv[1:]); print(code, 'numba' in sys.modules)"
    assert python("-c", probe, "audit", files.head, "--forget", 99).stdout == "2 False\n"


def test_path_that_leads_nowhere_is_refused_with_the_one_that_is_close(files: Files, run: Run) -> None:
    head, features = files.head.name, files.features.name
    assert f"do:       write {head}, if" in run("audit", "haed.npz", "--forget", 3).err
    ran = run("audit", head, "--forget", 3, "--data", f"./{features}s")
    assert (ran.code, ran.out) == (2, "")
    assert f"do:       write {features}, if" in ran.err
    Path("gone.npz").symlink_to("nowhere.npz")
    assert "do:       it is a link to nowhere.npz" in run("audit", "gone.npz", "--forget", 3).err


def test_names_on_the_hub_and_of_data_sets_are_not_taken_for_paths() -> None:
    check_there("owner/name.v2", None)
    check_there("digits", "owner/name", names=True)
    with pytest.raises(InputError, match="does not exist"):
        check_there("digits")


def test_every_ending_of_a_model_file_marks_a_path() -> None:
    assert {suffix for loader in LOADERS for suffix in loader.suffixes} <= {*ENDINGS}


def test_module_runs_like_the_command(run: Run) -> None:
    ran = python("-m", "sfra", "--version")
    assert (ran.returncode, ran.stdout) == (0, f"sfra {sfra.__version__}\n")
    assert run("-V").out == run("--version").out == ran.stdout


def test_help_lists_the_commands_and_the_exit_codes(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "100")
    ran = run("--help")
    assert ran.code == 0
    assert "audit Test whether a forgotten class can be brought back." in " ".join(ran.out.split())
    assert "Exit codes: 0 done, 1 a --fail-if gate failed, 2 something to fix" in ran.out
    for shown in (ran.out, run("bench", "--help").out):
        assert "..." not in shown.partition("\nCommands:\n")[2]


@pytest.mark.parametrize("usage", ["report [OPTIONS] [RESULTS…]", "bench pack [OPTIONS] PROTOCOL…"])
def test_usage_names_the_arguments_as_the_help_below_does(run: Run, usage: str) -> None:
    shown = run(*usage.partition(" [OPTIONS]")[0].split(), "--help").out
    assert shown.splitlines()[0] == f"Usage: sfra {usage}"
    assert not re.search(r"<\w|list\[", shown)
    for name in re.findall(r"[A-Z]{4,}", usage.replace("OPTIONS", "")):
        assert re.search(rf"^  {name}…?  ", shown, flags=re.MULTILINE)


def test_misspelt_command_or_option_is_refused_with_a_suggestion(run: Run) -> None:
    ran = run("audti")
    assert ran.code == 2
    assert "'audit'" in ran.err
    ran = run("audit", "head.npz", "--forgit", 3)
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.endswith("  got:      --forgit\n  do:       write --forget, if you mean that\n")
    assert "sfra audit -h" in run("audit", "head.npz", "--zzz").err


def every_command() -> dict[str, Any]:
    group: Any = get_command(app)
    inner = {f"{name} {key}": one for name, top in group.commands.items() for key, one in _inner(top).items()}
    return {name: one for name, one in group.commands.items() if not _inner(one)} | inner


def _inner(command: Any) -> dict[str, Any]:
    return getattr(command, "commands", {})


def test_short_options_mean_the_same_in_every_command(run: Run) -> None:
    short = {"--out": "-o", "--quiet": "-q"}
    for name, command in every_command().items():
        assert run(*name.split(), "-h").out == run(*name.split(), "--help").out
        for param in command.params:
            for long, letter in short.items():
                assert (long in param.opts) == (letter in param.opts), (name, param.opts)


def complete(line: str) -> list[str]:
    """Return what a shell offers at the end of a command line."""
    words = {"COMP_WORDS": line, "COMP_CWORD": str(len(line.split(" ")) - 1)}
    ran = python("-m", "sfra", _SFRA_COMPLETE="complete_bash", **words)
    assert ran.returncode == 0
    return ran.stdout.split()


@pytest.mark.parametrize(
    ("line", "offered"),
    [
        ("sfra au", ["audit"]),
        ("sfra list sca", ["scales"]),
        ("sfra audit ./mod", []),
    ],
)
def test_shell_completes_commands_options_and_names(line: str, offered: list[str]) -> None:
    assert complete(line) == offered


@pytest.mark.parametrize("kind", LISTS)
def test_every_list_of_names_can_be_completed(kind: str) -> None:
    offered = completion(f"A name (sfra list {kind}).")
    assert offered is not None
    assert offered("") == names(kind) != []
    assert "NUMBER" not in offered("")
    assert offered(names(kind)[0][:3])[0].startswith(names(kind)[0][:3])


def test_option_whose_help_names_no_list_is_completed_with_files() -> None:
    assert completion("Folder to keep the results in.") is None


@pytest.mark.parametrize(
    ("kind", "known"),
    [
        ("assignments", ("greedy", "optimal")),
        ("backbones", backbones.names()),
        ("datasets", data.datasets()),
        ("findings", findings.FINDINGS),
        ("methods", unlearn.names()),
        ("proposals", proposals.names()),
        ("recipes", recipes.names()),
        ("rules", RULES),
        ("scales", (*SCALES, "NUMBER")),
        ("scores", scores.names()),
        ("verdicts", VERDICTS),
        ("weights", FORGET_WEIGHTS),
    ],
)
def test_list_has_one_line_per_name_and_the_same_as_json(run: Run, kind: str, known: Any) -> None:
    lines = run("list", kind).out.splitlines()
    entries = json.loads(run("list", kind, "--json").out)
    assert [line.split()[0] for line in lines] == [entry["name"] for entry in entries] == [*known]
    assert [line.split(None, 1)[1] for line in lines] == [entry["description"] for entry in entries]
    assert all(len(entry["description"]) > 5 for entry in entries)
    assert kind != "recipes" or len({entry["description"] for entry in entries}) == len(entries)


def test_the_list_of_scales_names_the_constant(run: Run) -> None:
    assert f"median norm {KAPPA}:" in run("list", "scales").out


def test_list_of_lists_names_them_all_and_refuses_others(run: Run) -> None:
    assert [line.split()[0] for line in run("list").out.splitlines()] == [*LISTS]
    ran = run("list", "method")
    assert (ran.code, ran.out) == (2, "")
    assert ran.err.startswith("error: there is no list of method\n  expected: assignments, backbones")
    assert ran.err.endswith("  do:       write methods, if you mean that\n")


def test_reader_that_goes_away_causes_no_error(files: Files) -> None:
    script = f'"{sys.executable}" -m sfra list findings 2>err | true; echo "${{PIPESTATUS[0]}}"'
    ran = subprocess.run(["bash", "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout in ("0\n", "141\n")
    assert Path("err").read_text() == ""


def test_terminal_without_greek_letters_still_gets_its_result(files: Files) -> None:
    ran = python("-m", "sfra", *files.measured, PYTHONIOENCODING="ascii")
    plan = "auditing: 7 draws of probes, as many relearnings of 3 epochs: 3 of the model, 4 of hidden classes"
    assert (ran.returncode, ran.stderr) == (0, f"{plan}\n")
    assert "?RS    -" in ran.stdout


ROW = {
    "model": "delete",
    "story": "distilled",
    "retain_before": 0.95,
    "forget_before": 0.0,
    "retain_after": 0.94,
    "forget_after": 0.9,
    "rs": 0.94,
    "delta_rs": None,
    "verdict": "recovered",
}


@pytest.fixture
def demo(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Replace the demonstration, which takes minutes, and return what it was called with."""
    calls: list[dict[str, Any]] = []

    def run_demo(out: Path | None, **settings: Any) -> Any:
        calls.append({"out": out, **settings})
        settings["progress"]("making the model original", 0, 7)
        page = out / "report.html" if out == Path("kept") else None
        return SimpleNamespace(rows=[ROW], page=page, to_dict=lambda: {"schema": "sfra.demo/1", "rows": [ROW]})

    monkeypatch.setitem(sys.modules, "sfra.demo.story", SimpleNamespace(run_demo=run_demo))
    return calls


def test_demo_prints_a_table_and_where_its_page_is(files: Files, run: Run, demo: list[dict[str, Any]]) -> None:
    ran = run("demo", "--seed", 3, "--out", "kept")
    assert ran.code == 0
    assert (demo[0]["out"], demo[0]["seed"]) == (Path("kept"), 3)
    assert "delete 95.0 94.0 0.0 90.0 0.940 - recovered" in " ".join(ran.out.split())
    assert "\nWritten to kept.\nOpen kept/report.html in a browser.\n\nNext:\n  sfra explain recovered\n" in ran.out
    assert ran.err == "making the model original (1 of 7)\n"
    assert "\nIts page needs pip install 'sfra[report]'.\n" in run("demo", "--out", "bare").out


def test_demo_prints_json(files: Files, run: Run, demo: list[dict[str, Any]]) -> None:
    ran = run("demo", "--json", "--quiet")
    assert json.loads(ran.out) == {"schema": "sfra.demo/1", "rows": [ROW]}
    assert ran.err == ""
    assert demo[0]["out"] is None


def test_demo_refuses_a_folder_in_the_way_of_its_files(files: Files, run: Run, demo: list[dict[str, Any]]) -> None:
    Path("kept/report.html").mkdir(parents=True)
    ran = run("demo", "--out", "kept")
    assert ran.code == 2
    assert "kept/report.html" in ran.err
    assert demo == []
