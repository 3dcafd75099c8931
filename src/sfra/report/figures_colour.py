"""Colours as numbers: how light they are, how well they stand out, and what lies between them."""

from __future__ import annotations

from collections.abc import Sequence


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


def blend(stops: Sequence[str], share: float) -> str:
    """Return the colour at a share, 0 to 1, of the way along some stops.

    >>> blend(("#000000", "#ffffff"), 0.5)
    '#808080'
    """
    place = min(max(share, 0.0), 1.0) * (len(stops) - 1)
    first = min(int(place), len(stops) - 2)
    pairs = [(int(stops[first][i : i + 2], 16), int(stops[first + 1][i : i + 2], 16)) for i in (1, 3, 5)]
    return "#" + "".join(f"{round(low + (high - low) * (place - first)):02x}" for low, high in pairs)
