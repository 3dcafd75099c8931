"""One visual language for every figure: themes, sizes, and a colour, shape and dash for each method.

A method looks the same in every figure. No two methods share a shape, so that figures can be read in greyscale and by
readers who see colours differently; every colour stands out from the background of its theme.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from textwrap import wrap
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from sfra.core.errors import MissingPackageError

if TYPE_CHECKING:
    import altair as alt

    Chart: TypeAlias = alt.LayerChart | alt.ConcatChart | alt.HConcatChart | alt.VConcatChart
else:
    Chart = Any

FONT = "Arial, Helvetica, Liberation Sans, DejaVu Sans, sans-serif"
"""Arial or its metric twin is on every system."""


@dataclass(frozen=True, kw_only=True)
class Theme:
    """Colours that do not stand for a method."""

    background: str
    ink: str
    """Text and what must be seen first."""
    muted: str
    """Axes, secondary text, points behind a summary."""
    grid: str
    forget: str
    """Whatever concerns forget classes and what came back."""
    retain: str
    """Whatever concerns retain classes."""
    ramp: tuple[str, ...]
    """From 0 to 1, monotone in lightness."""
    diverging: tuple[str, str, str]
    """Below 0, at 0 and above 0."""


THEMES = {
    "light": Theme(
        background="#ffffff",
        ink="#1a1a1a",
        muted="#6b6b6b",
        grid="#e4e4e4",
        forget="#c2410c",
        retain="#1f6fb2",
        ramp=("#f7f7f5", "#c9d9e8", "#7fa9cf", "#33719f", "#0b2f52"),
        diverging=("#2b6ca3", "#f5f5f3", "#bb4a12"),
    ),
    "dark": Theme(
        background="#14171a",
        ink="#f0f0f0",
        muted="#a3a8ad",
        grid="#30363b",
        forget="#ff9a5c",
        retain="#6db3f2",
        ramp=("#1d2226", "#24415a", "#2f6c98", "#66a8d8", "#d3e9fa"),
        diverging=("#4f97d1", "#23282c", "#e07a3a"),
    ),
}


@dataclass(frozen=True, kw_only=True)
class Style:
    """How a figure is drawn: for which background and at which width.

    >>> Style(size="column").width < Style().width
    True
    """

    theme: Literal["light", "dark"] = "light"
    size: Literal["column", "page"] = "page"
    """A column of a two-column paper (about 90 mm), or a whole text width or web page (about 170 mm)."""

    @property
    def colours(self) -> Theme:
        """The colours of the theme."""
        return THEMES[self.theme]

    @property
    def width(self) -> int:
        """Width of the plotting area; labels come on top of it."""
        return 215 if self.size == "column" else 460

    @property
    def narrow(self) -> int:
        """Width of a plotting area that has names of methods beside it."""
        return 195 if self.size == "column" else 440

    @property
    def font_size(self) -> int:
        """Size of ordinary text."""
        return 9 if self.size == "column" else 11


def altair() -> Any:
    """Import Altair, which only figures need."""
    return _package("altair")


def vl_convert() -> Any:
    """Import the renderer, which only saving figures needs."""
    return _package("vl_convert")


def score_axis(**more: Any) -> Any:
    """Make the axis of RS: always the whole range from 0 to 1."""
    ticks = {
        "values": [0, 0.2, 0.4, 0.6, 0.8, 1],
        "format": ".1f",
        "domain": False,
        "ticks": False,
        "labelOverlap": False,
    }
    return altair().Axis(**ticks | more)


def data(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Put rows into the figure itself: no file, no address, no limit."""
    return _shared_data()(values=[dict(row) for row in rows])


def finish(chart: Any, style: Style, *, title: str, subtitle: str | Sequence[str] = (), description: str) -> Chart:
    """Give a chart its title, its text alternative and the look of all figures."""
    alt, colours, size = altair(), style.colours, style.font_size
    lines = [subtitle] if isinstance(subtitle, str) else list(subtitle)
    broken = [part for line in lines for part in wrap(line, 72 if style.size == "column" else 100)]
    heading = alt.TitleParams(text=title, subtitle=broken)
    look = alt.Config(  # at once: every change of a chart copies the whole chart
        font=FONT,
        view=alt.ViewConfig(stroke=None),
        title=alt.TitleConfig(
            anchor="start",
            frame="bounds",
            color=colours.ink,
            fontSize=size + 2,
            offset=10,
            subtitleColor=colours.muted,
            subtitleFontSize=size,
            subtitlePadding=4,
        ),
        axis=alt.AxisConfig(
            labelColor=colours.ink,
            titleColor=colours.ink,
            labelFontSize=size,
            titleFontSize=size,
            gridColor=colours.grid,
            domainColor=colours.muted,
            tickColor=colours.muted,
            titleFontWeight="normal",
            labelLimit=200,
            titlePadding=6,
            labelFlush=False,
            labelPadding=5,
        ),
        legend=alt.LegendConfig(
            labelColor=colours.ink,
            titleColor=colours.ink,
            labelFontSize=size,
            titleFontSize=size,
            orient="top",
            title=None,
            symbolSize=70,
            labelLimit=0,
        ),
        header=alt.HeaderConfig(labelColor=colours.ink, titleColor=colours.ink, labelFontSize=size),
    )
    finished: Chart = chart.properties(
        title=heading, description=description, background=colours.background, padding=8, config=look
    )
    return finished


@cache
def _shared_data() -> Any:
    """Make a kind of data that all copies of a chart have in common: Altair copies a chart at every turn."""
    return type("SharedData", (altair().InlineData,), {"__deepcopy__": lambda rows, memo: rows})


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MissingPackageError(f"figures need the package {name}", do="pip install 'sfra[figures]'") from None
