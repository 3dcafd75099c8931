"""``sfra explain``: every code that an audit may print can be looked up."""

from __future__ import annotations

import re
from typing import get_args

import pytest

from builders.cli import Run
from sfra.auditing.explain import explanations
from sfra.auditing.findings import FINDINGS
from sfra.auditing.verdicts import KINDS, VERDICTS, Kind


def words(text: str) -> str:
    return " ".join(text.split())


@pytest.mark.parametrize("code", sorted(FINDINGS))
def test_finding_is_explained_without_marks(run: Run, code: str) -> None:
    ran = run("explain", code)
    assert ran.code == 0
    assert re.search(rf"^{code}: a finding\.\n\nRaised when\. .*\n\nWhat to do\. ", ran.out, re.DOTALL | re.MULTILINE)
    assert not re.search(r"`|\*\*|\]\(", ran.out)
    first = words(explanations()[code][1])
    assert re.sub(r"`|\*\*|\]\([^)]*\)|\[", "", first)[:60] in words(ran.out)


@pytest.mark.parametrize("code", VERDICTS)
def test_verdict_is_explained_with_its_kind_and_what_to_do(run: Run, code: str) -> None:
    shown = words(run("explain", code).out)
    verdict = VERDICTS[code]
    assert shown.startswith(f"{code}: a verdict ({KINDS[verdict.kind].words}).")
    assert f"What it means. {verdict.meaning} What to do. {verdict.do}" in shown


def test_every_kind_of_verdict_is_put_into_words() -> None:
    assert set(KINDS) == set(get_args(Kind))


def test_without_a_code_all_are_listed(run: Run) -> None:
    lines = run("explain").out.splitlines()
    verdicts, findings = lines.index("Verdicts:"), lines.index("Findings:")
    assert [line.split()[0] for line in lines[verdicts + 1 : findings - 1]] == [*VERDICTS]
    assert [line.split()[0] for line in lines[findings + 1 : -2]] == [*FINDINGS]


def test_misspelt_code_is_refused_with_a_suggestion(run: Run) -> None:
    ran = run("explain", "recoverd")
    assert (ran.code, ran.out) == (2, "")
    assert "do:       write recovered" in ran.err
    assert "sfra explain, without a code, lists them" in run("explain", "zzz").err
