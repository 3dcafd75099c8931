"""Pages of audits: one file each, that opens anywhere and asks the network for nothing."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import msgspec

from sfra._version import __version__
from sfra.auditing.findings.registry import critical
from sfra.auditing.result import AuditResult, DataFacts, ReleaseFacts
from sfra.auditing.rules import RULES
from sfra.auditing.verdicts import KINDS, VERDICTS
from sfra.core.errors import counted
from sfra.report.classes import class_name
from sfra.report.figures import plan_audit, plan_audits
from sfra.report.figures.readings import forget_of
from sfra.report.numbers import class_rows, number, percent, signed
from sfra.report.page.charts import Charts, runtime
from sfra.report.page.diagnostics import diagnosis_tables
from sfra.report.page.html import asset, explanations, render, render_part, table
from sfra.report.page.repeat import command, command_notes, unusual
from sfra.report.sources import reading

View = dict[str, Any]


REFERENCE = "reference"
"""What stands for a verdict where the audited model is the reference itself."""

BADGES: Mapping[str, str] = {
    **{code: verdict.meaning for code, verdict in VERDICTS.items()},
    REFERENCE: "The reference itself: it never saw the class, so what comes back here is not memory.",
}
"""Every word that a page shows as a verdict, with what it means."""

PICTURE = "accuracy"
"""The figure that explains a verdict; it stands beside it, and the others below."""


def audit_page(audit: AuditResult, *, date: str, label: str | None = None) -> str:
    """Make the page of one audit.

    Args:
        audit: The result of the audit.
        date: What the page gives as its date; everything else in it depends on the audit alone.
        label: What the audit is called; by default what its model was.
    """
    charts, name = Charts(), label or audit.model.source
    view = audit_view(audit, charts, key="audit", label=name, alone=True)
    several = len(view["forget_names"]) > 1
    title = f"Have {forget_of(audit)} been forgotten?" if several else f"Has {view['forget_names'][0]} been forgotten?"
    return make_page("audits.html.j2", [view], charts, title=title, date=date, lead="", overview=[])


def overview_page(
    audits: Sequence[tuple[str, AuditResult]],
    *,
    date: str,
    title: str = "Which models have forgotten?",
    lead: str = "",
    about: Mapping[str, str] | None = None,
) -> str:
    """Make the page of several audits: one picture and a table of all, and each in detail.

    Args:
        audits: Name and result of each.
        date: What the page gives as its date.
        title: Heading of the page.
        lead: What the page is about, in a sentence or two below the heading.
        about: By name, what was audited, in a few words.
    """
    charts, first = Charts(), first_alike([audit for _, audit in audits])
    views = [
        audit_view(
            audit, charts, key=f"audit-{i}", label=name, like=f"audit-{first[i]}", about=(about or {}).get(name, "")
        )
        for i, (name, audit) in enumerate(audits)
    ]
    overview = charts.add("all", plan_audits(audits))
    return make_page("audits.html.j2", views, charts, title=title, date=date, lead=lead, overview=overview)


def make_page(template: str, views: Sequence[View], charts: Charts, *, title: str, date: str, **view: Any) -> str:
    """Render a page with what all pages have: runtime, script, style, and what its findings and verdicts mean."""
    codes = {finding.code for one in views for finding in one["findings"]}
    known = explanations()
    return render(
        template,
        scripts=[runtime(), asset("page.js")],
        data=charts.data,
        title=title,
        date=date,
        version=__version__,
        css=asset("page.css"),
        kinds=KINDS,
        verdicts={code: meaning for code, meaning in BADGES.items() if any(code in one["codes"] for one in views)},
        explanations={code: known[code] for code in sorted(codes & known.keys())},
        views=views,
        **view,
    )


def first_alike(audits: Sequence[AuditResult]) -> list[int]:
    """Return, for each audit, the position of the first with the same settings and versions."""
    places: dict[str, int] = {}
    same = [json.dumps([audit.settings, audit.versions], sort_keys=True) for audit in audits]
    return [places.setdefault(text, i) for i, text in enumerate(same)]


def audit_view(
    audit: AuditResult,
    charts: Charts,
    *,
    key: str,
    label: str,
    about: str = "",
    like: str = "",
    reference: bool = False,
    alone: bool = False,
    brief: bool = False,
) -> View:
    """Arrange and render an audit, or say that its content is not what its schema promises: it may be a stranger's.

    Args:
        audit: The result of the audit.
        charts: Where its charts go.
        key: Its name in the page.
        label: Its name for readers.
        about: What was audited, in a few words.
        like: Name in the page of the first audit with the same settings, which shows them.
        reference: Whether the audited model is what the others are compared with.
        alone: Whether the page has no other audit.
        brief: Whether the page has so many audits that each shows a few figures only.
    """
    with reading(label):
        badge = REFERENCE if reference else audit.verdict
        unlike = reference and audit.verdict == "no-reference"
        usable = audit.verdict != "unusable"
        gone = audit.verdict != "not-unlearned"
        shown = {
            name: one
            for name, one in plan_audit(audit).items()
            if one.figure.on_page and usable and (gone or name == PICTURE)
        }
        planned = {name: one for name, one in shown.items() if one.figure.brief or not brief}
        drawn = charts.add(key, planned, narrow=not brief)
        view = {
            "key": key,
            "label": label,
            "about": about,
            "like": like or key,
            "audit": audit,
            "alone": alone,
            "forget_names": [class_name(one, audit.class_names) for one in audit.forget_classes],
            "kind": "clear" if reference else VERDICTS[audit.verdict].kind,
            "badge": badge,
            "codes": {badge, *(one.verdict for one in audit.results), *(one.verdict for one in audit.classes)},
            "statement": BADGES[REFERENCE] if unlike else audit.statement if usable else BADGES[audit.verdict],
            "reading": reading_words(audit.scale, audit.rule, audit.variant) + how_found(audit),
            "measured": measured(audit),
            "rests": rests_on_class(audit) or rests_on_fresh_row(audit),
            "picture": [one for one in drawn if one["key"] == f"{key}-{PICTURE}"],
            "charts": [one for one in drawn if one["key"] != f"{key}-{PICTURE}"],
            "findings": critical(audit.findings) or audit.findings,
            **(score_tables(audit) if usable and gone else {"scores": {"rows": []}, "sweep": []}),
            "controls": control_table(audit) if usable and gone else None,
            "diagnostics": diagnosis_tables(audit) if usable and gone else [],
            "classes": class_table(audit) if usable else None,
            "settings": list(flat(audit.settings)),
            "versions": list(flat(audit.versions)),
            "facts": facts(audit),
            "command": command(audit),
            "command_notes": command_notes(audit),
            "unusual": unusual(audit.settings),
        }
        return view | {"html": render_part("audit.html.j2", view=view)}


def measured(audit: AuditResult) -> str:
    """Say in one phrase what was measured on and compared with."""
    if audit.data is None:
        return "nothing was measured"
    against = f", against {counted(len(audit.references), 'reference', 'references')}" if audit.references else ""
    return f"{counted(audit.data.samples, 'sample', 'samples')} of {audit.data.source}{against}"


def rests_on_class(audit: AuditResult) -> str:
    """Say so where the verdict is that of one of several classes, and not of the numbers that are shown."""
    gravest = [one for one in audit.classes if one.verdict == audit.verdict]
    if not gravest or VERDICTS[audit.verdict].kind == VERDICTS[audit.results[0].verdict].kind:
        return ""
    names = ", ".join(class_name(one.label, audit.class_names) for one in gravest)
    return (
        f"The verdict rests on {names}, see class by class. The numbers here are of all forgotten classes together, "
        f"which would say {audit.results[0].verdict}."
    )


def rests_on_fresh_row(audit: AuditResult) -> str:
    """Say so where the verdict rests on the reading with a fresh forget row, and not on the numbers that are shown."""
    if not audit.results or audit.classes or audit.verdict == audit.results[0].verdict:
        return ""
    first, *others = audit.results
    where = (first.scale, first.rule, "reset-row")
    fresh = next((one for one in others if (one.scale, one.rule, one.variant) == where), first)
    if VERDICTS[fresh.verdict].kind == VERDICTS[first.verdict].kind:
        return ""
    delta = "" if fresh.delta_rs is None else f", ΔRS {signed(fresh.delta_rs)}"
    return (
        f"The verdict rests on the reading with a fresh forget row: RS {number(fresh.rs)}{delta}, forget accuracy "
        f"{percent(fresh.forget_after)}. All other numbers here are of the row as released, which alone would say "
        f"{first.verdict}."
    )


def reading_words(scale: str, rule: str, variant: str) -> str:
    """Say in one phrase how the numbers were read.

    >>> reading_words("canonical", "source-free", "released")
    'canonical scale, source-free rule (last epoch: no real data is used), forget row as released'
    """
    at_scale = scale.replace("kappa=", "κ = ") if "=" in scale else f"{scale} scale"
    chosen = f"{rule} rule ({RULES[rule].sentence})" if rule in RULES else f"{rule} rule"
    return f"{at_scale}, {chosen}, {'forget row as released' if variant == 'released' else f'{variant} variant'}"


def how_found(audit: AuditResult) -> str:
    """Say how the size of the head was found, where it was."""
    return ". This size was found on hidden retain classes" if audit.calibration else ""


def score_tables(audit: AuditResult) -> dict[str, Any]:
    """Arrange all scores, the verdict's first, and those of a sweep apart."""
    spread = audit.rs_std is not None
    heads = ["Scale", "Forget row", "Rule", "RS", *(["± seeds"] if spread else []), "ΔRS", "Forget before"]
    heads += ["Forget after", "Retain before", "Retain after", "Epoch", "Alone it would say"]
    words = ("Forget row", "Rule", "Alone it would say")
    main: list[list[str]] = []
    others: list[list[str]] = []
    for one in audit.results:
        shares = (one.forget_before, one.forget_after, one.retain_before, one.retain_after)
        row = [
            one.scale.replace("kappa=", "κ = "),
            *("as released" if one.variant == "released" else one.variant, one.rule),
            *(number(one.rs), *([number(one.rs_std, 3)] if spread else [])),
            *(signed(one.delta_rs), *map(percent, shares)),
            *("–".join(map(str, sorted({min(one.epochs), max(one.epochs)}))), one.verdict),
        ]
        (main if one.scale in ("native", "canonical", audit.scale) else others).append(row)
    points = audit.sweep.points if audit.sweep else ()
    sweep = [
        [
            *(number(one.kappa), number(one.rs), number(one.reference_rs), signed(one.delta_rs)),
            *(percent(one.retain_after), percent(one.forget_after)),
        ]
        for one in points
    ]
    curve = ("κ", "RS", "Reference", "ΔRS", "Retain after", "Forget after")
    note = "The first line holds the numbers above."
    return {
        "scores": table("Every reading: scale, forget row and rule", heads, main, words=words, note=note),
        "sweep": [
            table("RS at each scale of the sweep", curve, sweep),
            table("Readings at the other scales of the sweep", heads, others, words=words),
        ]
        if sweep
        else [],
    }


def class_table(audit: AuditResult) -> Any:
    """Arrange each of several forgotten classes for itself; None for one class."""
    heads = ("Class", "Verdict", "Forget before", "Forget after", "RS", "ΔRS")
    rows = [[class_name(label, audit.class_names), *shown] for label, *shown in class_rows(audit)]
    return table("Each forgotten class for itself", heads, rows, words=heads[:2]) if rows else None


def control_table(audit: AuditResult) -> Any:
    """Arrange what the audit brought back of classes that are hidden by construction; None without controls."""
    heads = ("Hidden class", "Where", "Recognised before hiding", "Comes back", "RS", "ΔRS", "Seen")
    rows = [
        [
            ", ".join(class_name(label, audit.class_names) for label in one.classes),
            "original" if control.kind == "original" else "this model",
            *(percent(one.accuracy), percent(one.score.forget_after)),
            *(number(one.score.rs), signed(one.score.delta_rs)),
            one.seen_words,
        ]
        for control in audit.controls
        for one in control.hidden
    ]
    words = ("Hidden class", "Where", "Seen")
    return table("Classes that are only hidden, in the same audit", heads, rows, words=words) if rows else None


def facts(audit: AuditResult) -> list[tuple[str, str]]:
    """List what was audited, compared with and measured on."""
    many = len(audit.references) > 1
    found: list[tuple[str, Any]] = [("Model", audit.model)]
    found += [(f"Reference {i + 1}" if many else "Reference", one) for i, one in enumerate(audit.references)]
    found += [("Data", audit.data)] if audit.data else []
    return [(f"{what}: {name}", text) for what, one in found for name, text in flat(_plain(one))]


def _plain(one: ReleaseFacts | DataFacts) -> dict[str, Any]:
    """Turn facts into plain values, and what was done to images into words."""
    plain: dict[str, Any] = msgspec.to_builtins(one)
    done = getattr(one, "preprocess", None)
    return {**plain, **({} if done is None else {"preprocess": str(done)})}


def flat(value: Any, name: str = "", *, most: int = 24) -> Iterator[tuple[str, str]]:
    """Flatten nested values to pairs of a dotted name and a text; a long list of numbers is cut.

    >>> list(flat({"a": {"b": 1}, "c": [0.5, 2]}))
    [('a.b', '1'), ('c', '0.5, 2')]
    """
    if isinstance(value, Mapping):
        for key, item in value.items():
            yield from flat(item, f"{name}.{key}" if name else str(key), most=most)
    elif isinstance(value, list | tuple) and any(isinstance(item, Mapping | list | tuple) for item in value):
        for i, item in enumerate(value[:most]):
            yield from flat(item, f"{name}.{i}", most=most)
    elif isinstance(value, list | tuple):
        yield name, ", ".join(map(_text, value[:most])) + (f" … ({len(value)} in all)" if len(value) > most else "")
    else:
        yield name, _text(value)


def _text(value: Any) -> str:
    if value is None or isinstance(value, bool):
        return {None: "–", True: "yes", False: "no"}[value]
    return f"{value:.4g}" if isinstance(value, float) else str(value)
