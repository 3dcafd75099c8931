"""The documents: links lead somewhere, and every command line that they show can be typed."""

from __future__ import annotations

import re
import shlex
import tomllib
from pathlib import Path

import pytest
import typer
from typer.main import get_command

from sfra.auditing.verdicts import VERDICTS
from sfra.bench.plan import plan
from sfra.bench.protocol import Ablation, Protocol, load_protocol
from sfra.cli.app import app

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
LINK = re.compile(r"!?\[[^\]]*\]\(([^)\s]+)\)")


def relative_links(page: Path) -> list[str]:
    found = [link.split("#")[0] for link in LINK.findall(page.read_text(encoding="utf-8"))]
    return [link for link in found if link and not re.match(r"[a-z]+:", link)]


def commands(text: str) -> list[str]:
    """Return the lines that begin with ``sfra`` in blocks of code, and such pieces of code in sentences."""
    joined = re.sub(r"\\\n\s*", " ", text)
    blocks = re.findall(r"^(?: {4,}|\$ )(sfra .*)$", joined, flags=re.MULTILINE)
    fenced = [
        line.strip()
        for block in re.findall(r"^```(?:sh|bash|console|text)?\n(.*?)^```", joined, flags=re.MULTILINE | re.DOTALL)
        for line in block.splitlines()
        if line.strip().startswith("sfra ")
    ]
    inline = re.findall(r"(?<!`)`(sfra [^`]+)`", text)
    return [*dict.fromkeys(blocks + fenced + inline)]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_relative_link_leads_to_a_file(page: Path) -> None:
    missing = [link for link in relative_links(page) if not (page.parent / link).exists()]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_link_to_a_heading_leads_to_one(page: Path) -> None:
    for link in LINK.findall(page.read_text(encoding="utf-8")):
        path, _, anchor = link.partition("#")
        if anchor and not re.match(r"[a-z]+:", link):
            target = page.parent / path if path else page
            headings = re.findall(r"^#+ (.*)$", target.read_text(encoding="utf-8"), flags=re.MULTILINE)
            slugs = {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}
            assert anchor in slugs, link


def problem(line: str) -> str | None:
    """Say what is wrong with a command line, without running it."""
    line = re.sub(r"\s{3,}.*$|\s+#.*$|\s*(?:\\?\||>|2>).*$", "", re.sub(r'"[^"]*"', "QUOTED", line))
    words = shlex.split(line)[1:]
    group = get_command(app)
    known: dict[str, typer.core.TyperCommand] = group.commands  # type: ignore[attr-defined]
    if words and words[0].startswith("--"):
        own = {name for parameter in group.params for name in parameter.opts} | {"--help"}
        return None if words[0] in own else f"no option {words[0]}"
    if not words or words[0] == "COMMAND":
        return None
    if words[0] not in known:
        return f"no command {words[0]}"
    command = known[words[0]]
    if hasattr(command, "commands"):
        named = words[1].split("|") if len(words) > 1 else []
        unknown = [name for name in named if name not in command.commands]
        if unknown or len(named) != 1:
            return f"no command {words[0]} {unknown[0]}" if unknown else None
        command = command.commands[named[0]]
    options = {name for parameter in command.params for name in parameter.opts} | {"--help"}
    asked = [word.split("=")[0] for word in words if word.startswith("--")]
    return next((f"no option {name}" for name in asked if name not in options), None)


def test_the_check_of_command_lines_would_notice_a_mistake() -> None:
    page = "Use `sfra adit x`.\n\n    sfra audit x \\\n        --forget 1\n\n```sh\nsfra demo --out x\n```\n"
    assert commands(page) == ["sfra audit x  --forget 1", "sfra demo --out x", "sfra adit x"]
    assert problem("sfra adit x") == "no command adit"
    assert problem("sfra audit head.npz --forgot 3") == "no option --forgot"
    assert problem("sfra bench rum digits") == "no command bench rum"
    assert problem("sfra bench run digits --stroe x") == "no option --stroe"
    assert problem('sfra audit head.npz --forget 3 --fail-if "rs>0.5" --json > audit.json') is None


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_command_line_that_is_shown_can_be_typed(page: Path) -> None:
    shown = commands(page.read_text(encoding="utf-8"))
    assert {line: problem(line) for line in shown if problem(line)} == {}


def test_every_option_that_the_documents_name_exists() -> None:
    group = get_command(app)
    known = {name for parameter in group.params for name in parameter.opts}
    top = [*group.commands.values()]  # type: ignore[attr-defined]
    for command in [*top, *(inner for one in top for inner in getattr(one, "commands", {}).values())]:
        known |= {name for parameter in command.params for name in parameter.opts} | {"--help"}
    known |= {"--checkpoints"}  # of benchmarks/scale.py
    for page in PAGES:
        for code in re.findall(r"`([^`\n]+)`", page.read_text(encoding="utf-8")):
            script = re.match(r"python (benchmarks/\S+\.py)", code)
            text = (ROOT / script[1]).read_text(encoding="utf-8") if script else ""
            for option in re.findall(r"(?<![\w-])--[a-z][a-z-]+", code):
                assert f'"{option}"' in text if script else option in known, (page.name, code)


def section(page: str, heading: str) -> str:
    """Return what stands under a heading, up to the next one of any level."""
    text = (ROOT / page).read_text(encoding="utf-8")
    return re.split(r"^#+ .*$", text.split(f"\n## {heading}\n")[1], maxsplit=1, flags=re.MULTILINE)[0]


def test_the_table_of_verdicts_has_every_verdict_with_its_kind() -> None:
    rows = re.findall(r"^\| `([a-z-]+)` \| ([a-z]+) \|", section("docs/method.md", "Verdict"), flags=re.MULTILINE)
    assert rows == [(code, verdict.kind) for code, verdict in VERDICTS.items()]


def test_the_protocol_that_is_shown_has_every_key_and_can_be_loaded(tmp_path: Path) -> None:
    shown = section("docs/benchmark.md", "Protocols").split("```toml\n")[1].split("```")[0]
    content = tomllib.loads(shown)
    assert set(content) == {*Protocol.__struct_fields__, "ablation", "extends"} - {"ablations"}
    assert {key for one in content["ablation"] for key in one} == set(Ablation.__struct_fields__) - {"forget"}
    (tmp_path / "shown.toml").write_text(shown, encoding="utf-8")
    assert load_protocol(tmp_path / "shown.toml").name == "my-benchmark"


def test_the_parts_of_a_benchmark_that_can_be_asked_for_are_all_named() -> None:
    table = section("docs/benchmark.md", "A part of it")
    goals = plan(load_protocol("digits"))
    names = {"what", *(name for goal in goals for name in goal.identity)} - {"varied"}
    assert {*re.findall(r"`([a-z]+)`", "".join(re.findall(r"^\| (`.*?) \|", table, flags=re.MULTILINE)))} == names
    whats = next(line for line in table.splitlines() if line.startswith("| `what`"))
    assert {*re.findall(r"`([a-z-]+)`", whats)} - {"what"} == {goal.what for goal in goals}


def test_the_recipe_that_is_shown_is_a_part_of_the_file_that_is_named() -> None:
    text = section("docs/methods.md", "Recipes")
    name = re.search(r"Parts of\s`([a-z0-9.-]+)`", text)
    assert name is not None
    recipe = tomllib.loads((ROOT / "src" / "sfra" / "models" / "recipes" / name[1]).read_text(encoding="utf-8"))
    for key, value in tomllib.loads(text.split("```toml\n")[1].split("```")[0]).items():
        tables = value if key == "methods" else {key: value}
        for table, found in tables.items():
            whole = recipe[key][table] if key == "methods" else recipe[table]
            assert found == (whole if key == "methods" or isinstance(whole, str) else {k: whole[k] for k in found}), key
