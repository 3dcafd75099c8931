"""An audit as JUnit XML: outcomes of classes and gates, counts, and names that are no XML."""

from __future__ import annotations

from xml.etree import ElementTree as Xml

import msgspec
import pytest

from builders.audits import FORGET, QUICK, compare, hidden, never_seen
from sfra.auditing.result import AuditResult
from sfra.auditing.verdicts import VERDICTS
from sfra.report.junit import junit


@pytest.fixture(scope="module")
def audit() -> AuditResult:
    return compare(hidden(), never_seen(), **QUICK)


@pytest.fixture(scope="module")
def several() -> AuditResult:
    return compare(hidden(), None, (1, FORGET), **QUICK)


def outcomes(audit: AuditResult, **judged: str | None) -> dict[str, str]:
    """Read the test cases as a CI system does, after the counts were checked."""
    root = Xml.fromstring(junit(audit, judged))  # noqa: S314 - our own text
    cases = root.findall("testsuite/testcase")
    found = {case.attrib["name"]: case[0].tag if len(case) else "passed" for case in cases}
    assert len(found) == len(cases)
    for node in (root, *root.findall("testsuite")):
        counts = {name: int(node.attrib[f"{name}s".replace("skippeds", "skipped")]) for name in COUNTED}
        assert counts == {"test": len(cases)} | {name: [*found.values()].count(name) for name in COUNTED[1:]}
    assert sum(float(case.attrib["time"]) for case in cases) == pytest.approx(float(root.attrib["time"]))
    return found


COUNTED = ("test", "failure", "error", "skipped")


@pytest.mark.parametrize(
    ("kind", "outcome"),
    [("back", "failure"), ("clear", "passed"), ("blind", "skipped"), ("open", "skipped"), ("unusable", "error")],
)
def test_the_kind_of_the_verdict_decides_the_outcome_of_a_class(audit: AuditResult, kind: str, outcome: str) -> None:
    for code in (code for code, verdict in VERDICTS.items() if verdict.kind == kind):
        assert outcomes(msgspec.structs.replace(audit, verdict=code)) == {f"class {FORGET} is forgotten": outcome}


def test_a_gate_is_a_case_of_its_own_that_fails_or_errs(audit: AuditResult) -> None:
    judged = {"rs > 0.5": "gate failed: rs > 0.5 (rs is 0.7)", "rs > 0.9": None}
    gates = {"fail-if rs > 0.5": "failure", "fail-if rs > 0.9": "passed"}
    clear = msgspec.structs.replace(audit, verdict="generic")
    assert outcomes(clear, **judged) == {f"class {FORGET} is forgotten": "passed", **gates}
    unusable = outcomes(msgspec.structs.replace(audit, verdict="unusable"), **judged)
    assert (unusable["fail-if rs > 0.5"], unusable["fail-if rs > 0.9"]) == ("error", "passed")


def test_each_of_several_classes_has_its_own_outcome(several: AuditResult) -> None:
    assert outcomes(several)["class 1 is forgotten"] == "failure"  # it was never unlearned
    kind = VERDICTS[several.classes[1].verdict].kind
    assert kind != "back"
    assert outcomes(several)[f"class {FORGET} is forgotten"] == "skipped"
    unusable = msgspec.structs.replace(several, verdict="unusable")
    assert set(outcomes(unusable).values()) == {"error"}


def test_names_that_are_no_xml_stay_text(audit: AuditResult) -> None:
    names = tuple(f'<b&"{chr(27)}{chr(0xDCFF)}{k}' for k in range(6))
    told = outcomes(msgspec.structs.replace(audit, class_names=names, verdict="recovered"))
    assert told == {f'<b&"??{FORGET} ({FORGET}) is forgotten': "failure"}
