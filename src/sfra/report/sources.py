"""Where pages and figures get their content from: audit.json files, and the store of a benchmark."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from sfra.auditing.result import AuditResult
from sfra.auditing.stored import read_result
from sfra.bench.contents import Bar, Change, Origin, Point, origin_of
from sfra.bench.engine.store import Store
from sfra.bench.grid import open_store
from sfra.bench.protocol import Protocol
from sfra.bench.report import READINGS, BenchReport, make_report
from sfra.bench.rows import Rows, join
from sfra.bench.tables.names import forget_of, place
from sfra.bench.tasks.diagnosing import DIAGNOSTICS, GEOMETRY
from sfra.core.errors import InputError
from sfra.core.refusals import no_audit
from sfra.report.classes import Names, names_of, set_name
from sfra.report.figures import Setting
from sfra.report.figures.diagnoses import alpha_bars
from sfra.report.figures.readings import traces_of
from sfra.report.figures.rows import Row


def read_audit(path: str | Path) -> AuditResult:
    """Read an ``audit.json``, or that of a folder.

    Raises:
        InputError: There is none, or it is not the result of an audit.
    """
    given = Path(path)
    file = given / "audit.json" if given.is_dir() else given
    if not file.is_file():
        raise no_audit(given)
    return read_result(file)


def find_audits(paths: Sequence[str | Path]) -> list[tuple[str, AuditResult]]:
    """Read audits with a name each: files, folders with an ``audit.json``, and folders of such folders.

    Raises:
        InputError: One of the paths holds no audit.
    """
    found: list[Path] = []
    for path in map(Path, paths):
        inside = path.is_dir() and not (path / "audit.json").is_file()
        found += (sorted(path.glob("*/audit.json")) or [path]) if inside else [path]
    files = [file / "audit.json" if file.is_dir() else file for file in found]
    names = [file.resolve().parent.name if file.name == "audit.json" else file.stem for file in files]
    clear = [name if names.count(name) == 1 else f"{name} ({i + 1})" for i, name in enumerate(names)]
    return [(name, read_audit(file)) for name, file in zip(clear, found, strict=True)]


def reading(label: str) -> AbstractContextManager[None]:
    """Turn whatever goes wrong with the content of an audit, which may be a stranger's, into one message."""
    return Origin(what=f"the audit {label}", do="audit again with --out").reading()


@dataclass(frozen=True, kw_only=True)
class Bench:
    """What the store of a benchmark, or of several that share it, holds for pages and figures."""

    reports: Sequence[BenchReport]
    rows: Rows
    """Of all the reports; what they have in common counts once."""
    audits: Mapping[str, AuditResult]
    """The main audits, by cell."""
    scale: str = "canonical"
    rule: str = "source-free"
    diagnoses: Sequence[Row] = ()
    maps: Sequence[Row] = ()

    @property
    def names(self) -> dict[str, list[str]]:
        """The class names of every data set: what its originals say, else what an audit says."""
        audited = [{**row, "class_names": self.audits[row["cell"]].class_names} for row in main_rows(self.rows.audits)]
        return names_of([*self.rows.originals, *audited])

    def settings(self) -> dict[tuple[str, str], Setting]:
        """Return what the figures of each data set and backbone are drawn from, in the order of the tables."""
        names = self.names
        found = sorted({(row["dataset"], row["backbone"]) for row in self.rows.audits}, key=lambda pair: place(*pair))
        return {pair: self._setting(pair, names.get(pair[0])) for pair in found}

    def _setting(self, pair: tuple[str, str], names: Names) -> Setting:
        audits, diagnoses, maps = (
            [row for row in some if (row["dataset"], row["backbone"]) == pair]
            for some in (self.rows.audits, self.diagnoses, self.maps)
        )
        single = {row["cell"]: row for row in main_rows(audits) if len(forget_of(row)) == 1}
        traces: list[Row] = [
            {name: row[name] for name in ("dataset", "backbone", "method", "forget")}
            | {"retain": run.retain, "rs": run.rs}
            for cell, row in single.items()
            for run in traces_of(self.audits[cell], self.scale, row["variant"], "model")
        ]
        return Setting(
            audits=audits,
            traces=traces,
            diagnoses=diagnoses,
            maps=maps,
            scale=self.scale,
            rule=self.rule,
            names=names,
        )


def read_bench(
    protocols: Sequence[str | Path | Protocol],
    store: str | Path,
    *,
    scale: str | None = None,
    rule: str | None = None,
) -> Bench:
    """Read what a store holds of protocols, to be shown at a scale and rule, by default those of verdicts.

    Raises:
        InputError: The store holds no audit of these protocols.
    """
    reports = [make_report(protocol, store) for protocol in protocols]
    opened, rows = open_store(store), join([report.rows for report in reports])
    main = main_rows(rows.audits)
    if not main:
        raise InputError(
            "there is nothing to report: no audit of this benchmark is done",
            expected="a store with results",
            got=store,
            do=f"sfra bench run {reports[0].protocol.name} --store {store}",
        )
    known = {(row["scale"], row["rule"]) for row in main}
    usual = next((one for one in READINGS if one in known), min(known))
    scale, rule = scale or usual[0], rule or usual[1]
    return Bench(
        reports=reports,
        rows=rows,
        audits={key: read_audit(opened.folder(key)) for key in dict.fromkeys(row["cell"] for row in main)},
        scale=scale,
        rule=rule,
        diagnoses=read_diagnoses(rows, opened, scale=scale),
        maps=read_maps(rows, opened),
    )


def main_rows(audits: Sequence[Row]) -> list[Row]:
    """Keep what the leaderboard is made of: no ablations, and the forget row as released, or as restored."""
    return [row for row in audits if row.get("audit", "main") == "main" and row["variant"] != "reset-row"]


def with_names(audit: AuditResult, names: Names) -> AuditResult:
    """Give an audit that knows no names those of its data set."""
    return audit if audit.class_names or not names else msgspec.structs.replace(audit, class_names=tuple(names))


def read_diagnoses(rows: Rows, store: Store, *, scale: str = "canonical") -> list[dict[str, Any]]:
    """Read what was found of the margin at one scale: a row for each diagnosed model and forget class."""
    names = names_of(rows.originals)
    found = []
    for key, row in {row["cell"]: row for row in rows.diagnostics}.items():
        origin = origin_of(store, key)
        with origin.reading():
            parts = [one["margin"] for one in _read(store, key, DIAGNOSTICS) if one["scale"] == scale]
            for margin in (one for part in parts for one in part):
                bars = alpha_bars([{"margin": margin}])
                msgspec.convert(bars, list[Bar])
                msgspec.convert(margin["points"], list[Change])
                if not any(bar["count"] for bar in bars):
                    raise origin.refused("no value of α")
                found.append(_identity(row, names) | {"scale": scale, "margin": margin})
    return found


def read_maps(rows: Rows, store: Store) -> list[dict[str, Any]]:
    """Read the points of every map, with the names of their classes."""
    names = names_of(rows.originals)
    found = []
    for row in rows.maps:
        known, origin = names.get(row["dataset"]) or (), origin_of(store, row["cell"])
        with origin.reading():
            points = _read(store, row["cell"], GEOMETRY)["points"]
            msgspec.convert(points, list[Point])
            for point in points:
                point["name"] = known[point["label"]] if point["label"] < len(known) else str(point["label"])
        found.append(_identity(row, names) | {"scale": row["scale"], "points": points})
    return found


def _read(store: Store, key: str, name: str) -> Any:
    return json.loads((store.folder(key) / name).read_text(encoding="utf-8"))


def _identity(row: Row, names: Mapping[str, Sequence[str]]) -> dict[str, Any]:
    kept = ("dataset", "backbone", "seed", "method", "forget", "forget_classes", "variant")
    return {name: row[name] for name in kept} | {"forgotten": set_name(forget_of(row), names.get(row["dataset"]))}
