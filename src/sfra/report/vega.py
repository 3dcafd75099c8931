"""The charts of a page: the runtime that draws them, their specifications, and how a dark twin differs from a light."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from sfra.report.style import FONT, THEMES, Style, vl_convert

Spec = dict[str, Any]

AXIS = {
    "labelColor": "@ink",
    "titleColor": "@ink",
    "gridColor": "@grid",
    "domainColor": "@muted",
    "tickColor": "@muted",
}
CONFIG: Spec = {
    "font": FONT,
    "background": "@background",
    "view": {"stroke": None},
    "axis": AXIS | {"labelFontSize": 12, "titleFontSize": 12, "titleFontWeight": "normal", "domain": False},
    "legend": {
        "labelColor": "@ink",
        "labelFontSize": 12,
        "orient": "top",
        "title": None,
        "labelLimit": 0,
        "layout": {"top": {"direction": "vertical", "anchor": "start", "margin": 4}},
    },
}
"""The look of charts that are drawn from data of the page; ``@name`` is a colour of the theme."""

LINES = ("forget accuracy", "retain accuracy", "RS", "RS of the reference")
RULES = ("source-free", "validation", "worst-case")
SHAPES = ("circle", "square", "triangle-up")
"""One for each rule, within one another where rules agree: only the first is filled."""


def runtime() -> str:
    """Return the program that draws the charts, whole and without addresses to load anything from."""
    return str(vl_convert().javascript_bundle())


def colours() -> dict[str, dict[str, str]]:
    """Return the named colours of both themes."""
    names = ("background", "ink", "muted", "grid", "forget", "retain")
    return {theme: {name: asdict(found)[name] for name in names} for theme, found in THEMES.items()}


def trajectory_spec() -> Spec:
    """Describe the curves over epochs; the page puts in ``seeds``, ``lines``, ``marks`` and ``budget``."""
    epoch = {"field": "epoch", "type": "quantitative", "title": "epoch", "axis": {"tickMinStep": 1, "grid": False}}
    value = {
        "field": "value",
        "type": "quantitative",
        "title": None,
        "scale": {"domain": [0, 1]},
        "axis": {"values": [0, 0.25, 0.5, 0.75, 1], "format": ".2f"},
    }
    tooltip = [
        {"field": "series", "title": "curve"},
        {"field": "epoch"},
        {"field": "value", "format": ".3f"},
    ]
    line = {
        "data": {"name": "lines"},
        "mark": {"type": "line", "strokeWidth": 2, "tooltip": True},
        "encoding": {
            "x": epoch,
            "y": value,
            "color": {
                "field": "series",
                "scale": {"domain": LINES, "range": ["@forget", "@retain", "@ink", "@muted"]},
                "legend": {"columns": 2, "symbolStrokeWidth": 3, "symbolSize": 250},
            },
            "strokeDash": {"field": "series", "scale": {"domain": LINES, "range": [[1, 0], [1, 0], [1, 0], [5, 3]]}},
            "tooltip": tooltip,
        },
    }
    seed = {
        "data": {"name": "seeds"},
        "mark": {"type": "line", "strokeWidth": 1, "opacity": 0.45, "stroke": "@ink"},
        "encoding": {"x": epoch, "y": value, "detail": {"field": "seed"}},
    }
    legend = {"columns": 3, "symbolSize": 110}
    fills = {"domain": RULES, "range": ["@ink", "transparent", "transparent"]}
    sizes = [
        {"test": f"datum.rule === '{name}'", "value": size} for name, size in zip(RULES[1:], (150, 420), strict=True)
    ]
    mark = {
        "data": {"name": "marks"},
        "mark": {"type": "point", "strokeWidth": 1.75, "opacity": 1},
        "encoding": {
            "x": epoch,
            "y": value,
            "shape": {"field": "rule", "scale": {"domain": RULES, "range": SHAPES}, "legend": legend},
            "fill": {"field": "rule", "scale": fills, "legend": legend},
            "stroke": {"field": "rule", "scale": {"domain": RULES, "range": ["@ink"] * 3}, "legend": legend},
            "size": {"condition": sizes, "value": 45},
            "tooltip": [
                {"field": "rule", "title": "epoch of"},
                {"field": "epoch"},
                {"field": "value", "format": ".3f"},
            ],
        },
    }
    ring = {
        "data": {"name": "budget"},
        "mark": {"type": "point", "filled": False, "size": 320, "stroke": "@forget", "strokeWidth": 2.5, "opacity": 1},
        "encoding": {"x": epoch, "y": value},
    }
    return {
        "width": "container",
        "height": 300,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "config": CONFIG,
        "layer": [seed, line, mark, ring],
    }


def sweep_spec() -> Spec:
    """Describe RS of model and reference over scales; the page puts in ``lines``."""
    return {
        "width": "container",
        "height": 240,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "config": CONFIG,
        "data": {"name": "lines"},
        "mark": {"type": "line", "point": {"filled": True, "size": 50}, "strokeWidth": 2, "tooltip": True},
        "encoding": {
            "x": {
                "field": "kappa",
                "type": "quantitative",
                "scale": {"type": "log", "nice": False},
                "axis": {"grid": False},
                "title": "scale κ",
            },
            "y": {"field": "value", "type": "quantitative", "scale": {"domain": [0, 1]}, "title": "RS"},
            "color": {"field": "series", "scale": {"domain": ["model", "reference"], "range": ["@forget", "@muted"]}},
            "strokeDash": {"field": "series", "scale": {"domain": ["model", "reference"], "range": [[1, 0], [5, 3]]}},
        },
    }


def both_themes(draw: Callable[..., Any]) -> Spec:
    """Draw a figure for light and dark: the light specification, where the dark one has other values, and a caption.

    The page sets the subtitle as text, where it can be searched and wrapped; the description is read aloud.

    Args:
        draw: Makes the figure, in a ``style``.
    """
    light, dark = plain(draw(style=Style(theme="light"))), plain(draw(style=Style(theme="dark")))
    title = light.pop("title", {})
    dark.pop("title", None)
    says = light.get("description", "")
    caption = {"shows": " ".join(line for line in title.get("subtitle", []) if line) or says, "says": says}
    return {"spec": light, "dark": differences(light, dark), "caption": caption}


def plain(chart: Any) -> Spec:
    """Return the specification of a chart without addresses, its numbers rounded to what a screen shows."""
    made: Spec = chart.to_dict()
    made.pop("$schema", None)
    return dict(rounded(made))


def rounded(value: Any, digits: int = 4) -> Any:
    """Round every number of nested plain values.

    >>> rounded({"a": [0.123456, 2]})
    {'a': [0.1235, 2]}
    """
    if isinstance(value, dict):
        return {key: rounded(item, digits) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [rounded(item, digits) for item in value]
    return round(value, digits) if isinstance(value, float) else value


def differences(light: Any, dark: Any) -> list[list[Any]]:
    """List where two specifications differ: ``[path, value in the second]``.

    >>> differences({"a": [1, {"b": 2}]}, {"a": [1, {"b": 3}]})
    [[['a', 1, 'b'], 3]]
    """
    if isinstance(light, dict) and isinstance(dark, dict) and light.keys() == dark.keys():
        pairs = [(key, light[key], dark[key]) for key in light]
    elif isinstance(light, list) and isinstance(dark, list) and len(light) == len(dark):
        pairs = [(i, one, other) for i, (one, other) in enumerate(zip(light, dark, strict=True))]
    else:
        return [] if light == dark else [[[], dark]]
    return [[[key, *path], value] for key, one, other in pairs for path, value in differences(one, other)]
