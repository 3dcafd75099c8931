"""One audit: accuracies of the released and the relearned head, of the model and of its reference.

The figures of an audit take the content of an ``audit.json``, as ``sfra.audit(...).to_dict()`` returns it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from sfra.core.errors import InputError
from sfra.report.classes import label_name
from sfra.report.style import Chart, Style, altair, data, finish


def audit_accuracy_figure(report: Mapping[str, Any], *, style: Style | None = None) -> Chart:
    """Draw retain and forget accuracy of the released and the relearned head, and of the reference if there is one."""
    style = style or Style()
    rows = audit_accuracy_rows(report)
    value = {(row["subject"], row["classes"], row["head"]): row["accuracy"] for row in rows}
    forget = [value["model", "forget", head] for head in ("released", "relearned")]
    retain = [value["model", "retain", head] for head in ("released", "relearned")]
    return finish(
        _draw_accuracy(rows, style),
        style,
        title="Accuracy before and after relearning",
        subtitle=reading_of(report),
        description=f"Forget accuracy goes from {forget[0]:.1%} to {forget[1]:.1%}, "
        f"retain accuracy from {retain[0]:.1%} to {retain[1]:.1%}.",
    )


def audit_accuracy_rows(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Read the accuracies of the verdict's reading: of the model and, where there is one, of the reference."""
    first = headline(report)
    rows = []
    for subject, prefix in (("model", ""), ("reference", "reference_")):
        for classes in ("forget", "retain"):
            for head, when in (("released", "before"), ("relearned", "after")):
                accuracy = first.get(f"{prefix}{classes}_{when}")
                if accuracy is not None:
                    rows.append({"subject": subject, "classes": classes, "head": head, "accuracy": accuracy})
    return rows


def headline(report: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the reading that the verdict rests on."""
    if not report.get("results"):
        raise InputError(
            "there is nothing to draw: the audit measured nothing",
            expected="an audit with evaluation data",
            got=f"verdict {report.get('verdict')}",
            do="audit again with labelled test data",
        )
    first: Mapping[str, Any] = report["results"][0]
    return first


def reading_of(report: Mapping[str, Any]) -> str:
    """Say what was audited and how it is read."""
    return f"{forget_of(report)}. Scale {report['scale']}; rule {report['rule']}; forget row: {report['variant']}."


def forget_of(report: Mapping[str, Any]) -> str:
    """Name the forget classes.

    >>> forget_of({"forget_classes": [7]}), forget_of({"forget_classes": [1], "class_names": ["cat", "dog"]})
    ('Forget class 7', 'Forget class dog (1)')
    >>> forget_of({"forget_classes": [1, 6, 8]})
    'Forget classes 1, 6 and 8'
    """
    *first, last = (label_name(label, report.get("class_names")) for label in report["forget_classes"])
    return f"Forget classes {', '.join(first)} and {last}" if first else f"Forget class {last}"


def _draw_accuracy(rows: Sequence[dict[str, Any]], style: Style) -> Any:
    alt, colours = altair(), style.colours
    subjects = list(dict.fromkeys(row["subject"] for row in rows))
    width = style.width if len(subjects) == 1 else style.width // 2 - 10
    label = [row | {"bar": f"{row['classes']}, {row['head']}", "text": f"{row['accuracy']:.1%}"} for row in rows]
    order = [f"{classes}, {head}" for classes in ("forget", "retain") for head in ("released", "relearned")]
    panels = []
    for subject in subjects:
        mine = [row for row in label if row["subject"] == subject]
        axis = alt.Axis(ticks=False, domain=False) if subject == "model" else None
        base = alt.Chart(data(mine)).encode(
            y=alt.Y("bar:N", sort=order, title=None, axis=axis),
            x=alt.X(
                "accuracy:Q",
                scale=alt.Scale(domain=[0, 1], nice=False),
                axis=alt.Axis(format=".0%", values=[0, 0.5, 1], domain=False, ticks=False),
                title="accuracy",
            ),
        )
        tints = alt.Scale(domain=["forget", "retain"], range=[colours.forget, colours.retain])
        bars = base.mark_bar(size=15, strokeWidth=1.5).encode(
            fill=alt.Fill("classes:N", legend=None, scale=tints),
            stroke=alt.Stroke("classes:N", legend=None, scale=tints),
            fillOpacity=alt.condition("datum.head == 'relearned'", alt.value(0.9), alt.value(0.12)),
        )
        texts = [
            base.transform_filter(test).mark_text(
                align=side, dx=shift, fontSize=style.font_size, color=ink, fontWeight="bold"
            )
            for test, side, shift, ink in (
                ("datum.accuracy < 0.75", "left", 5, colours.ink),
                ("datum.accuracy >= 0.75 && datum.head == 'relearned'", "right", -5, colours.background),
                ("datum.accuracy >= 0.75 && datum.head != 'relearned'", "right", -5, colours.ink),
            )
        ]
        title = alt.TitleParams(text=subject, fontSize=style.font_size, offset=2)
        layers = alt.layer(bars, *(text.encode(text="text:N") for text in texts))
        panels.append(layers.properties(width=width, height=alt.Step(22), title=title if len(subjects) > 1 else ""))
    return alt.hconcat(*panels, spacing=20) if len(panels) > 1 else panels[0]
