"""An audit where people work in notebooks: a card with verdict, numbers and picture, the whole page, single figures."""

from __future__ import annotations

import base64
from collections.abc import Iterable
from datetime import UTC, datetime
from html import escape

from sfra.auditing.result import AuditResult
from sfra.auditing.verdicts import VERDICTS
from sfra.core.errors import InputError, MissingPackageError, meant
from sfra.report.classes import class_name
from sfra.report.export import drawable, render
from sfra.report.figures import Chart, plan_audit
from sfra.report.numbers import numbers
from sfra.report.page import audit_page
from sfra.report.page.audit import PICTURE, rests_on_fresh_row

EDGES = {"left": 36, "right": 24, "top": 5, "bottom": 5}
"""Pixels around a figure: DejaVu Sans, where a system has no Arial or the like, is a sixth wider."""


def card(audit: AuditResult) -> str:
    """Show verdict, numbers, picture and findings as a piece of HTML; scripts and network are not needed."""
    verdict = f'<strong style="font-size: 1.25em">{escape(audit.verdict)}</strong>'
    lost = ", ".join(class_name(label, audit.class_names) for label in audit.forget_classes)
    parts = [
        f"<p>{verdict}<br>{_text(audit.statement)}</p>",
        f"<p>{_text(f'{audit.model.source}; forgotten: {lost}')}</p>",
    ]
    if audit.rs is not None and audit.verdict != "unusable":
        rests = rests_on_fresh_row(audit)
        parts += [_table(numbers(audit)), *([f"<p>{_text(rests)}</p>"] if rests else []), _picture(audit)]
    codes = ", ".join(f"{finding.code} ({finding.severity})" for finding in audit.findings)
    parts += [f"<p>Findings: {_text(codes)}. <code>sfra explain CODE</code> says more.</p>"] if codes else []
    edge = f"border-left: 6px solid {VERDICTS[audit.verdict].look.light}; padding-left: 1em"
    return f'<div style="max-width: 52em; line-height: 1.45; {edge}">{"".join(parts)}</div>'


def page(audit: AuditResult) -> str:
    """Make the page of ``sfra report``."""
    return audit_page(audit, date=datetime.now(UTC).date().isoformat())


def plot(audit: AuditResult, name: str) -> Chart:
    """Draw a figure by its name, with room for letters that are wider than those it is measured with."""
    planned = plan_audit(audit)
    if name not in planned:
        raise InputError("there is no such figure", expected=", ".join(planned), got=name, do=meant(name, planned))
    return planned[name].draw().properties(padding=EDGES)


def _table(rows: Iterable[tuple[str, str, str]]) -> str:
    """Lay out labels, numbers and explanations; only the last column wraps."""
    cell = "padding: 0.1em 1.2em 0.1em 0; text-align: left"
    whole = f'<td style="{cell}; white-space: nowrap">'
    lines = (
        f'<tr>{whole}{_text(label)}</td>{whole}{_text(value)}</td><td style="{cell}">{_text(meaning)}</td></tr>'
        for label, value, meaning in rows
    )
    return f"<table>{''.join(lines)}</table>"


def _picture(audit: AuditResult) -> str:
    """Draw accuracies before and after as an image; without the packages for it, say which are missing."""
    try:
        svg = render(plot(audit, PICTURE), "svg")
    except MissingPackageError:
        return "<p>A picture needs <code>pip install 'sfra[report]'</code>.</p>"
    source = f"data:image/svg+xml;base64,{base64.b64encode(svg).decode()}"
    return f'<img src="{source}" alt="What comes back, and what it costs" style="background: white; max-width: 100%">'


def _text(text: str) -> str:
    return escape(drawable(text))
