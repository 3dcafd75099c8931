"""Pages of results: one file each, that opens anywhere and asks the network for nothing."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from sfra._version import __version__
from sfra.auditing.result import SCHEMA, read_result
from sfra.auditing.verdict import VERDICTS
from sfra.bench.contents import Origin
from sfra.core.errors import InputError
from sfra.report import vega
from sfra.report.export import Exported, export_audit
from sfra.report.html import asset, embed_json, explanations, render, render_part
from sfra.report.page_audit import audit_view
from sfra.report.page_runs import audit_data, page_runs

Audit = Mapping[str, Any]


def read_audit(path: str | Path) -> dict[str, Any]:
    """Read an ``audit.json``, or that of a folder.

    Raises:
        InputError: There is none, or it is not the result of an audit.
    """
    given = Path(path)
    file = given / "audit.json" if given.is_dir() else given
    if not file.is_file():
        raise InputError(
            "there is no audit to report",
            expected="an audit.json, or a folder with one",
            got=given,
            do="keep an audit with sfra audit … --out DIR, and pass that folder",
        )
    return read_result(file).to_dict()


def find_audits(paths: Sequence[str | Path]) -> list[tuple[str, dict[str, Any]]]:
    """Read audits with a name each: files, folders with an ``audit.json``, and folders of such folders.

    Raises:
        InputError: One of the paths holds no audit.
    """
    found = [file for path in paths for file in _files(Path(path))]
    names = [file.resolve().parent.name if file.name == "audit.json" else file.stem for file in found]
    clear = [name if names.count(name) == 1 else f"{name} ({i + 1})" for i, name in enumerate(names)]
    return [(name, read_audit(file)) for name, file in zip(clear, found, strict=True)]


def export_audits(audits: Sequence[tuple[str, Audit]], folder: Path, format: str) -> Exported:
    """Write every figure of audits, as :func:`find_audits` names them; of several, each into a folder of its name."""
    out = Exported()
    for name, audit in audits:
        one = export_audit(audit, folder if len(audits) == 1 else folder / name, format)
        out.written.extend(one.written)
        out.left_out.update({f"{name}: {figure}": reason for figure, reason in one.left_out.items()})
    return out


def audit_page(audit: Audit, *, date: str, label: str | None = None) -> str:
    """Make the page of one audit.

    Args:
        audit: The content of an ``audit.json``.
        date: What the page gives as its date; everything else in it depends on the audit alone.
        label: What the audit is called; by default what its model was.
    """
    model = audit.get("model")
    name = label or str(model.get("source") if isinstance(model, dict) else "a model")
    view = checked_view(audit, key="audit", label=name, template="single.html.j2", all_runs=True)
    return make_page(
        "audit.html.j2",
        title=f"Audit of {name}",
        date=date,
        data=page_runs({"audit": audit_data(audit)}),
        view=view,
        codes=[finding["code"] for finding in audit["findings"]],
    )


def overview_page(
    audits: Sequence[tuple[str, Audit]],
    *,
    date: str,
    title: str = "Audits",
    lead: str = "",
    about: Mapping[str, str] | None = None,
) -> str:
    """Make the page of several audits: a table of all, and each in detail.

    Args:
        audits: Name and content of each ``audit.json``.
        date: What the page gives as its date.
        title: Heading of the page.
        lead: What the page is about, in a sentence or two below the heading.
        about: By name, what was audited, in a few words.
    """
    first = first_alike([audit for _, audit in audits])
    views = [
        checked_view(audit, key=f"audit-{i}", label=name, about=(about or {}).get(name, ""), like=f"audit-{first[i]}")
        for i, (name, audit) in enumerate(audits)
    ]
    return make_page(
        "overview.html.j2",
        title=title,
        date=date,
        data=data_of(views),
        views=views,
        lead=lead,
        codes=codes_of(views),
    )


def make_page(
    template: str,
    *,
    title: str,
    date: str,
    data: Mapping[str, Any],
    codes: Sequence[str],
    verdicts: Mapping[str, str] = VERDICTS,
    **view: Any,
) -> str:
    """Render a page with what all pages have: runtime, script, style, and what its findings and verdicts mean."""
    known = explanations()
    shared = {
        "colours": vega.colours(),
        "specs": {"trajectory": vega.trajectory_spec(), "sweep": vega.sweep_spec()},
    }
    return render(
        template,
        scripts=[vega.runtime(), asset("page.js")],
        data={**shared, **data},
        title=title,
        date=date,
        version=__version__,
        css=asset("page.css"),
        verdicts=verdicts,
        explanations={code: known[code] for code in sorted(set(codes)) if code in known},
        **view,
    )


def first_alike(audits: Sequence[Audit]) -> list[int]:
    """Return, for each audit, the position of the first with the same settings and versions.

    >>> one, other = {"settings": 1, "versions": 1}, {"settings": 2, "versions": 1}
    >>> first_alike([one, other, one])
    [0, 1, 0]
    """
    places: dict[str, int] = {}
    same = [json.dumps([audit.get("settings"), audit.get("versions")], sort_keys=True) for audit in audits]
    return [places.setdefault(text, i) for i, text in enumerate(same)]


def checked_view(
    audit: Audit,
    *,
    key: str,
    label: str,
    about: str = "",
    like: str = "",
    reference: bool = False,
    template: str = "details.html.j2",
    all_runs: bool = False,
) -> dict[str, Any]:
    """Arrange and render an audit, or say that its content is not what its schema promises: it may be a stranger's.

    Args:
        audit: The content of an ``audit.json``.
        key: Its name in the page.
        label: Its name for readers.
        about: What was audited, in a few words.
        like: Name in the page of the first audit with the same settings, which shows them.
        reference: Whether the audited model is what the others are compared with.
        template: What to render it with.
        all_runs: Whether the page will carry every run, as one of a single audit does.
    """
    content = f"content as {SCHEMA} describes it"
    with Origin(what=f"the audit {label}", do="audit again with --out", expected=content).reading():
        view = audit_view(audit, key=key, label=label, reference=reference) | {"about": about, "like": like or key}
        embed_json(audit_data(audit, all_runs=all_runs))
        return view | {"html": render_part(template, view=view)}


def data_of(views: Sequence[Mapping[str, Any]], *, all_runs: bool = False) -> dict[str, Any]:
    """Return the curves of several audits, for the page's script."""
    return page_runs({view["key"]: audit_data(view["audit"], all_runs=all_runs) for view in views})


def codes_of(views: Sequence[Mapping[str, Any]]) -> list[str]:
    """List the findings of several audits."""
    return [finding["code"] for view in views for finding in view["audit"]["findings"]]


def _files(path: Path) -> list[Path]:
    """List the audits of a path; the path itself if there is none, for the message."""
    if path.is_dir() and not (path / "audit.json").is_file():
        return sorted(path.glob("*/audit.json")) or [path]
    return [path / "audit.json" if path.is_dir() else path]
