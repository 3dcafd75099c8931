"""The charts of a page: specifications of the very charts that files are made of, and the program that draws them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from sfra.report.export import drawable, with_texts
from sfra.report.figures import Planned, Style, draw_all
from sfra.report.figures.style import altair, vl_convert

Spec = dict[str, Any]

WIDE, NARROW = Style(theme="auto"), Style(theme="auto", size="column")
"""How charts look on a screen and on a telephone; colours follow the theme of the page."""


def runtime() -> str:
    """Return the program that draws the charts, whole and without addresses to load anything from."""
    return str(vl_convert().javascript_bundle())


class Charts:
    """The charts of a page, with rows and looks that several of them share written once."""

    def __init__(self) -> None:
        self.data: dict[str, Any] = {"charts": {}, "rows": {}, "looks": {}}
        """What the script of the page draws from."""

    def add(self, prefix: str, planned: Mapping[str, Planned], *, narrow: bool = True) -> list[dict[str, str]]:
        """Draw figures; return, for each that its rows are enough for, what the page says of it.

        Args:
            prefix: Begins the names of the charts within the page.
            planned: What to draw, by name.
            narrow: Whether to draw them for telephones too; else these scroll.
        """
        told = []
        with altair().utils.schemapi.debug_mode(False):  # tests and files have charts checked; here it takes seconds
            looks = {"wide": WIDE, "narrow": NARROW} if narrow else {"wide": WIDE}
            drawn = {size: draw_all(planned, style=style).charts for size, style in looks.items()}
            for name in drawn["wide"]:
                key, one = f"{prefix}-{name}", planned[name]
                specs = {size: self._spec(size, charts[name].to_dict(validate=False)) for size, charts in drawn.items()}
                caption = specs["wide"].pop("usermeta")["caption"]
                general = one.method is None and len(caption) > 1  # its first line says what the whole page says
                shows = " ".join(caption[1:] if general else caption)
                self.data["charts"][key] = specs
                told.append(
                    {"key": key, "title": one.figure.title, "shows": shows, "says": specs["wide"]["description"]}
                )
        return told

    def _spec(self, size: str, spec: Spec) -> Spec:
        """Take from a specification what charts share, and what the page says itself."""
        for name in ("$schema", "title"):
            spec.pop(name, None)
        spec = rounded(with_texts(spec, drawable))
        self.data["looks"][size] = spec.pop("config")
        rows = spec.pop("datasets", {})
        self.data["rows"] |= rows
        return spec | {"uses": sorted(rows)}


def rounded(value: Any, digits: int = 4) -> Any:
    """Round every number of nested plain values to what a screen shows.

    >>> rounded({"a": [0.123456, 2]})
    {'a': [0.1235, 2]}
    """
    if isinstance(value, dict):
        return {key: rounded(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item, digits) for item in value]
    return round(value, digits) if isinstance(value, float) else value
