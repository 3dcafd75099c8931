"""From a view to one HTML file: templates that escape, numbers for readers, and a policy that forbids the network."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.resources import files
from math import isfinite
from typing import Any

from sfra.core.errors import MissingPackageError

MISSING = "–"
"""Stands for what was not measured."""

_MINUS = re.compile(r"(?<![\w.)\]-])-(?=\.?\d)")
_CODE = re.compile(r"`([^`]+)`|\*\*([^*]+)\*\*|\[([^\]]+)\]\([^)]*\)")


def render(template: str, *, scripts: Sequence[str], data: Any, **view: Any) -> str:
    """Fill a template; its scripts are written into the file, and no others can run.

    Args:
        template: Name of a file in ``templates``.
        scripts: JavaScript, in order; the policy of the page names their hashes.
        data: What the scripts read, as plain values.
        view: What the template shows; every text in it is escaped.
    """
    engine = _environment()
    return str(
        engine.get_template(template).render(
            **view, scripts=[_safe(script) for script in scripts], policy=policy(scripts), data=embed_json(data)
        )
    )


def render_part(template: str, **view: Any) -> Any:
    """Fill a template that becomes part of a page.

    Raises:
        ValueError: The view lacks something that the template shows.
    """
    try:
        return _safe(_environment().get_template(template).render(**view))
    except _package("jinja2").TemplateError as problem:
        raise ValueError(str(problem)) from None


def policy(scripts: Sequence[str]) -> str:
    """Write the content security policy: nothing is loaded, and only these scripts run.

    >>> policy([]).startswith("default-src 'none'")
    True
    """
    hashes = [base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts]
    allowed = " ".join(f"'sha256-{one}'" for one in hashes) or "'none'"
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; base-uri 'none'; "
        "form-action 'none'"
    )


def embed_json(value: Any) -> Any:
    r"""Write JSON that can stand inside a ``script`` element: nothing in it ends the element or opens a comment.

    >>> print(embed_json({"a": "</script>"}))
    {"a":"\u003c/script>"}
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    for character in "<\u2028\u2029":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return _safe(text)


def number(value: float | None, digits: int = 2) -> str:
    """Write a number for a reader.

    >>> number(0.456), number(None), number(-0.001)
    ('0.46', '–', '0.00')
    """
    if value is not None and not isfinite(value):
        raise ValueError(f"{value} cannot be shown")
    return MISSING if value is None else f"{value:z.{digits}f}".replace("-", "−")


def signed(value: float | None, digits: int = 2) -> str:
    """Write a difference with its sign, but zero without.

    >>> signed(0.456), signed(-0.456), signed(0.001)
    ('+0.46', '−0.46', '0.00')
    """
    text = number(value, digits)
    return f"+{text}" if value is not None and value > 0 and float(text) > 0 else text


def percent(value: float | None, digits: int = 1) -> str:
    """Write a share in percent.

    >>> percent(0.4567)
    '45.7 %'
    """
    return MISSING if value is None else f"{number(100 * value, digits)} %"


def minus(text: str) -> str:
    """Write the minus of numbers within a text as one; hyphens of names stay.

    >>> minus("-0.5 against +0.1, reset-row, 2-norm")
    '−0.5 against +0.1, reset-row, 2-norm'
    """
    return _MINUS.sub("−", str(text))


def span(values: Sequence[float] | None, *, sign: bool = False) -> str:
    """Write an interval.

    >>> span([0.1, 0.3]), span([-0.1, 0.3], sign=True)
    ('0.10 to 0.30', '−0.10 to +0.30')
    """
    write = signed if sign else number
    return MISSING if values is None else f"{write(values[0])} to {write(values[1])}"


def explanations() -> dict[str, list[str]]:
    """Return the paragraphs that explain each finding, by code, as HTML; :mod:`sfra.auditing.findings` raises them."""
    sections = asset("flags.md").split("\n## ")[1:]
    parts = [section.strip().split("\n\n") for section in sections]
    return {heading.strip("`"): [inline(text) for text in texts] for heading, *texts in parts}


def inline(text: str) -> Any:
    """Turn a paragraph of Markdown into HTML: code and bold; a link becomes its text, for pages stand alone.

    >>> print(inline("**When.** `a < b`, see [there](x.md)"))
    <strong>When.</strong> <code>a &lt; b</code>, see there
    """
    markup = _package("markupsafe")
    flat, done, last = " ".join(text.split()), [], 0
    for match in _CODE.finditer(flat):
        code, bold, link = match.groups()
        tag = "code" if code else "strong" if bold else None
        inner = markup.escape(code or bold or link)
        done += [markup.escape(flat[last : match.start()]), f"<{tag}>{inner}</{tag}>" if tag else inner]
        last = match.end()
    return _safe("".join(map(str, [*done, markup.escape(flat[last:])])))


def asset(name: str) -> str:
    """Read a file of ``templates``."""
    return (files("sfra.report") / "templates" / name).read_text(encoding="utf-8")


@cache
def _environment() -> Any:
    jinja = _package("jinja2")
    engine = jinja.Environment(
        loader=jinja.FunctionLoader(asset),
        autoescape=True,
        undefined=jinja.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    engine.filters.update({write.__name__: write for write in (number, signed, percent, span, minus)})
    return engine


def _safe(text: str) -> Any:
    return _package("markupsafe").Markup(text)  # only for our own scripts, and for text that was escaped above


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MissingPackageError(f"reports need the package {name}", do="pip install 'sfra[report]'") from None
