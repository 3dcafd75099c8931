"""Rows of a second data set: those of CIFAR-10 moved to other classes, without a sweep, with other scores."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from dataclasses import fields, replace
from statistics import fmean
from typing import Any

from reproduction.build import COMPARED, TEMPLATES
from reproduction.document_beside import BESIDE
from reproduction.stored import DRIFT, METHOD_LIST, Kept, Row

GROUP = "cifar100-resnet18"
TEMPLATE = TEMPLATES / f"{BESIDE[GROUP]}.md"
BLOCK = re.compile(r"<!-- (table|text) ([a-z-]+) -->\n(.*?)<!-- end -->", flags=re.DOTALL)


def second_rows(rows: list[Row], source: random.Random) -> list[dict[str, Any]]:
    """Move rows of CIFAR-10 to classes 0, 10, … of a group without a sweep, and change their scores."""
    moved = []
    for row in rows:
        if row["protocol"] == COMPARED and not str(row.get("scale", "")).startswith("kappa="):
            changed = {**row, "protocol": GROUP}
            if row.get("forget"):
                changed["forget"] = str(10 * int(row["forget"]))
            for name in ("rs", "delta_rs", "cosine", "last", "best", "transferred"):
                if row.get(name) is not None:
                    changed[name] = round(0.8 * row[name] + source.uniform(0, 0.15), 5)
            moved.append(changed)
    return moved


def second_group(other: Kept) -> Kept:
    """Make a complete group of a hundred classes, ten of them forgotten."""
    source = random.Random(7)  # noqa: S311 - not a secret
    rows = {
        one.name: second_rows(getattr(other, one.name), source)
        for one in fields(Kept)
        if one.name not in ("group", *DRIFT)
    }
    originals = [
        {"protocol": GROUP, "seed": 0.0, "label": float(label), "name": f"thing {label}"}
        | {"samples": 100.0, "hits": float(60 + 7 * label % 31)}
        for label in range(100)
    ]
    return Kept(group=GROUP, **{**rows, "originals": originals})


def part(kept: Kept, keeps: Callable[[Row], bool]) -> Kept:
    """Leave out rows of models."""
    names = ("audits", "pra", "probes", "diagnostics", "models", "selection")
    chosen: dict[str, Any] = {name: [row for row in getattr(kept, name) if keeps(row)] for name in names}
    return replace(kept, **chosen)


def audits(kept: Kept, reading: tuple[str, str], method: str) -> list[Row]:
    wanted = (GROUP if kept.group == GROUP else COMPARED, "main", "released", *reading, method)
    names = ("protocol", "audit", "variant", "scale", "rule", "method")
    return [row for row in kept.audits if tuple(row[name] for name in names) == wanted]


def mean_rs(kept: Kept, reading: tuple[str, str]) -> list[float]:
    return [fmean(row["rs"] for row in audits(kept, reading, method)) for method in METHOD_LIST]


def minus(value: float, form: str = ".2f") -> str:
    return f"{value:{form}}".replace("-", "−")


def blocks(text: str) -> dict[tuple[str, str], str]:
    return {(kind, name): content.strip() for kind, name, content in BLOCK.findall(text)}
