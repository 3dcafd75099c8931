from __future__ import annotations

import colorsys
import subprocess
import sys

import pytest

from sfra.bench.tables.names import METHODS
from sfra.core.errors import MissingPackageError
from sfra.report.figures.style import MARKS, THEMES, Style, Theme, altair, blend, contrast, lightness, marks_of
from sfra.unlearn import registry

DARK, LIGHT = Style(theme="dark"), Style()


def test_every_method_of_the_tables_and_the_registry_has_a_look_of_its_own() -> None:
    assert set(METHODS) | set(registry.names()) | {"masked"} <= set(MARKS)
    for style in (LIGHT, DARK):
        assert len({style.pick(mark.light, mark.dark) for mark in MARKS.values()}) == len(MARKS)


def test_without_colour_no_two_methods_share_a_shape() -> None:
    assert len({mark.shape for mark in MARKS.values()}) == len(MARKS)


@pytest.mark.parametrize("style", [LIGHT, DARK])
def test_every_colour_stands_out_from_its_background(style: Style) -> None:
    theme = style.colours
    looks = {**MARKS, **marks_of(f"theirs-{i}" for i in range(12))}
    marks = {name: contrast(style.pick(mark.light, mark.dark), theme.background) for name, mark in looks.items()}
    assert min(marks.values()) >= 3.0, marks
    assert contrast(theme.ink, theme.background) >= 7.0
    assert min(contrast(c, theme.background) for c in (theme.muted, theme.forget, theme.retain)) >= 4.5


@pytest.mark.parametrize("theme", THEMES.values())
def test_the_ramp_is_monotone_in_lightness_and_the_diverging_scale_turns_at_zero(
    theme: Theme,
) -> None:
    steps = [lightness(blend(theme.ramp, i / 20)) for i in range(21)]
    assert steps in (sorted(steps), sorted(steps, reverse=True))
    assert max(steps) - min(steps) > 0.7
    below, zero, above = theme.diverging
    assert contrast(zero, theme.background) < 1.3 < min(contrast(end, theme.background) for end in (below, above))
    hues = [colorsys.rgb_to_hsv(*(int(end[i : i + 2], 16) / 255 for i in (1, 3, 5)))[0] for end in (below, above)]
    assert abs(hues[0] - hues[1]) > 0.3


def test_lightness_agrees_with_known_contrast_ratios() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21.0)
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01)


def test_methods_of_others_get_looks_that_differ_from_ours_and_from_each_other() -> None:
    names = [f"theirs-{i}" for i in range(30)]
    found = marks_of([*names, *MARKS])
    for style in (LIGHT, DARK):
        assert len({(style.pick(mark.light, mark.dark), mark.shape) for mark in found.values()}) == len(found)
    assert found == marks_of(reversed([*names, *MARKS]))
    assert {name: found[name] for name in MARKS} == MARKS


def test_a_method_of_others_keeps_its_look_beside_any_of_ours() -> None:
    alone = marks_of(["mine"])["mine"]
    assert marks_of(["mine", "delete", "masked"])["mine"] == alone


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "altair", None)
    with pytest.raises(MissingPackageError, match=r"figures need the package altair\n.*pip install 'sfra\[report\]'"):
        altair()


def test_importing_the_figures_imports_neither_altair_nor_the_renderer() -> None:
    code = "import sys, sfra.report; print(sorted({'altair', 'vl_convert'} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_in_pages_every_colour_follows_the_theme_of_the_page() -> None:
    auto = Style(theme="auto")
    assert auto.colours.forget == f"light-dark({THEMES['light'].forget}, {THEMES['dark'].forget})"
    for share in (0.0, 0.3, 1.0):
        light, dark = Style().shade("ramp", share), Style(theme="dark").shade("ramp", share)
        both = auto.shade("ramp", share)
        assert both["fill"] == f"light-dark({light['fill']}, {dark['fill']})"
        assert min(contrast(one["fill"], one["ink"]) for one in (light, dark)) >= 4.5
