"""From a view to one HTML file: templates that escape, and a policy that forbids the network."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import zlib
from collections.abc import Sequence
from functools import cache
from importlib import import_module
from importlib.resources import files
from pathlib import Path
from typing import Any

from sfra.auditing import explain
from sfra.auditing.rules import RULES
from sfra.core.errors import MissingPackageError
from sfra.report.numbers import minus, number, percent, signed, span


def render(template: str | Path, *, scripts: Sequence[str], data: Any, **view: Any) -> str:
    """Fill a template; its scripts are written into the file, and no others can run.

    Args:
        template: Name of a file in ``templates``, or the path of another that extends one of them.
        scripts: JavaScript, in order; the policy of the page names their hashes.
        data: What the scripts read, as plain values.
        view: What the template shows; every text in it is escaped.
    """
    ours = [_package("markupsafe").Markup(script) for script in scripts]
    return str(_template(template).render(**view, scripts=ours, policy=policy(scripts), data=packed(data)))


def render_part(template: str, **view: Any) -> Any:
    """Fill a template that becomes part of a page.

    Raises:
        ValueError: The view lacks something that the template shows.
    """
    try:
        return _package("markupsafe").Markup(_template(template).render(**view))  # escaped by the template
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


def packed(value: Any) -> str:
    """Write plain values as text that can stand anywhere in a page: JSON, compressed, in Base64.

    >>> "<" in packed({"a": "</script>"}), zlib.decompress(base64.b64decode(packed({"a": "</script>"})))
    (False, b'{"a":"</script>"}')
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode(errors="replace"), 9)).decode()


def table(
    title: str, heads: Sequence[str], rows: Sequence[Sequence[str]], *, words: Sequence[str] = (), note: str = ""
) -> dict[str, Any]:
    """Arrange a table for its template; the first column and those of words are not numeric."""
    columns = [{"heading": head, "numeric": i > 0 and head not in words} for i, head in enumerate(heads)]
    return {"title": title, "columns": columns, "rows": rows, "notes": [note] if note else []}


def explanations() -> dict[str, list[str]]:
    """Return the paragraphs that explain each finding, by code, as HTML."""
    return {code: [inline(text) for text in texts] for code, texts in explain.explanations().items()}


def inline(text: str) -> Any:
    """Turn a paragraph of Markdown into HTML: code and bold; a link becomes its text, for pages stand alone.

    >>> print(inline("**When.** `a < b`, see [there](x.md)"))
    <strong>When.</strong> <code>a &lt; b</code>, see there
    """
    markup = _package("markupsafe")
    whole = str(markup.escape(" ".join(text.split())))
    whole = re.sub(r"`([^`]+)`", r"<code>\1</code>", whole)
    whole = re.sub(r"\*\*([^*]+)\*\*", r"<strong>\1</strong>", whole)
    return markup.Markup(re.sub(r"\[([^\]]+)\]\([^)]*\)", r"\1", whole))


def asset(name: str) -> str:
    """Read a file of ``templates``."""
    return (files("sfra.report") / "templates" / name).read_text(encoding="utf-8")


def _template(name: str | Path) -> Any:
    if isinstance(name, Path):
        return _environment().from_string(name.read_text(encoding="utf-8"))
    return _environment().get_template(name)


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
    engine.globals["rules"] = RULES
    engine.filters.update({write.__name__: write for write in (number, signed, percent, span, minus)})
    return engine


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MissingPackageError(f"reports need the package {name}", do="pip install 'sfra[report]'") from None
