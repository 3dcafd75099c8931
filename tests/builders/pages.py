"""Audits for pages, a benchmark made of them, and a parser that sees a page as a browser does."""

from __future__ import annotations

import base64
import copy
import json
import zlib
from collections.abc import Mapping
from functools import cache
from html.parser import HTMLParser
from typing import Any

from builders.audits import SMALL, compare, hidden, never_seen
from sfra.auditing.result import AuditResult
from sfra.auditing.stored import parse_result
from sfra.bench.protocol import Protocol
from sfra.bench.report import BenchReport
from sfra.bench.rows import OF_AUDIT, OF_READING, AuditRow, FailureRow, Rows
from sfra.report import Bench

DATE = "2026-01-02"
HOSTILE = '</script><img src=x onerror="alert(1)"><!--'
VOID = {"meta", "link", "input", "img", "br", "hr", "path", "line", "circle", "rect"}


@cache
def _true_audit() -> dict[str, Any]:
    return compare(hidden(), never_seen(), **SMALL).to_dict()


def true_audit(**changes: Any) -> dict[str, Any]:
    """The audit of a model that hides a class, with some fields changed."""
    return copy.deepcopy(_true_audit()) | changes


def true_result(**changes: Any) -> AuditResult:
    """The same audit, as it is read from its file."""
    return parse_result(true_audit(**changes), "the toy audit")


def page_data(page: str) -> dict[str, Any]:
    """What the script of a page draws from."""
    start = page.index('id="page-data">') + len('id="page-data">')
    packed = base64.b64decode(page[start : page.index("</script>", start)])
    found: dict[str, Any] = json.loads(zlib.decompress(packed))
    return found


class Parsed(HTMLParser):
    """Elements, attributes and text of a page; refuses elements that do not nest."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=True)
        self.open: list[str] = []
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.scripts: list[str] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.elements.append((tag, dict(attrs)))
        self.texts.append(" " if tag in {"td", "th", "dd", "dt", "span"} else "")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in VOID:
            assert self.open.pop() == tag, (tag, self.open[-5:], self.getpos())

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
        elif self.open and self.open[-1] != "style":
            self.texts.append(data)

    @property
    def text(self) -> str:
        """What a reader sees, blanks made one."""
        return " ".join("".join(self.texts).split())

    def all(self, tag: str) -> list[dict[str, str | None]]:
        """Return the attributes of every element of a name."""
        return [attributes for name, attributes in self.elements if name == tag]


def protocol() -> Protocol:
    return Protocol(
        name="toy", description="made up", dataset="digits", backbone="small-cnn", forget=((0,),), methods=("finetune",)
    )


def rows_of(audit: Mapping[str, Any], method: str, label: int, cell: str) -> list[AuditRow]:
    """The rows of an audit, as a store gives them."""
    identity: dict[str, Any] = {
        "dataset": "digits",
        "backbone": "small-cnn",
        "seed": 0,
        "method": method,
        "forget": str(label),
        "forget_classes": [label],
        "audit": "main",
        "retain_original": 0.99,
        "forget_original": 0.98,
        "cell": cell,
        "seconds": 1.0,
        "findings": [],
        **{name: audit["settings"][name] for name in OF_AUDIT},
    }
    extra: dict[str, Any] = {"probe_seconds": 0.1, "draws": 1000.0, "support": None}
    return [AuditRow(**identity, **{name: row[name] for name in OF_READING}, **extra) for row in audit["results"]]


def made_up(methods: list[str], classes: int, audit: Mapping[str, Any] | None = None, **more: Any) -> Bench:
    """A benchmark in which every method and class has the same audit but for its scores."""
    rows, audits = [], {}
    for i, method in enumerate(methods):
        for label in range(classes):
            cell = f"{i:06x}{label:06x}".ljust(64, "0")
            one = copy.deepcopy(dict(audit or true_audit()))
            shift = (i + 1) * (label + 1) / (len(methods) + 1) / (classes + 1)
            for row in one["results"]:
                row["rs"], row["delta_rs"] = shift, shift - 0.2
            audits[cell] = parse_result(one, "the toy audit")
            rows += rows_of(one, method, label, cell)
    failure = FailureRow(label=HOSTILE, kind="error", message=HOSTILE, attempts=2)
    return bench_of(Rows(audits=rows, failures=[failure], missing=1), audits, **more)


def bench_of(rows: Rows, audits: Mapping[str, AuditResult], **more: Any) -> Bench:
    """What a page of some rows is made of."""
    report = BenchReport(protocol=protocol(), rows=rows, tables=more.pop("tables", ()))
    return Bench(reports=[report], rows=rows, audits=audits, **more)
