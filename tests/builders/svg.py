"""Where the texts of a figure are, from its SVG: boxes in pixels, by the widths of the letters of Helvetica."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations
from typing import Any
from xml.etree import ElementTree

from sfra.report import render

_WIDTHS = {
    222: "ijl",
    278: " .,:;/ftI",
    333: "()-r",
    500: "ckvsxyzJκ",
    556: "0123456789abdeghnopquL",
    584: "+−±=",
    611: "FTZΔαρ",
    667: "ABEKPSVXY",
    722: "CDHNRUw",
    778: "GOQ",
    833: "mM",
    889: "%",
    944: "W",
}
WIDTH = {letter: width / 1000 for width, letters in _WIDTHS.items() for letter in letters}


@dataclass(frozen=True, kw_only=True)
class Text:
    """A line of text and the box that its letters fill, a little smaller than it looks."""

    content: str
    left: float
    top: float
    right: float
    bottom: float

    def meets(self, other: Text) -> bool:
        """Say whether two texts run into each other."""
        across = self.left < other.right and other.left < self.right
        return across and self.top < other.bottom and other.top < self.bottom


def texts_of(chart: Any) -> tuple[list[Text], tuple[float, float]]:
    """Return every visible text of a figure once, and the size of the figure."""
    root = ElementTree.fromstring(render(chart, "svg"))  # noqa: S314 (our own file)
    found = dict.fromkeys(_walk(root, 0.0, 0.0))
    return list(found), (float(root.attrib["width"]), float(root.attrib["height"]))


def collisions(texts: list[Text]) -> list[tuple[str, str]]:
    """List the texts that run into each other."""
    return [(one.content, other.content) for one, other in combinations(texts, 2) if one.meets(other)]


def clipped(texts: list[Text], size: tuple[float, float]) -> list[str]:
    """List the texts that leave the figure."""
    return [t.content for t in texts if min(t.left, t.top) < 0 or t.right > size[0] or t.bottom > size[1]]


def _walk(element: ElementTree.Element, x: float, y: float) -> Iterator[Text]:
    if "0" in (element.get("opacity"), element.get("fill-opacity")):
        return
    move = re.search(r"translate\(([-\d.e]+)[ ,]+([-\d.e]+)\)", element.get("transform", ""))
    x, y = (x + float(move[1]), y + float(move[2])) if move else (x, y)
    if element.tag.endswith("}text"):
        spans = [child for child in element if child.tag.endswith("}tspan")] or [element]
        down = 0.0
        for span in spans:
            down += float(span.get("dy", "0"))
            if span.text and span.text.strip():
                yield _box(element, span.text, x, y + down)
        return
    for child in element:
        yield from _walk(child, x, y)


def _box(element: ElementTree.Element, content: str, x: float, y: float) -> Text:
    size = float(re.sub(r"[^\d.]", "", element.get("font-size", "11px")))
    bold = 1.06 if element.get("font-weight") == "bold" else 1.0
    length = bold * size * sum(WIDTH.get(letter, 0.56) for letter in content)
    start = {"middle": -length / 2, "end": -length}.get(element.get("text-anchor", "start"), 0.0)
    left, right, up = start + 1, start + length - 1, 0.68 * size
    turned = re.search(r"rotate\(([-\d.]+)\)", element.get("transform", ""))
    if turned and float(turned[1]) == -90:
        return Text(content=content, left=x - up, top=y - right, right=x, bottom=y - left)
    if turned and float(turned[1]):  # slanted: the foot of the text stands for it
        return Text(content=content, left=x - size / 2, top=y - size / 2, right=x, bottom=y)
    return Text(content=content, left=x + left, top=y - up, right=x + right, bottom=y)
