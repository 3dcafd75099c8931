"""The registry of figures: one function each, rows in, Altair chart out; files, pages and lists read it."""

from __future__ import annotations

import inspect
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial, wraps
from typing import Any, Literal, TypeVar

from sfra.bench.tables.names import forget_name
from sfra.core.errors import InputError
from sfra.report.classes import Names
from sfra.report.figures.rows import Row, in_order
from sfra.report.figures.style import LIGHT, Chart, Style

Needs = Literal["audit", "results", "audits", "traces", "diagnoses", "maps"]
"""What a figure is drawn from: the result of one audit, or names and results of several; or, of one data set and
backbone, the rows of audits or of epochs; or the diagnoses of one method; or one map."""

OF_RESULTS = ("audit", "results")
"""Needs that are results of audits and no rows of a benchmark."""

Draw = TypeVar("Draw", bound=Callable[..., Any])


@dataclass(frozen=True, kw_only=True)
class Figure:
    """A figure that can be drawn."""

    name: str
    title: str
    needs: Needs
    draw: Callable[..., Chart]
    """Takes what it needs and, by keyword, ``style`` and those of ``scale``, ``rule`` and ``names`` it asks for."""
    on_page: bool = True
    """Whether pages show it; a page may say the same in a table."""
    brief: bool = False
    """Whether pages of many audits show it for each of them."""

    def __call__(self, rows: Any, *, style: Style = LIGHT, **options: Any) -> Chart:
        """Draw it, with the options that it asks for."""
        known = inspect.signature(self.draw).parameters
        every = any(one.kind is inspect.Parameter.VAR_KEYWORD for one in known.values())
        asked = {name: value for name, value in options.items() if every or name in known}
        return self.draw(rows, style=style, **asked)


FIGURES: dict[tuple[str, str], Figure] = {}
"""Every figure, by ``audit`` or ``benchmark`` and its name; in the order of pages."""


def figure(name: str, *, title: str, needs: Needs, on_page: bool = True, brief: bool = False) -> Callable[[Draw], Draw]:
    """Register a function as a figure; a chart without a title gets this one.

    Raises:
        ValueError: There is a figure of this name.
    """
    key = ("audit" if needs in OF_RESULTS else "benchmark", name)
    if key in FIGURES:
        raise ValueError(f"there are two figures named {name}")

    def register(draw: Draw) -> Draw:
        @wraps(draw)
        def titled(*rows: Any, **options: Any) -> Chart:
            made: Chart = draw(*rows, **options)
            made.title.text = made.title.text or title
            return made

        FIGURES[key] = Figure(name=name, title=title, needs=needs, draw=titled, on_page=on_page, brief=brief)
        return titled  # type: ignore[return-value]  # the same signature

    return register


@dataclass(frozen=True, kw_only=True)
class Setting:
    """Everything that the figures of one data set and backbone are drawn from, and how it is read."""

    audits: Sequence[Row]
    traces: Sequence[Row] = ()
    """A row per epoch of the main audits."""
    diagnoses: Sequence[Row] = ()
    maps: Sequence[Row] = ()
    scale: str = "canonical"
    rule: str = "source-free"
    names: Names = None
    """Names of the data set's classes."""


@dataclass(frozen=True, kw_only=True)
class Planned:
    """A figure with what it is to be drawn from."""

    figure: Figure
    method: str | None
    """The method that it is about, if only one."""
    draw: Callable[..., Chart]
    """Takes a ``style``."""


@dataclass(frozen=True, kw_only=True)
class Drawn:
    """Charts by name, and why others could not be drawn."""

    charts: dict[str, Chart] = field(default_factory=dict)
    left_out: dict[str, str] = field(default_factory=dict)


def plan_audit(audit: Any) -> dict[str, Planned]:
    """List the figures of the result of one audit."""
    return _plan("audit", audit)


def plan_audits(audits: Sequence[tuple[str, Any]]) -> dict[str, Planned]:
    """List the figures over several audits, given by name and result."""
    return _plan("results", audits)


def _plan(needs: Needs, given: Any) -> dict[str, Planned]:
    return {
        one.name: Planned(figure=one, method=None, draw=partial(one, given))
        for one in FIGURES.values()
        if one.needs == needs
    }


def plan_setting(setting: Setting) -> dict[str, Planned]:
    """List the figures of one data set and backbone; those of diagnoses method by method."""
    options: dict[str, Any] = {"scale": setting.scale, "rule": setting.rule, "names": setting.names}
    return {
        name: Planned(figure=one, method=method, draw=partial(one, rows, **options))
        for one in FIGURES.values()
        if one.needs not in OF_RESULTS
        for name, method, rows in _parts(one, setting)
    }


def _parts(one: Figure, setting: Setting) -> Iterator[tuple[str, str | None, Sequence[Row]]]:
    """Split what a figure needs into what it shows at once, each with a name."""
    rows: Sequence[Row] = getattr(setting, one.needs)
    if one.needs in ("audits", "traces") or not rows:
        yield one.name, None, rows
    elif one.needs == "diagnoses":
        for method in in_order(row["method"] for row in rows):
            yield f"{one.name}-{method}", method, [row for row in rows if row["method"] == method]
    else:
        several = Counter(method for method, _ in {(row["method"], forget_name(row)) for row in rows})
        for row in rows:
            which = f"-{forget_name(row)}" if several[row["method"]] > 1 else ""
            seed = f"-seed-{row['seed']}" if row["seed"] else ""
            yield f"{one.name}-{row['method']}{which}{seed}", row["method"], [row]


def draw_all(planned: Mapping[str, Planned], *, style: Style = LIGHT) -> Drawn:
    """Draw every figure that its rows allow; name the others with their reason."""
    drawn = Drawn()
    for name, one in planned.items():
        try:
            drawn.charts[name] = one.draw(style=style)
        except InputError as problem:
            drawn.left_out[name] = problem.what
    return drawn
