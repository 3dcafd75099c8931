"""The whole story on embedded real data: train, unlearn in different ways, audit all, compare."""

from __future__ import annotations

import json
import tempfile
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from sfra.auditing.audit import audit
from sfra.auditing.result import AuditReport
from sfra.core.errors import MissingPackageError
from sfra.core.files import write_atomically
from sfra.core.types import Progress
from sfra.demo.models import ARCH, NamedModel, digits_models

FORGET = 7
"""The digit that the demonstration forgets."""

PAGE = "report.html"
"""Name of the page in the folder of the demonstration."""

ACCURACIES = ("retain_before", "forget_before", "retain_after", "forget_after")
"""Columns of the table."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Audited:
    """A model of the demonstration and what its audit found."""

    model: NamedModel
    report: AuditReport

    def row(self) -> dict[str, Any]:
        """Return the row of the table."""
        about = {"model": self.model.name, "story": self.model.story}
        numbers = {name: getattr(self.report.results[0], name) for name in (*ACCURACIES, "rs", "delta_rs")}
        return about | numbers | {"verdict": self.report.verdict}

    def reference_row(self) -> dict[str, Any]:
        """Return the reference's own numbers in the same audit."""
        about = {"model": "reference", "story": "trained without the class: what ΔRS compares with"}
        numbers = {name: getattr(self.report.results[0], f"reference_{name}") for name in ACCURACIES}
        return about | numbers | {"rs": self.report.reference_rs, "delta_rs": 0.0, "verdict": "reference"}


@dataclass(frozen=True, kw_only=True, eq=False)
class DemoResult:
    """The audited releases; the reference's own score stands in each of their reports."""

    forget: int
    audited: tuple[Audited, ...]
    reference_rs: float
    out: Path | None

    @property
    def rows(self) -> list[dict[str, Any]]:
        """One row per audited release, the reference first."""
        return [self.audited[0].reference_row(), *(one.row() for one in self.audited)]

    @property
    def page(self) -> Path | None:
        """The page, if there is one: it needs a folder, and the packages of the extra ``report``."""
        return self.out / PAGE if self.out is not None and (self.out / PAGE).is_file() else None

    def to_dict(self) -> dict[str, Any]:
        """Return everything that a page about the demonstration shows."""
        return {
            "schema": "sfra.demo/1",
            "data": "digits",
            "forget": self.forget,
            "reference_rs": self.reference_rs,
            "rows": self.rows,
            "recipes": {one.model.name: one.model.recipe for one in self.audited},
            "audits": {one.model.name: one.report.to_dict() for one in self.audited},
        }


def run_demo(out: Path | None = None, *, seed: int = 0, progress: Progress | None = None) -> DemoResult:
    """Train a digits classifier, make it forget one digit in several ways, and audit every release.

    Args:
        out: Folder for the models, one audit folder per release, ``demo.json`` and a page of it all; nothing is kept
            without it.
        seed: Of the trainings; the audits use seed 0.
        progress: Told what is going on, how many parts are done and of how many.
    """
    tell = progress or (lambda stage, done, total: None)
    made: list[str] = []

    def making(name: str) -> None:
        tell(f"making the model {name}", len(made), 7)
        made.append(name)

    models = digits_models((FORGET,), seed=seed, progress=making)
    with tempfile.TemporaryDirectory() as scratch:
        folder = out / "models" if out is not None else Path(scratch)
        paths = {model.name: model.save(folder) for model in models}
        releases = [model for model in models if model.role == "release"]
        audited = []
        for done, model in enumerate(releases):
            tell(f"auditing {model.name}", done, len(releases))
            report = audit(
                str(paths[model.name]), FORGET, data="digits", reference=str(paths["reference"]), arch=ARCH, cache=False
            )
            audited.append(Audited(model=model, report=report))
    result = DemoResult(
        forget=FORGET, audited=tuple(audited), reference_rs=audited[0].report.reference_rs or 0.0, out=out
    )
    if out is not None:
        for one in result.audited:
            one.report.save(out / one.model.name)
        text = json.dumps(result.to_dict(), indent=1, ensure_ascii=False, allow_nan=False)
        write_atomically(out / "demo.json", text.encode())
        _write_page(result, out / PAGE)
    return result


def _write_page(result: DemoResult, path: Path) -> None:
    """Write the page, or remove that of an earlier run where the packages for a new one are missing."""
    from sfra.report import overview_page

    try:
        page = overview_page(
            [(one.model.name, one.report) for one in result.audited],
            date=datetime.now(UTC).date().isoformat(),
            title=f"Digits that forgot the {result.forget}",
            lead=f"One network learned all ten digits and was made to forget the {result.forget} in several ways. Each "
            "release is audited against a reference that was trained without that digit and gets an RS of "
            f"{result.reference_rs:.2f} in the same audit.",
            about={one.model.name: one.model.story for one in result.audited},
        )
    except MissingPackageError:
        path.unlink(missing_ok=True)
    else:
        write_atomically(path, page.encode())
