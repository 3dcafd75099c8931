"""An audit as JUnit XML, which job pages of CI systems read: a test case for each forgotten class and each gate."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Literal, NamedTuple
from xml.etree import ElementTree as Xml

from sfra.auditing.result import AuditResult
from sfra.auditing.verdict import carrying, statement
from sfra.auditing.verdicts import VERDICTS, Kind
from sfra.core.errors import printable
from sfra.report.classes import class_name
from sfra.report.numbers import numbers

Outcome = Literal["passed", "failure", "error", "skipped"]

OUTCOMES: dict[Kind, Outcome] = {
    "back": "failure",
    "clear": "passed",
    "blind": "skipped",
    "open": "skipped",
    "unusable": "error",
}
"""What becomes of the test case of a class: a verdict that decides nothing is skipped, and a gate may fail on it."""


class _Case(NamedTuple):
    name: str
    outcome: Outcome
    kind: str
    """Verdict, or gate."""
    message: str


def junit(audit: AuditResult, judged: Mapping[str, str | None]) -> str:
    """Write an audit as JUnit XML; ``judged`` holds the gates, with what is to be said of one that failed."""
    failed: Outcome = "error" if VERDICTS[audit.verdict].kind == "unusable" else "failure"
    gates = (
        _Case(f"fail-if {gate}", failed if said else "passed", "gate", said or "") for gate, said in judged.items()
    )
    cases = [*_classes(audit), *gates]
    counts = {"tests": str(len(cases))}
    for name, outcome in {"failures": "failure", "errors": "error", "skipped": "skipped"}.items():
        counts[name] = str(sum(case.outcome == outcome for case in cases))
    seconds = f"{audit.seconds:.3f}"
    root = Xml.Element("testsuites", {"name": "sfra", "time": seconds, **counts})
    about = {"name": printable(f"sfra audit {audit.model.source}"), "time": seconds, "timestamp": audit.created[:19]}
    suite = Xml.SubElement(root, "testsuite", {**about, **counts})
    for place, case in enumerate(cases):
        owner = f"sfra.{printable(audit.model.source)}"
        spent = "0" if place else seconds
        node = Xml.SubElement(suite, "testcase", classname=owner, name=printable(case.name), time=spent)
        if case.outcome == "skipped":
            Xml.SubElement(node, "skipped", message=printable(case.message))
        elif case.outcome != "passed":
            Xml.SubElement(node, case.outcome, type=case.kind, message=printable(case.message)).text = _details(audit)
    Xml.indent(root)
    return Xml.tostring(root, encoding="unicode", xml_declaration=True).replace("'", '"', 4) + "\n"


def _classes(audit: AuditResult) -> Iterator[_Case]:
    each = {
        one.label: (one.verdict, statement(one.verdict, carrying(one.verdict, one.scores))) for one in audit.classes
    }
    usable = VERDICTS[audit.verdict].kind != "unusable"
    for label in audit.forget_classes:
        verdict, said = each.get(label, (audit.verdict, "")) if usable else (audit.verdict, "")
        name = f"{class_name(label, audit.class_names)} is forgotten"
        yield _Case(name, OUTCOMES[VERDICTS[verdict].kind], verdict, f"{verdict}: {said or audit.statement}")


def _details(audit: AuditResult) -> str:
    usable = audit.rs is not None and VERDICTS[audit.verdict].kind != "unusable"
    shown = [f"{name}: {value} ({meaning})" for name, value, meaning in numbers(audit)] if usable else []
    return printable("\n".join([*shown, *(f"{one.severity} {one.code}: {one.message}" for one in audit.findings)]))
