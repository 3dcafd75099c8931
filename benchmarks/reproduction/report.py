"""Tables and figures of every group with rows, and the tables inside the pages written by hand."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from reproduction import ablations, tables, together, worlds
from reproduction.figures import group_figures
from reproduction.heads import SAME_MODELS, goals_of
from reproduction.leaderboard import again_table
from reproduction.overview import overview_tables
from reproduction.rows import (
    BASE,
    KEPT,
    PUBLISHED,
    ROOT,
    VERDICT,
    Group,
    Side,
    list_groups,
    paper_beside,
)
from sfra.bench.engine.packing import unpack
from sfra.bench.engine.store import Store
from sfra.bench.report import make_report as bench_report
from sfra.bench.tables import Table, to_markdown, write_tables
from sfra.core.errors import InputError
from sfra.core.files import write_atomically
from sfra.report import bench_page, export_bench, read_bench, save

DOCS = ROOT / "docs"
PAGES = {
    "reproduction.md": BASE,
    "reproduction-cifar100.md": "cifar100-resnet18",
    "reproduction-transformers.md": "cifar10-vit-small",
}
"""Pages written by hand, and the group whose tables they include."""
OVERVIEW = "reproduction-overview.md"
"""The page with the tables over all groups."""

Make = Callable[[Group, Side], Table]


def alone(make: Callable[[Group], Table]) -> Make:
    """Turn a table of a group into one that is offered the paper's numbers."""
    return lambda group, _: make(group)


TABLES: Mapping[str, list[Make]] = {
    "models": [tables.unlearned, alone(tables.models)],
    "rs": [tables.rs_beside_paper, tables.delta, tables.classes_beside_paper, alone(tables.classes)],
    "controls": [tables.controls, tables.alignment, alone(tables.multi)],
    "recipes": [worlds.experiments, worlds.experiments_models, worlds.norm],
    "ablations": [alone(partial(ablations.ablation, factor=factor)) for factor in ablations.FACTORS],
    "audit": [
        *map(alone, (tables.verdicts, tables.selection, tables.reset, tables.every_scale, together.several)),
    ],
}
"""Tables of a group beside the numbers that the paper printed, by the page that they are on."""


def group_tables(group: Group) -> dict[str, list[Table]]:
    """Make the tables of a group that there are rows for, page by page."""
    paper = paper_beside(group)
    found = {page: [made for make in makers if (made := make(group, paper)).rows] for page, makers in TABLES.items()}
    return {page: some for page, some in found.items() if some}


def make_documents() -> None:
    """Write tables and figures of every group with rows, and the tables inside pages written by hand."""
    groups = list_groups()
    for group in groups:
        target = DOCS / "reproduction" / group.name
        made = group_tables(group)
        for page, some in made.items():
            write_atomically(target / f"{page}.md", table_page(group, page, some).encode())
        for name, chart in group_figures(group, paper_beside(group)).items():
            save(chart, target / f"{name}.svg")
        for page, name in PAGES.items():
            if name == group.name:
                _include(DOCS / page, made)
    _include(DOCS / OVERVIEW, {"overview": overview_tables(groups)})
    _include(DOCS / "leaderboard.md", {"again": [again_table(groups)]})


def _include(path: Path, made: Mapping[str, list[Table]]) -> None:
    write_atomically(path, include(path.read_text(encoding="utf-8"), made).encode())


def table_page(group: Group, page: str, some: list[Table]) -> str:
    """Write tables as a page; a heading for each, to link to."""
    made = "Made by `make reproduce-report` from [the rows](../../../reproduction/README.md)."
    parts = [f"# {group.name}: {page}", made, *(f"## {one.label}\n\n{to_markdown(one).strip()}" for one in some)]
    return "\n\n".join(parts) + "\n"


def include(text: str, made: Mapping[str, list[Table]]) -> str:
    """Write the tables between ``<!-- table: LABEL -->`` and ``<!-- end -->`` anew; all other text stays."""
    known = {one.label: one for some in made.values() for one in some}

    def block(found: re.Match[str]) -> str:
        if found[2] not in known:
            raise InputError("the page includes an unknown table", expected=", ".join(sorted(known)), got=found[2])
        return f"{found[1]}\n{to_markdown(known[found[2]]).strip()}\n{found[3]}"

    return re.sub(r"(<!-- table: ([a-z0-9-]+) -->)\n.*?(<!-- end -->)", block, text, flags=re.DOTALL)


def make_report(out: Path) -> None:
    """Write the tables of every group as Markdown, CSV and LaTeX and, of those with an archive, figures and pages."""
    groups = list_groups()
    write_tables(overview_tables(groups), out / "comparison")
    for group in groups:
        write_tables([one for some in group_tables(group).values() for one in some], out / f"comparison-{group.name}")
        archive = KEPT / f"{group.name}.tar.xz"
        if archive.is_file():
            with tempfile.TemporaryDirectory() as scratch:
                store = Store(Path(scratch) / "store")
                print(f"{group.name}: {unpack(archive, store)} results", flush=True)
                _report_store(group, store, out)


def audited(group: Group, store: Store) -> list[str]:
    """List the protocols of a group with audits in the store: of some, rows alone were brought home."""
    done = {record.key for record in store.records("audit")}
    names = (str(name) for name in group.all_rows("audits")["protocol"].unique(maintain_order=True))
    return [name for name in names if any(goal.cell.key in done for goal in goals_of(name))]


def _report_store(group: Group, store: Store, out: Path) -> None:
    """Write tables of each protocol, and figures and a page of those that audit the same models."""
    protocols = audited(group, store)
    for name in protocols:
        bench_report(name, store.root).save(out / name)
    same = [name for name in protocols if name.removeprefix(group.name) in SAME_MODELS]
    for names in (same, *([name] for name in protocols if name not in same)):
        for scale, rule in (VERDICT, PUBLISHED):
            found = read_bench(names, store.root, scale=scale, rule=rule)
            drawn = export_bench(found, out / "figures" / names[0] / f"{scale}-{rule}")
            print(f"{names[0]}: {len(drawn.written)} figures at {scale} scale, rule {rule}", flush=True)
        page = bench_page(read_bench(names, store.root), date=datetime.now(UTC).date().isoformat())
        write_atomically(out / f"{names[0]}.html", page.encode())
