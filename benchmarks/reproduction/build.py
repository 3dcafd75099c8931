"""Everything that can be made of the committed data: tables, figures, pages, the comparison and the document."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path

from reproduction.document import comparison_tables, refresh
from reproduction.document_beside import BESIDE, beside_tables, refresh_beside
from reproduction.draw import beside_figures, document_figures, save_figures
from reproduction.groups import own_goals, shown_together
from reproduction.stored import KEPT, PUBLISHED, ROOT, VERDICT, Kept, read_kept
from sfra.bench.engine.packing import unpack
from sfra.bench.engine.store import Store
from sfra.bench.report import make_report
from sfra.bench.tables import write_tables
from sfra.core.files import write_atomically
from sfra.report.export import export_bench
from sfra.report.page_bench import bench_page

DOCS = ROOT / "docs"
DOCUMENT = DOCS / "reproduction.md"
FIGURES = DOCS / "reproduction"
TEMPLATES = Path(__file__).parent
"""Where documents are that no rows were there for when they were written: prose with empty blocks."""

COMPARED = "cifar10-resnet18"
"""The group that the paper's printed numbers are of."""

READINGS = (VERDICT, PUBLISHED)
"""Scale and rule of the figures."""


def make_document(*, kept: Path = KEPT, docs: Path = DOCS) -> None:
    """Make the blocks of the document and its figures anew, and the documents of further groups that have rows."""
    rows, document = read_kept(COMPARED, kept), docs / DOCUMENT.name
    save_figures(document_figures(rows), docs / FIGURES.name)
    write_atomically(document, refresh(document.read_text(encoding="utf-8"), rows).encode())
    for group in further_groups(kept):
        make_beside(read_kept(group, kept), rows, docs)


def further_groups(kept: Path = KEPT) -> list[str]:
    """List the groups with rows that have a document of their own."""
    return [group for group in BESIDE if read_kept(group, kept).coverage]


def make_beside(kept: Kept, other: Kept, docs: Path) -> Path:
    """Make the document of a further group anew, at first from its template."""
    name = f"reproduction-{BESIDE[kept.group]}"
    document = docs / f"{name}.md"
    source = document if document.is_file() else TEMPLATES / f"{BESIDE[kept.group]}.md"
    save_figures(beside_figures(kept, other), docs / name)
    write_atomically(document, refresh_beside(source.read_text(encoding="utf-8"), kept, other).encode())
    return document


def make_everything(out: Path, *, kept: Path = KEPT) -> None:
    """Write tables, figures and a page of every archive, and the comparison with the paper."""
    for archive in sorted(kept.glob("*.tar.xz")):
        group = archive.name.removesuffix(".tar.xz")
        with tempfile.TemporaryDirectory() as scratch:
            store = Store(Path(scratch) / "store")
            print(f"{group}: {unpack(archive, store)} results", flush=True)
            make_group(group, members_of(group, kept), store, out)
    compared = read_kept(COMPARED, kept)
    write_tables(comparison_tables(compared), out / "comparison")
    for group in further_groups(kept):
        write_tables(beside_tables(read_kept(group, kept), compared), out / f"comparison-{BESIDE[group]}")


def make_group(group: str, protocols: list[str], store: Store, out: Path) -> None:
    """Write what a group of protocols gives: tables of each, pages and figures of those that are shown together."""
    done = [name for name, goals in own_goals(protocols) if any(store.is_done(goal.cell) for goal in goals)]
    for name in done:
        make_report(name, store.root).save(out / name)
    for names in shown_together(group, done):
        for scale, rule in READINGS:
            folder = out / "figures" / names[0] / f"{scale}-{rule}"
            drawn = export_bench(names, store.root, folder, scale=scale, rule=rule)
            print(f"{names[0]}: {len(drawn.written)} figures at {scale} scale, rule {rule}", flush=True)
            for figure, reason in drawn.left_out.items():
                print(f"  left out: {figure}: {reason}", flush=True)
        page = bench_page(names, store.root, date=datetime.now(UTC).date().isoformat())
        write_atomically(out / f"{names[0]}.html", page.encode())


def members_of(group: str, kept: Path = KEPT) -> list[str]:
    """List the protocols of a group, as its rows name them."""
    return list(dict.fromkeys(row["protocol"] for row in read_kept(group, kept).coverage))
