"""An ``audit.json`` on the disk, which may be a stranger's: read and checked against the types."""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from sfra.auditing.result import HEAD_FILE, SCHEMA, AuditResult
from sfra.core.errors import InputError
from sfra.core.files import alone
from sfra.core.text import parse_json


def read_result(file: Path) -> AuditResult:
    """Read an ``audit.json``, which may be a stranger's, of this version of the layout or of version 1.

    Raises:
        InputError: There is none, or it is not the result of an audit.
    """
    if not file.is_file():
        raise InputError(f"cannot read {file}", expected="an audit.json that sfra wrote", got="no such file")
    try:
        with alone(file.parent):
            found, head = parse_json(file.read_text(encoding="utf-8")), _digest(file.parent / HEAD_FILE)
    except (OSError, ValueError) as problem:  # also text that is not UTF-8
        do = "it may be truncated or changed by hand: copy it again, or repeat the audit"
        raise InputError(
            f"cannot read {file}", expected="an audit.json that sfra wrote, in UTF-8", got=problem, do=do
        ) from None
    result = parse_result(found, str(file))
    if result.relearned_head_digest and head and head != result.relearned_head_digest:
        raise InputError(
            f"audit.json and {HEAD_FILE} in {file.parent} are not of the same audit",
            expected=f"SHA-256 {result.relearned_head_digest[:16]}… of {HEAD_FILE}",
            got=f"{head[:16]}…",
            do="an audit may have been stopped while it wrote them: repeat it",
        )
    return result


def _digest(file: Path) -> str | None:
    """Return the SHA-256 of a file, or None if there is none."""
    if not file.is_file():
        return None
    with file.open("rb") as opened:
        return hashlib.file_digest(opened, "sha256").hexdigest()


def parse_result(content: object, source: str) -> AuditResult:
    """Check the content of an ``audit.json`` against the types; ``source`` names it in messages."""
    schema = content.get("schema") if isinstance(content, dict) else type(content).__name__
    if schema not in (SCHEMA, "sfra.audit/1", "sfra.audit/2"):
        raise InputError(
            f"{source} is not the result of an audit", expected=f'"schema": "{SCHEMA}"', got=repr(schema)[:80]
        )
    assert isinstance(content, dict)
    if schema == "sfra.audit/1":
        content = content | {"traces": content.get("trajectory")}
    if schema != SCHEMA:
        reference = content.get("reference")
        content = content | {"schema": SCHEMA, "references": [] if reference is None else [reference]}
    try:
        return msgspec.convert(content, AuditResult)
    except msgspec.ValidationError as problem:
        raise InputError(
            f"{source} is not what its schema promises",
            expected="an audit.json as sfra wrote it",
            got=str(problem)[:200],
            do="it may be changed by hand: copy it again, or repeat the audit",
        ) from None
