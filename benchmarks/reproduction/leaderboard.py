"""The page of all audited models, and the heads and test features that are kept of some of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from reproduction.overview import place
from reproduction.rows import PUBLISHED, VERDICT, Group, list_groups, read_rows
from reproduction.tables import Cells, score, signed, table
from sfra import __version__
from sfra.auditing.verdicts import KINDS, VERDICTS
from sfra.bench.tables import Table
from sfra.bench.tables.names import method_name, method_rank
from sfra.report.classes import set_words
from sfra.report.page.audit import BADGES, REFERENCE
from sfra.report.page.html import asset, render

DATE = "2026-11-19"
"""When the newest rows were added."""
RECIPES = {
    "-published": "settings of the paper's code",
    "-steps": "step schedule, the paper's rates",
    "-long-steps": "long step schedule, the paper's rates",
    "-multi": "two classes at once",
}
"""What the name of a protocol adds, where its models are others than the group's."""
SETTINGS = "--epochs 500 --seeds 3 --self-controls 0"


def models_folder(group: Group) -> Path:
    """Return where a group's models are kept."""
    return group.folder / group.name / "models"


def command(folder: Path, forget: str, reference: Path | None) -> str:
    """Write the command that audits a kept model again, as the group was audited.

    >>> command(Path("a/x-0"), "0", None)
    'sfra audit a/x-0/head.npz --forget 0 --data a/x-0/features.npz --epochs 500 --seeds 3 --self-controls 0'
    """
    beside = f" --reference {reference}/head.npz --reference-data {reference}/features.npz" if reference else ""
    return f"sfra audit {folder}/head.npz --forget {forget} --data {folder}/features.npz{beside} {SETTINGS}"


def command_of(group: Group, method: str, forget: str) -> str | None:
    """Write the command for a model of a group; None if it is not kept."""
    folder = models_folder(group)
    mine, reference = folder / f"{method}-{forget}", folder / f"retrained-{forget}"
    if not mine.is_dir():
        return None
    near = [path.relative_to(group.folder.parent) for path in (mine, reference)]
    return command(near[0], forget, near[1] if method != "retrained" and reference.is_dir() else None)


def lines_of(group: Group) -> Iterable[dict[str, Any]]:
    """Arrange the main audits of a group's protocols, one line for each model."""
    names, again = group.class_names(), again_rows(group)
    for ending in ("", *RECIPES):
        published = group.audits(PUBLISHED, ending=ending).select("method", "forget", published="rs")
        rows = group.audits(VERDICT, ending=ending).join(published, on=["method", "forget"], how="left")
        for row in rows.unique(["method", "forget"], maintain_order=True).iter_rows(named=True):
            method, forget = row["method"], row["forget"]
            verdict = REFERENCE if method == "retrained" else row["verdict"]
            told = None if ending else command_of(group, method, forget)
            files = (models_folder(group) / f"{method}-{forget}").glob("*.npz") if told else ()
            yield {
                **{name: row[name] for name in ("rs", "published")},
                **{
                    f"{part}_{when}": row[f"{part}_{when}"]
                    for part in ("forget", "retain")
                    for when in ("before", "after")
                },
                "delta_rs": None if method == "retrained" else row["delta_rs"],
                "name": method_name(method),
                "forgotten": set_words(tuple(map(int, forget.split("+"))), names),
                "verdict": verdict,
                "kind": "info" if verdict == REFERENCE else VERDICTS[verdict].kind,
                "place": place(group) + (f", {RECIPES[ending]}" if ending else ""),
                "command": told,
                "size": round(sum(path.stat().st_size for path in files) / 1000),
                "again": again.get((method, forget), {}).get("rs"),
                "where": {
                    "group": group.name,
                    "method": method,
                    "verdict": verdict,
                    "recipe": ending or "own",
                    "kept": "yes" if told else "no",
                },
            }


def filters(
    lines: Sequence[Mapping[str, Any]], groups: Sequence[Group]
) -> list[tuple[str, str, list[tuple[str, str]]]]:
    """List what the page can be filtered by: name, label and entries."""
    found = {name: {line["where"][name] for line in lines} for name in ("method", "verdict", "recipe")}
    recipes = {"own": "our own, or the network's"} | RECIPES
    return [
        ("group", "Data and network", [(group.name, place(group)) for group in groups]),
        ("method", "Method", [(one, method_name(one)) for one in sorted(found["method"], key=method_rank)]),
        ("verdict", "Verdict", [(one, one) for one in BADGES if one in found["verdict"]]),
        ("recipe", "Recipe", [(one, text) for one, text in recipes.items() if one in found["recipe"]]),
        ("kept", "Can be audited again", [("yes", "yes"), ("no", "no")]),
    ]


def leaderboard() -> str:
    """Make the page from the rows of every group; largest ΔRS first."""
    groups = list_groups()
    lines = sorted((line for group in groups for line in lines_of(group)), key=_rank)
    tried = [abs(line["again"] - line["rs"]) for line in lines if line["again"] is not None]
    held = [line for line in lines if line["command"]]
    return render(
        Path(__file__).parent / "leaderboard.html.j2",
        scripts=[asset("page.js")],
        data={},
        title="Which unlearned models have forgotten?",
        lines=lines,
        filters=filters(lines, groups),
        kept=len(held),
        size=f"{sum(line['size'] for line in held) / 1000:.1f}",
        near=f"{max(tried, default=math.nan):.2f}",
        tried=len(tried),
        heads=_heads(groups),
        css=asset("page.css"),
        kinds=KINDS,
        verdicts={code: text for code, text in BADGES.items() if any(line["verdict"] == code for line in lines)},
        explanations={},
        version=__version__,
        date=DATE,
    )


def _rank(line: Mapping[str, Any]) -> float:
    return math.inf if line["delta_rs"] is None else -line["delta_rs"]


def _heads(groups: Sequence[Group]) -> str:
    files = [group.folder / group.name / "heads.safetensors" for group in groups]
    told = [
        f"{path.relative_to(path.parents[2])} ({path.stat().st_size / 1e6:.1f} MB)" for path in files if path.is_file()
    ]
    return f"Heads alone, of more models: {', '.join(told)}. Of these nothing can be measured without features."


def again_rows(group: Group) -> dict[tuple[str, str], dict[str, float | None]]:
    """Read what came out of the commands that were tried."""
    path = group.folder / group.name / "again.csv"
    rows = read_rows(path).iter_rows(named=True) if path.is_file() else ()
    return {(row["method"], row["forget"]): row for row in rows}


def again_table(groups: Sequence[Group]) -> Table:
    """Show what came out of the commands that were tried, beside the rows."""
    found = {(group, *key): row for group in groups for key, row in again_rows(group).items()}
    rows = {
        f"{group.name} {method} {c}": f"{method_name(method)}, {set_words((int(c),), group.class_names())}"
        for group, method, c in found
    }
    headings = {"rs": "RS again", "row_rs": "RS of the row", "delta_rs": "ΔRS again", "row_delta_rs": "ΔRS of the row"}
    columns: list[Cells] = []
    for name, heading in headings.items():
        write = signed if "delta" in name else score
        columns.append((name, heading, {key: write(row[name]) for key, row in zip(rows, found.values(), strict=True)}))
    return table("again", "Audited again from what is kept", rows, columns, (), ("model", "Model"))
