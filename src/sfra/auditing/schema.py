"""The JSON schema of ``audit.json``, made from the types and the registries."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec

from sfra.attack.scale import VARIANTS
from sfra.auditing.findings import FINDINGS
from sfra.auditing.result import SCHEMA, AuditResult
from sfra.auditing.rules import RULES
from sfra.auditing.verdicts import VERDICTS


def json_schema() -> dict[str, Any]:
    """Return the JSON schema of ``audit.json``: fields from the types, names from the registries."""
    schema: dict[str, Any] = msgspec.json.schema(AuditResult)
    names: dict[str, Iterable[str]] = {
        "verdict": VERDICTS,
        "rule": RULES,
        "variant": VARIANTS,
        "code": FINDINGS,
        "schema": (SCHEMA,),
    }
    for part in schema["$defs"].values():
        fields = part["properties"]
        part["required"] = [name for name, field in fields.items() if "default" not in field or name == "schema"]
        for name in names.keys() & fields.keys():
            fields[name] = {"enum": list(names[name])}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": SCHEMA} | schema
