"""Sentences of a page against the rows that they are about.

``say`` writes a part of a sentence from the rows; the page must have it word for word. Numbers that no part covers,
in digits or in words, are refused.
"""

from __future__ import annotations

import re
from typing import Any

from reproduction.report import DOCS

NAMES = r"CIFAR-100?|ResNet-18|H200|\bl2"
NUMBER = r"\d[\d.,]*(?:e-\d+)?"
WORD = r"\b(?:two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|half|tenth|hundred|hundredth)\b"


def say(text: str, *numbers: Any, holds: bool = True) -> str:
    """Write what the rows say; where they no longer do, something that no page has."""
    return text.format(*numbers) if holds else f"NOT SO: {text}"


def prose(page: str) -> str:
    """Read a page without tables, images, links' targets, code and names."""
    text = (DOCS / page).read_text(encoding="utf-8")
    text = re.sub(r"<!-- table.*?<!-- end -->|!\[.*?\]\(.*?\)|`[^`]*`", " ", text, flags=re.DOTALL)
    return " ".join(re.sub(r"\]\([^)]*\)", "]", text).split())


def problems(text: str, quotes: list[str]) -> list[str]:
    """List the quotes that a text lacks and the numbers that it has besides."""
    found = []
    for quote in map(" ".join, map(str.split, quotes)):
        found += [] if quote in text else [f"missing: {quote}"]
        text = text.replace(quote, " ", 1)
    text = re.sub(NAMES, " ", text)
    return found + re.findall(rf"{NUMBER}|{WORD}", text)


def changed_numbers(text: str) -> list[str]:
    """Change each number of a text, one at a time."""
    found = []
    for number in re.finditer(NUMBER, text):
        if not re.search(rf"(?:{NAMES})$", text[: number.end()]):
            last = number.end() - (1 if number.group()[-1].isdigit() else 2)
            found.append(text[:last] + str((int(text[last]) + 1) % 10) + text[last + 1 :])
    return found
