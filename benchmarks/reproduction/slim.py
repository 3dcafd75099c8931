"""A store without what no page and no figure shows: most trajectories, relearned heads, features."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from sfra.bench.engine.store import Record, Store
from sfra.bench.plan import Goal
from sfra.core.files import write_atomically

DIGITS = {"retain": 5, "forget": 5, "rs": 4}
"""Decimals of a kept trajectory."""

DROPPED = ("relearned_head.safetensors", "features.safetensors", "head.safetensors")


def slim_store(goals: Sequence[Goal], store: Store, models: Iterable[Record], folder: Path) -> Store:
    """Write the finished goals, and what is known of the models, into a new store.

    Args:
        goals: What tables read.
        store: Where it is.
        models: Records of models, whose files stay behind.
        folder: Where the new store goes.
    """
    out = Store(folder)
    for goal in goals:
        record = store.record(goal.cell)
        if record is not None:
            target = folder / "cells" / record.kind / record.key
            _copy(store.folder(goal.cell), target, record, curves=goal.identity.get("audit") == "main")
    for record in models:
        target = folder / "cells" / record.kind / record.key
        if not target.exists():
            _write(target / "result.json", asdict(replace(record, files={})))
    return out


def slim_audit(audit: Mapping[str, Any], *, curves: bool = True) -> dict[str, Any]:
    """Keep the trajectories of the verdict's setting, of model and reference, and the model's own as released.

    Of the losses, which nothing shows, the first and the last stay.

    Args:
        audit: The content of an ``audit.json``.
        curves: Whether to keep any; of ablations only the readings are shown.
    """
    main = (audit["scale"], audit["variant"])
    wanted = {("model", *main), ("reference", *main), ("model", "native", "released")}
    kept = [run for run in audit["trajectory"] if (run["subject"], run["scale"], run["variant"]) in wanted]
    return {**audit, "trajectory": [_slim_run(run) for run in kept if curves]}


def _slim_run(run: Mapping[str, Any]) -> dict[str, Any]:
    curves = {name: run[name] and [round(value, digits) for value in run[name]] for name, digits in DIGITS.items()}
    return {**run, **curves, "loss": [run["loss"][0], run["loss"][-1]]}


def _copy(source: Path, target: Path, record: Record, *, curves: bool) -> None:
    target.mkdir(parents=True)
    for name in record.files:
        if Path(name).name in DROPPED:
            continue
        if name == "audit.json":
            audit = json.loads((source / name).read_text(encoding="utf-8"))
            _write(target / name, slim_audit(audit, curves=curves))
        else:
            shutil.copyfile(source / name, target / name)
    sizes = {path.name: path.stat().st_size for path in sorted(target.iterdir())}
    _write(target / "result.json", asdict(replace(record, files=sizes)))


def _write(path: Path, content: object) -> None:
    text = json.dumps(content, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    write_atomically(path, text.encode())
