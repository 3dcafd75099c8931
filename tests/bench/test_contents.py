"""Cells that say something else than their kind does: a store may be damaged, or come from elsewhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from builders.pages import true_audit
from builders.rows import DIAGNOSIS, PRA, PROBE
from sfra.bench.engine.cell import Cell
from sfra.bench.engine.store import Store
from sfra.bench.plan import plan
from sfra.bench.protocol import Diagnosed, Protocol
from sfra.bench.report import make_report
from sfra.bench.rows import Rows
from sfra.bench.tasks.diagnosing import DIAGNOSTICS, GEOMETRY
from sfra.core.errors import InputError
from sfra.report.sources import read_diagnoses, read_maps

PROTOCOL = Protocol(
    name="told",
    dataset="digits",
    backbone="small-mlp",
    forget=((1,),),
    methods=("retrained",),
    controls=(),
    diagnostics=Diagnosed(geometry=("retrained",)),
)
PLACE = {"scale": "canonical", "variant": "released"}
MARGIN = {"points": [[0, 0.5, 0.4]], "competitors": [{"label": 0, "alpha_histogram": [1, 2]}]}
POINT = {"space": "logits", "x": 0.5, "y": -1.0, "kind": "real", "label": 2}

RESULTS: dict[str, dict[str, Any]] = {
    "features": {"hits": [9, 9, 9], "samples": [10, 10, 10], "class_names": ["a", "b", "c"], "model": {}},
    "audit": {},
    "pra": {"rows": [PRA]},
    "linear-probe": PROBE,
    "diagnostics": {"rows": [DIAGNOSIS | {"forget_class": 1}]},
    "geometry": {**PLACE, "points": 1},
}
FILES: dict[str, tuple[str, Callable[[], Any]]] = {
    "audit": ("audit.json", true_audit),
    "diagnostics": (DIAGNOSTICS, lambda: [{"scale": "canonical", "margin": [MARGIN]}]),
    "geometry": (GEOMETRY, lambda: {"points": [POINT]}),
}


def put(store: Store, cell: Cell, result: Any, content: str | None) -> None:
    draft = store.draft(cell)
    if content is not None:
        (draft / FILES[cell.kind][0]).write_text(content, encoding="utf-8")
    where = {"host": "", "pid": 1, "device": "cpu", "versions": {}}
    store.publish(cell, draft, {"result": result, "seconds": 1.0, "finished": 1.0, **where})


def fill(
    folder: Path, kind: str = "", change: Callable[[Any], Any] = lambda told: None, *, file: bool = False
) -> Store:
    """Write a store for the protocol, in which all cells of a kind say something else."""
    store = Store(folder)
    for goal in plan(PROTOCOL):
        name = goal.cell.kind
        result, content = deepcopy(RESULTS[name]), deepcopy(FILES[name][1]()) if name in FILES else None
        if name == kind:
            change(content if file else result)
        put(store, goal.cell, result, None if content is None else json.dumps(content))
    return store


def read(store: Store) -> Rows:
    rows = make_report(PROTOCOL, store.root).rows
    read_diagnoses(rows, store)
    read_maps(rows, store)
    return rows


def at(*path: Any, put: Any = None, drop: bool = False) -> Callable[[Any], Any]:
    """Make a change at one place of what a cell says."""

    def change(told: Any) -> None:
        for name in path[:-1]:
            told = told[name]
        if drop:
            del told[path[-1]]
        else:
            told[path[-1]] = put

    return change


def test_what_is_whole_is_read(tmp_path: Path) -> None:
    store = fill(tmp_path)
    rows = read(store)
    assert (len(rows.originals), len(rows.pra), len(rows.probes)) == (1, 1, 1)
    assert (len(rows.diagnostics), len(rows.maps), rows.missing) == (1, 1, 0)
    assert len(rows.audits) == len(true_audit()["results"])
    assert rows.audits[0]["retain_original"] == 0.9
    assert len(read_diagnoses(rows, store)) == 1
    assert read_maps(rows, store)[0]["points"][0]["name"] == "c"


WRONG: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "no hits": ("features", at("hits", drop=True), "KeyError: 'hits'"),
    "fewer samples": ("features", at("samples", put=[1]), "IndexError"),
    "no rows": ("pra", at("rows", put=None), "TypeError"),
    "no score": ("pra", at("rows", 0, "rs", drop=True), "missing required field `rs`"),
    "an endless score": ("pra", at("rows", 0, "rs", put=10**400), "out of range - at `$.rs`"),
    "a probe without accuracy": ("linear-probe", at("forget_accuracy", put=None), "`$.forget_accuracy`"),
    "a share of nothing": ("diagnostics", at("rows", 0, "forget_samples", put=0), "Expected `int` >= 1"),
}
WRONG_FILES: dict[str, tuple[str, Callable[[Any], Any], str]] = {
    "another schema": ("audit", at("schema", put="x"), "is not the result of an audit"),
    "a score without RS": ("audit", at("results", 0, "rs", put=None), "at `$.results[0].rs`"),
    "no margin": ("diagnostics", at(0, "margin", drop=True), "KeyError: 'margin'"),
    "a pair in words": ("diagnostics", at(0, "margin", 0, "points", put=[[0, "x", 1]]), "at `$[0][1]`"),
    "an empty histogram": ("diagnostics", at(0, "margin", 0, "competitors", put=[]), "no value of α"),
    "a point without a place": ("geometry", at("points", 0, "x", drop=True), "missing required field `x`"),
    "a point of no kind": ("geometry", at("points", 0, "kind", put="x"), "at `$[0].kind`"),
    "no points": ("geometry", at("points", put=None), "Expected `array`"),
}


@pytest.mark.parametrize(("case", "file"), [*((one, False) for one in WRONG), *((one, True) for one in WRONG_FILES)])
def test_a_cell_that_says_something_else_is_named(tmp_path: Path, case: str, file: bool) -> None:
    kind, change, message = (WRONG_FILES if file else WRONG)[case]
    store = fill(tmp_path, kind, change, file=file)
    with pytest.raises(InputError) as caught:
        read(store)
    text = str(caught.value)
    assert message in text
    assert "is damaged or incomplete" in text or "audit.json is not " in text
    assert case == "another schema" or "do: " in text
    assert kind != "pra" or f"remove the folder {next((tmp_path / 'cells' / 'pra').iterdir())}" in text


def test_what_a_cell_says_cannot_change_whose_it_is(tmp_path: Path) -> None:
    store = fill(tmp_path, "linear-probe", lambda told: told.update(method="another", dataset=5))
    (row,) = read(store).probes
    assert (row["method"], row["dataset"]) == ("retrained", "digits")
