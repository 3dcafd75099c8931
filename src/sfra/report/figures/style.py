"""One visual language for every figure: themes, sizes, and a colour, shape and dash for each method.

A method looks the same in every figure. No two methods share a shape, so that figures can be read in greyscale and by
readers who see colours differently; every colour stands out from the background of its theme.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
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

Number = float | int

FONT = "Arial, Helvetica, Liberation Sans, DejaVu Sans, sans-serif"


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
    diverging: tuple[str, ...]
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

    >>> Style(size="column").width < Style().width, Style(theme="auto").colours.ink
    (True, 'light-dark(#1a1a1a, #f0f0f0)')
    """

    theme: Literal["light", "dark", "auto"] = "light"
    """``auto`` is for pages: every colour is a CSS ``light-dark()`` pair that follows the page's colour scheme."""
    size: Literal["column", "page"] = "page"
    """A column of a two-column paper or a telephone (about 90 mm), or a whole text width (about 170 mm)."""

    @property
    def colours(self) -> Theme:
        """The colours of the theme."""
        if self.theme != "auto":
            return THEMES[self.theme]
        light, dark = (asdict(theme) for theme in THEMES.values())
        single = {name: self.pick(light[name], dark[name]) for name in light if isinstance(light[name], str)}
        return Theme(**single, ramp=THEMES["light"].ramp, diverging=THEMES["light"].diverging)

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

    def pick(self, light: str, dark: str) -> str:
        """Choose between the colours for light and dark backgrounds, or leave it to the page."""
        if self.theme == "auto":
            return light if light == dark else f"light-dark({light}, {dark})"
        return light if self.theme == "light" else dark

    def shade(self, stops: Literal["ramp", "diverging"], share: Number) -> dict[str, str]:
        """Return the ``fill`` at a share, 0 to 1, along the stops of the theme, and the ``ink`` to write on it."""
        fills = [blend(getattr(theme, stops), share) for theme in THEMES.values()]
        return {"fill": self.pick(*fills), "ink": self.pick(*map(readable, fills))}


LIGHT = Style()
"""What a figure is drawn in unless told otherwise."""


def lightness(colour: str) -> float:
    """Return the relative luminance of ``#rrggbb``, in [0, 1].

    >>> lightness("#000000"), lightness("#ffffff")
    (0.0, 1.0)
    """
    parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
    r, g, b = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return round(0.2126 * r + 0.7152 * g + 0.0722 * b, 12)


def contrast(first: str, second: str) -> float:
    """Return the contrast ratio of two colours, 1 (equal) to 21 (black on white)."""
    low, high = sorted((lightness(first), lightness(second)))
    return (high + 0.05) / (low + 0.05)


def readable(fill: str) -> str:
    """Choose black or white for text on a colour."""
    return max(("#ffffff", "#000000"), key=lambda ink: contrast(ink, fill))


def blend(stops: Sequence[str], share: Number) -> str:
    """Return the colour at a share, 0 to 1, of the way along some stops.

    >>> blend(("#000000", "#ffffff"), 0.5)
    '#808080'
    """
    place = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    first = min(int(place), len(stops) - 2)
    pairs = [(int(stops[first][i : i + 2], 16), int(stops[first + 1][i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(low + (high - low) * (place - first)):02x}" for low, high in pairs)


@dataclass(frozen=True)
class Mark:
    """How a method is drawn, everywhere."""

    light: str
    """Colour on a light background."""
    dark: str
    """Colour on a dark background."""
    shape: str
    """Name of a Vega symbol, or its outline as an SVG path."""
    dash: tuple[int, ...]
    """Lengths of strokes and gaps of a line."""


X_SHAPE = "M-.9,-.5L-.5,-.9L0,-.4L.5,-.9L.9,-.5L.4,0L.9,.5L.5,.9L0,.4L-.5,.9L-.9,.5L-.4,0Z"
STAR = "M0,-1L.29,-.31L1,-.31L.45,.14L.65,.9L0,.45L-.65,.9L-.45,.14L-1,-.31L-.29,-.31Z"
HEXAGON = "M-.5,-.87L.5,-.87L1,0L.5,.87L-.5,.87L-1,0Z"
HOURGLASS = "M-.85,-.9L.85,-.9L.2,0L.85,.9L-.85,.9L-.2,0Z"
PENTAGON = "M0,-1L.95,-.31L.59,.81L-.59,.81L-.95,-.31Z"

MARKS = {
    "original": Mark("#4a4a4a", "#c8c8c8", "circle", (1, 0)),
    "retrained": Mark("#000000", "#ffffff", "square", (6, 2)),
    "finetune": Mark("#0072b2", "#56b4e9", "triangle-up", (1, 0)),
    "negative-gradient": Mark("#d55e00", "#ff8a3d", "triangle-down", (4, 2)),
    "negative-gradient-plus": Mark("#882255", "#e58bb5", "triangle-right", (8, 2, 2, 2)),
    "random-label": Mark("#00795b", "#3dd6a8", "diamond", (2, 2)),
    "boundary-shrink": Mark("#aa3fa0", "#e69fe0", "cross", (10, 2)),
    "learn-to-unlearn": Mark("#8a5a00", "#e0b050", "triangle-left", (6, 2, 2, 2, 2, 2)),
    "scrub": Mark("#332288", "#a99cf0", X_SHAPE, (1, 0)),
    "bad-teacher": Mark("#1b8599", "#6ad5e8", STAR, (4, 1, 1, 1)),
    "salun": Mark("#737300", "#d6d65c", HEXAGON, (8, 4)),
    "delete": Mark("#c0143c", "#ff7a8f", HOURGLASS, (1, 0)),
    "masked": Mark("#767676", "#9a9a9a", PENTAGON, (2, 3)),
}
"""The look of the methods that come with the package and of its controls."""

SPARE = (("#5c4033", "#d7b9a8"), ("#005f73", "#8fd3dd"), ("#6a1b9a", "#d3a6ee"), ("#4f6d00", "#b7d96a"))
"""Colours of other methods, on light and dark."""


def marks_of(methods: Iterable[str]) -> dict[str, Mark]:
    """Return the look of each method; others than ours get one of their own, by their name.

    The name decides where among the spare looks the search starts, so that a method keeps its look whatever else is
    in the figure, unless another one was there first.

    >>> marks_of(["delete", "mine"])["mine"].light not in {mark.light for mark in MARKS.values()}
    True
    """
    names = sorted(set(methods))
    found = {name: MARKS[name] for name in names if name in MARKS}
    looks = [Mark(*pair, mark.shape, mark.dash) for mark in MARKS.values() for pair in SPARE]
    for name in (name for name in names if name not in MARKS):
        start = int.from_bytes(hashlib.sha256(name.encode()).digest()[:4])
        found[name] = looks.pop(start % len(looks)) if looks else Mark(*SPARE[0], "circle", (1, 0))
    return found


def look(rows: Sequence[Mapping[str, Any]], style: Style) -> tuple[Any, Any, Any]:
    """Make the encodings of the methods of rows (``key`` and ``method``): colour, shape and dash; no legend."""
    alt = altair()
    names = dict(sorted((row["key"], row["method"]) for row in rows))
    marks = marks_of(names)
    ordered = [names[key] for key in marks]

    def encoded(channel: Any, values: list[Any]) -> Any:
        return channel("method:N", legend=None, scale=alt.Scale(domain=ordered, range=values))

    return (
        encoded(alt.Color, [style.pick(mark.light, mark.dark) for mark in marks.values()]),
        encoded(alt.Shape, [mark.shape for mark in marks.values()]),
        encoded(alt.StrokeDash, [mark.dash for mark in marks.values()]),
    )


def altair() -> Any:
    """Import Altair, which only figures need."""
    return _package("altair")


def vl_convert() -> Any:
    """Import the renderer, which only saving figures needs."""
    return _package("vl_convert")


def _package(name: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise MissingPackageError(f"figures need the package {name}", do="pip install 'sfra[report]'") from None


def chart(rows: Sequence[Mapping[str, Any]]) -> Any:
    """Start a chart with rows inside the figure itself: no file, no address, no limit."""
    made, inside = _quick_classes()
    return made(inside(values=[dict(row) for row in rows]))


@cache
def _quick_classes() -> tuple[Any, Any]:
    """Make a chart and a kind of data that spare Altair's slowest steps.

    All copies of a chart, which Altair makes at every turn, have their data in common; and a field that is given as
    text becomes a channel at once, where Altair would first look for a class among all of its own.
    """
    alt = altair()

    def channel(name: str, value: Any) -> Any:
        kind = name[0].upper() + name[1:]
        if isinstance(value, list):
            return [channel(name, one) for one in value]
        if isinstance(value, dict) and value.keys() == {"value"}:
            return getattr(alt, f"{kind}Value")(**value)
        return getattr(alt, kind)(value) if isinstance(value, str) else value

    def encode(self: Any, **channels: Any) -> Any:
        return alt.Chart.encode(self, **{name: channel(name, value) for name, value in channels.items()})

    quick = type("QuickChart", (alt.Chart,), {"encode": encode})
    return quick, type("SharedData", (alt.InlineData,), {"__deepcopy__": lambda rows, memo: rows})


def layered(*layers: Any, width: Any, height: Any, **more: Any) -> Any:
    """Put charts on top of each other."""
    made = altair().layer(*layers)
    for name, value in {"width": width, "height": height, **more}.items():
        setattr(made, name, value)  # a method of Altair would copy all of it
    return made


def at(
    channel: Literal["x", "y"],
    field: str,
    title: str | None = None,
    domain: Sequence[Number] | None = None,
    *,
    scale: str = "linear",
    **axis: Any,
) -> Any:
    """Place a number along an axis without a line and ticks of its own."""
    alt = altair()
    limits = {} if domain is None else {"domain": list(domain), "nice": False}
    zero = {"zero": domain is None} if scale == "linear" else {}
    line = alt.Axis(**{"domain": False, "ticks": False} | axis)
    return getattr(alt, channel.upper())(
        f"{field}:Q", title=title, axis=line, scale=alt.Scale(type=scale, **zero, **limits)
    )


def score(channel: Literal["x", "y"], field: str = "rs", title: str | None = "RS", **axis: Any) -> Any:
    """Place a score or an accuracy: always on the whole range from 0 to 1."""
    ticks: dict[str, Any] = {"values": [0, 0.2, 0.4, 0.6, 0.8, 1], "format": ".1f", "labelOverlap": False}
    return at(channel, field, title, (0, 1), **ticks | axis)


def loss_axis(field: str, title: str, *, sign: str = "") -> Any:
    """Place a loss of retain accuracy, from 0 to 10 points."""
    text = f"datum.value == 0 ? '0' : '{sign}' + format(100 * datum.value, '.0f')"
    ticks = [0, 0.02, 0.04, 0.06, 0.08, 0.1]
    return at("x", field, title, (0, 0.1), labelExpr=text, values=ticks)


def pixel(channel: Literal["x", "y"], field: str) -> Any:
    """Place something in pixels from the left or the top of the plot."""
    return getattr(altair(), channel.upper())(f"{field}:Q", scale=None, axis=None)


def listed(channel: Literal["x", "y"], field: str, order: Sequence[str], title: str | None = None, **axis: Any) -> Any:
    """Place names in a given order along an axis."""
    alt = altair()
    line = alt.Axis(**{"domain": False, "ticks": False, "grid": False} | axis)
    names = list(order)
    return getattr(alt, channel.upper())(
        f"{field}:N", sort=names, scale=alt.Scale(domain=names), title=title, axis=line
    )


def numbers(*fields: str, format: str = ".3f") -> list[Any]:
    """Show fields in a tooltip."""
    return [altair().Tooltip(f"{field}:Q", format=format) for field in fields]


def finish(drawn: Any, style: Style, *, subtitle: str | Sequence[str] = (), description: str, title: str = "") -> Chart:
    """Give a chart its text alternative and the look of all figures; an empty title is that of the registry."""
    alt, colours, size = altair(), style.colours, style.font_size
    lines = [subtitle] if isinstance(subtitle, str) else list(subtitle)
    broken = [part for line in lines for part in wrap(line, 72 if style.size == "column" else 100)]
    texts = {"labelColor": colours.ink, "titleColor": colours.ink, "labelFontSize": size, "titleFontSize": size}
    heading = {"anchor": "start", "frame": "bounds", "color": colours.ink, "fontSize": size + 2, "offset": 10}
    below = {"subtitleColor": colours.muted, "subtitleFontSize": size, "subtitlePadding": 4}
    lines_of_axis = {"gridColor": colours.grid, "domainColor": colours.muted, "tickColor": colours.muted}
    roomy = {"titleFontWeight": "normal", "labelLimit": 200, "titlePadding": 6, "labelFlush": False, "labelPadding": 5}
    drawn.title = alt.TitleParams(text=title, subtitle=broken)
    drawn.description = description
    drawn.usermeta = {"caption": [line for line in lines if line]}
    drawn.background, drawn.padding = colours.background, 8
    drawn.config = alt.Config(
        font=FONT,
        view=alt.ViewConfig(stroke=None),
        title=alt.TitleConfig(**heading, **below),
        axis=alt.AxisConfig(**texts, **lines_of_axis, **roomy),
        legend=alt.LegendConfig(**texts, orient="top", title=None, symbolSize=70, labelLimit=0),
        header=alt.HeaderConfig(labelColor=colours.ink, titleColor=colours.ink, labelFontSize=size),
    )
    finished: Chart = drawn
    return finished
