"""What a page shows of one audit: its numbers, arranged for reading; nothing is computed anew but shares."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from sfra.report.classes import class_name
from sfra.report.page_numbers import MOST_CLASSES, diagnosis_tables
from sfra.report.page_repeat import command, command_notes, unusual
from sfra.report.page_runs import measured
from sfra.report.page_text import BADGES, REFERENCE, reading_place, reading_words, variant_words

Audit = Mapping[str, Any]

TONES = {
    "recovered": "alarm",
    "recovered-after-reset": "alarm",
    "generic": "calm",
    "not-recovered": "calm",
    REFERENCE: "calm",
}
"""How a verdict is coloured; the others ask for care."""


def audit_view(audit: Audit, *, key: str, label: str, reference: bool = False) -> dict[str, Any]:
    """Arrange an audit for its template.

    Args:
        audit: The content of an ``audit.json``.
        key: Name of the audit within the page, for anchors.
        label: What the audit is called.
        reference: Whether the audited model is the reference itself.
    """
    badge = REFERENCE if reference else audit["verdict"]
    unlike = reference and audit["verdict"] == "no-reference"
    return {
        "key": key,
        "label": label,
        "audit": audit,
        "forget_names": [class_name(label, audit.get("class_names")) for label in audit["forget_classes"]],
        "tone": TONES.get(badge, "care"),
        "badge": badge,
        "statement": BADGES[REFERENCE] if unlike else audit["statement"],
        "limits": [f"{100 * audit['settings'][name]:.3g}" for name in ("epsilon_r", "delta_f")],
        "reading": reading_words(audit["scale"], audit["rule"], audit["variant"]),
        "bars": accuracy_bars(audit),
        "strip": score_strip(audit),
        "confusion": confusion(audit),
        "acceptance": acceptance(audit),
        "readings": readings(audit),
        "diagnostics": diagnosis_tables(audit),
        "reading_place": reading_place(audit["scale"], audit["variant"]),
        "settings": list(flat(audit["settings"])),
        "versions": list(flat(audit["versions"])),
        "facts": facts(audit),
        "command": command(audit),
        "command_notes": command_notes(audit),
        "unusual": unusual(audit["settings"]),
        "has_runs": bool(measured(audit)),
    }


def accuracy_bars(audit: Audit) -> list[dict[str, Any]]:
    """List the accuracies before and after relearning, of the model and of its reference."""
    model = [
        {"who": "model", "what": what, "before": audit[what]["before"], "after": audit[what]["after"]}
        for what in ("forget", "retain")
    ]
    main = audit["results"][0] if audit["results"] else {}
    reference = [
        {
            "who": "reference",
            "what": what,
            "before": main.get(f"reference_{what}_before"),
            "after": main.get(f"reference_{what}_after"),
        }
        for what in ("forget", "retain")
    ]
    return model + [bar for bar in reference if bar["after"] is not None]


def score_strip(audit: Audit) -> list[dict[str, Any]]:
    """List what is marked on the line from 0 to 1, in words and places."""
    known = [("floor", audit["floor"]), ("reference", audit["reference_rs"]), ("model", audit["rs"])]
    return [{"kind": kind, "value": value} for kind, value in known if value is not None]


def confusion(audit: Audit) -> list[dict[str, Any]]:
    """Say, per forget class, what its samples are taken for before and after; the rarest answers are summed up."""
    found = audit["confusion"]
    if found is None:
        return []
    return [
        {
            "name": class_name(label, audit.get("class_names")),
            "rows": _answers(audit, label, before, after),
            "samples": sum(before),
        }
        for label, before, after in zip(found["classes"], found["before"], found["after"], strict=True)
    ]


def _answers(audit: Audit, forget: int, before: Sequence[int], after: Sequence[int]) -> list[dict[str, Any]]:
    total = max(sum(before), 1)
    order = sorted(range(len(before)), key=lambda c: (c != forget, -max(before[c], after[c]), c))
    shown = [c for c in order if before[c] or after[c] or c == forget][:MOST_CLASSES]
    rows = [(class_name(c, audit.get("class_names")), before[c], after[c], c == forget) for c in shown]
    rest = [c for c in order if c not in shown and (before[c] or after[c])]
    if rest:
        rows.append((f"{len(rest)} others", sum(before[c] for c in rest), sum(after[c] for c in rest), False))
    return [
        {"name": name, "before": b, "after": a, "share_before": b / total, "share_after": a / total, "own": own}
        for name, b, a, own in rows
    ]


def acceptance(audit: Audit) -> dict[str, Any] | None:
    """Say which share of the random draws each class won, in the run that the verdict rests on."""
    runs = [p for p in audit["probes"] if (p["scale"], p["variant"]) == (audit["scale"], audit["variant"])]
    if not runs:
        return None
    shares = runs[0]["acceptance"]
    largest = max(shares, default=0.0) or 1.0
    order = sorted(range(len(shares)), key=lambda c: (-shares[c], c))
    shown = order if len(order) <= MOST_CLASSES else order[:10] + order[-10:]
    rows = [
        {
            "name": class_name(c, audit.get("class_names")),
            "share": shares[c],
            "bar": shares[c] / largest,
            "conditional": str(c) in runs[0]["conditional"],
        }
        for c in shown
    ]
    return {"rows": rows, "left_out": len(order) - len(shown), "run": runs[0]}


def readings(audit: Audit) -> list[dict[str, Any]]:
    """List all readings, with their names in words; the verdict's is marked."""
    main = (audit["scale"], audit["variant"], audit["rule"])
    return [
        {
            **row,
            "main": (row["scale"], row["variant"], row["rule"]) == main,
            "row": variant_words(row["variant"]),
            "of_sweep": row["scale"] not in ("native", "canonical", audit["scale"]),
        }
        for row in audit["results"]
    ]


def facts(audit: Audit) -> list[tuple[str, str]]:
    """List what was audited, compared with and measured on."""
    rows = [("Model", audit["model"]), ("Reference", audit["reference"]), ("Data", audit["data"])]
    return [(f"{what}: {name}", value) for what, found in rows if found for name, value in flat(found)]


def flat(value: Any, name: str = "", *, most: int = 24) -> Iterator[tuple[str, str]]:
    """Flatten nested values to pairs of a dotted name and a text; a long list of numbers is cut.

    >>> list(flat({"a": {"b": 1}, "c": [0.5, 2]}))
    [('a.b', '1'), ('c', '0.5, 2')]
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from flat(item, f"{name}.{key}" if name else str(key), most=most)
    elif isinstance(value, list) and any(isinstance(item, Mapping | list) for item in value):
        for i, item in enumerate(value[:most]):
            yield from flat(item, f"{name}.{i}", most=most)
    elif isinstance(value, list):
        yield name, ", ".join(map(_text, value[:most])) + (f" … ({len(value)} in all)" if len(value) > most else "")
    else:
        yield name, _text(value)


def _text(value: Any) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
