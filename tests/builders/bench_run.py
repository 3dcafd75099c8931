"""A small benchmark that is really run, over two data sets and two backbones, and what its audits say by themselves."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean
from typing import Any

from PIL import Image

from builders.bench import in_this_process
from sfra.bench.grid import open_store, run_protocol
from sfra.bench.report import make_report
from sfra.bench.tables.names import backbone_name, method_name
from sfra.cli import main
from sfra.data import SPLITS, ImageSet, load_data

RECIPE = """
dataset = "digits"
backbone = "small-cnn"

[training]
epochs = 5
learning_rate = 0.1
batch_size = 64

[methods.delete]
batch_size = 32
"""
PROTOCOL = """
name = "turned"
description = "digits upside down"
extends = "digits-tiny"
dataset = "{data}"
backbone = "small-cnn"
recipe = "recipe.toml"
forget = [[3]]
methods = ["retrained", "delete"]
controls = []
pra = false
linear_probe = false

[diagnostics]
geometry = []
"""
NAMES = ("ant", "bee", "cat", "dog", "eel", "fox", "gnu", "hen", "ibex", "jay")
"""What the classes of the second data set are called."""
STAGES = ("forget_before", "forget_after", "retain_before", "retain_after")
Row = dict[str, Any]


def make_benchmark(folder: Path) -> None:
    """Run digits-tiny and the protocol of another data set and backbone into a store, and make the page of both."""
    turned = _turned_digits(folder / "turned")
    (folder / "recipe.toml").write_text(RECIPE)
    (folder / "turned.toml").write_text(PROTOCOL.format(data=turned))
    names = ("digits-tiny", str(folder / "turned.toml"))
    with in_this_process():
        run_protocol(names[0], folder / "store", only={"what": "audit"})
        run_protocol(names[1], folder / "store")
    arguments = [word for name in names for word in ("--bench", name)]
    code = main(["report", *arguments, "--store", str(folder / "store"), "--out", str(folder / "page.html"), "--quiet"])
    assert code == 0


def read_benchmark(folder: Path) -> list[Row]:
    """Read every reading from its ``audit.json``; ΔRS is computed here, from the audit of the retrained model."""
    store = open_store(folder / "store")
    identities = {
        row["cell"]: {name: row[name] for name in ("method", "dataset", "backbone", "forget", "cell")}
        for name in ("digits-tiny", folder / "turned.toml")
        for row in make_report(name, store.root).rows.audits
    }
    rows = [
        identity | {name: result[name] for name in ("scale", "rule", "rs", *STAGES)}
        for cell, identity in identities.items()
        for result in json.loads((store.folder(cell) / "audit.json").read_text())["results"]
        if result["variant"] == "released"
    ]
    never = {_situation(row): row["rs"] for row in rows if row["method"] == "retrained"}
    return [row | {"delta_rs": row["rs"] - never[_situation(row)]} for row in rows]


def expected_board(rows: Sequence[Row], **wanted: str) -> dict[tuple[str, str], list[float]]:
    """Compute the leaderboard: by method and backbone, means and maxima over the forget sets."""
    wanted = {"scale": "canonical", "rule": "source-free"} | {name: v for name, v in wanted.items() if v}
    mine = [row for row in rows if all(row[name] == asked for name, asked in wanted.items())]
    groups: dict[tuple[str, str], list[Row]] = {}
    for row in mine:
        groups.setdefault((method_name(row["method"]), backbone_name(row["backbone"])), []).append(row)

    def numbers(group: list[Row]) -> list[float]:
        scores = [f([row[name] for row in group]) for name in ("rs", "delta_rs") for f in (fmean, max)]
        return [*scores, *(fmean(row[name] for row in group) for name in STAGES), float(len(group))]

    return {key: numbers(group) for key, group in groups.items()}


def _situation(row: Row) -> tuple[str, ...]:
    return tuple(row[name] for name in ("dataset", "backbone", "forget", "scale", "rule"))


def _turned_digits(folder: Path) -> Path:
    """Write the digits upside down, as folders of images: a data set of one's own."""
    for split in SPLITS:
        images = load_data("digits", split=split)
        assert isinstance(images, ImageSet)
        pixels = (next(iter(images.batches(len(images))))[:, 0] * 255).round().byte().flip(1).numpy()
        for i, (picture, label) in enumerate(zip(pixels, images.labels.tolist(), strict=True)):
            place = folder / split / NAMES[label]
            place.mkdir(parents=True, exist_ok=True)
            Image.fromarray(picture).save(place / f"{i}.png")
    return folder
