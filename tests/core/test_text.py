"""JSON of strangers: read, or refused in our words; Python's advice on its own limits is never repeated."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from builders.cli import run
from sfra.core.text import parse_json

DIGITS = "9" * 5000
ADVICE = "set_int_max_str_digits"
TOO_LONG = "a number in it has more than 4,300 digits"


def test_what_json_reads_is_read_alike() -> None:
    text = '{"a": [1, -2.5, 1e3, null, true, "\\u00e9"], "b": 99999999999999999999}'
    assert parse_json(text) == parse_json(text.encode()) == json.loads(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ('{"a": ' + DIGITS + "}", TOO_LONG),
        ("[" * 100_000, "it is nested too deeply"),
        ("[-Infinity]", "-Infinity is not a number that JSON knows"),
        (b" \n", "it is empty"),
        ("{", "Expecting property name"),
        (b'"\xff"', "codec can't decode byte 0xff"),
    ],
)
def test_what_is_no_json_is_refused_with_the_reason(text: str | bytes, message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        parse_json(text)
    assert ADVICE not in str(caught.value)


def test_names_for_numbers_that_json_does_not_know_may_be_let_through() -> None:
    assert parse_json("[Infinity]", constants=True) == [float("inf")]


def test_a_number_without_end_is_one_message_of_ours(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "audit.json").write_text('{"schema": "sfra.audit/1", "rs": ' + DIGITS + "}")
    ran = run(capfd, "report", tmp_path)
    assert ran.code == 2
    assert f"  got:      {TOO_LONG}" in ran.err
    assert ADVICE not in ran.err
    assert len(ran.err) < 1000
