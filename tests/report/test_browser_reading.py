"""Pages for every reader: silent, in both themes, by keyboard, on a narrow screen, on paper."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from selenium.webdriver.common.keys import Keys

from builders.browser import Browser
from builders.pages import DATE
from sfra.auditing.result import Sweep, SweepPoint
from sfra.report import audit_page, overview_page, read_audit

PAGES = ("audit", "audits", "benchmark")
PAPER = 718
"""Width of A4 between margins of a centimetre, in pixels of CSS."""
LIGHT, DARK = "rgb(255, 255, 255)", "rgb(20, 23, 26)"

OPEN_ALL = "document.querySelectorAll('details').forEach(details => { details.open = true; })"
TEXTS = """
    const colour = text => {
      const parts = (text.match(/[\\d.]+/g) || []).map(Number);
      return text.startsWith("color(srgb") ? parts.map(part => 255 * part) : parts; // what color-mix() makes
    };
    const over = ([r, g, b, a = 1], below) => [r, g, b].map((value, i) => a * value + (1 - a) * below[i]);
    const ground = element => {
      const layers = [];
      for (let place = element; place; place = place.parentElement) {
        const found = colour(getComputedStyle(place).backgroundColor);
        layers.push(found);
        if (found.length === 3) break;
      }
      return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255]);
    };
    const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
    const found = new Map();
    while (walker.nextNode()) {
      const element = walker.currentNode.parentElement;
      const text = walker.currentNode.textContent.trim();
      if (!text || element.closest("script, style, noscript, .hidden, .skip")) continue;
      if (!element.getClientRects().length) continue;
      const style = getComputedStyle(element);
      if (element.closest("svg") && style.stroke !== "none") continue; // a halo, with its text on top
      if (element.closest("[data-chart$=confusion] .mark-text.role-mark")) continue; // on shades
      const below = ground(element);
      const ink = over(colour(element.closest("svg") ? style.fill : style.color), below);
      const key = `${ink} ${below}`;
      if (!found.has(key)) found.set(key, { text: `${element.tagName}: ${text.slice(0, 60)}`, ink, below });
    }
    return [...found.values()];
"""
STOPS = "a[href], button, select, input, summary, [tabindex='0']"


@pytest.fixture
def files(demo_folder: Path, bench_folder: Path) -> dict[str, Path]:
    return {
        "audit": single_page(demo_folder, "delete"),
        "audits": demo_folder / "report.html",
        "benchmark": bench_folder / "page.html",
    }


def single_page(folder: Path, name: str) -> Path:
    """Write the page of one audit of the demonstration."""
    file = folder / name / "report.html"
    file.write_text(audit_page(read_audit(folder / name), date=DATE), encoding="utf-8")
    return file


def contrast(one: list[float], other: list[float]) -> float:
    """Return the contrast of two colours of 0 to 255, as WCAG 2 defines it."""

    def luminance(colour: list[float]) -> float:
        parts = [value / 255 for value in colour]
        red, green, blue = (x / 12.92 if x <= 0.04045 else ((x + 0.055) / 1.055) ** 2.4 for x in parts)
        return 0.2126 * red + 0.7152 * green + 0.0722 * blue

    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def expand(browser: Browser) -> None:
    browser.run(OPEN_ALL)
    browser.settle()


@pytest.mark.parametrize("page", PAGES)
def test_a_page_draws_everything_without_a_word_and_without_a_network(
    browser: Browser, files: dict[str, Path], page: str
) -> None:
    browser.open(files[page])
    expand(browser)
    browser.find("#theme").click()
    browser.settle()
    charts = browser.all(".chart")
    assert len(charts) >= 5
    assert all(len(chart.find_elements("css selector", "svg.marks")) == 1 for chart in charts)
    asked = browser.requests()
    assert files[page].as_uri() in asked
    assert [address for address in asked if not address.startswith(("file:", "data:", "blob:"))] == []
    assert browser.messages() == []


def test_a_word_on_the_console_and_a_request_would_be_noticed(browser: Browser, tmp_path: Path) -> None:
    address = "http://192.0.2.1/picture.png"
    (tmp_path / "bad.html").write_text(f'<img src="{address}"><script>console.warn("heard")</script>')
    browser.open(tmp_path / "bad.html")
    assert address in browser.requests()
    said = browser.messages()
    assert any("heard" in message for message in said)
    assert any("ERR_INTERNET_DISCONNECTED" in message for message in said)


@pytest.mark.parametrize("dark", [False, True])
@pytest.mark.parametrize("page", PAGES)
def test_every_text_stands_out_from_what_it_is_written_on(
    browser: Browser, files: dict[str, Path], page: str, dark: bool
) -> None:
    browser.open(files[page], dark=dark)
    expand(browser)
    found: list[dict[str, Any]] = browser.run(TEXTS)
    assert len(found) > 10
    weak = {one["text"]: contrast(one["ink"], one["below"]) for one in found}
    assert {text: ratio for text, ratio in weak.items() if ratio < 4.5} == {}


def test_the_button_switches_the_theme_of_page_and_charts_and_is_remembered(
    browser: Browser, files: dict[str, Path]
) -> None:
    def look() -> tuple[str, str, str]:
        browser.settle()
        button = browser.find("#theme")
        background = browser.run("return getComputedStyle(document.body).backgroundColor")
        ink = browser.run("return getComputedStyle(document.querySelector('.chart svg.marks text')).fill")
        return button.text, background, ink

    browser.open(files["benchmark"])
    light = look()
    assert light[:2] == ("Dark theme", LIGHT)
    browser.find("#theme").send_keys(Keys.ENTER)
    dark = browser.wait(lambda: look() if look()[2] != light[2] else None)
    assert dark[:2] == ("Light theme", DARK)
    browser.driver.refresh()
    assert look() == dark
    browser.find("#theme").click()
    assert browser.wait(lambda: look() == light)


def test_without_a_choice_the_theme_is_that_of_the_system(browser: Browser, files: dict[str, Path]) -> None:
    browser.open(files["audits"], dark=True)
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == DARK
    browser.look(dark=False)
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == LIGHT


@pytest.mark.parametrize("page", PAGES)
def test_the_tab_key_visits_everything_that_can_be_used_and_shows_where_it_is(
    browser: Browser, files: dict[str, Path], page: str
) -> None:
    browser.open(files[page])
    usable = browser.run(
        "window.stops = [...document.querySelectorAll(arguments[0])].filter(e => e.checkVisibility());"
        "return window.stops.length",
        STOPS,
    )
    assert usable > 15
    seen, unmarked = set(), []
    for _ in range(usable):
        browser.press(Keys.TAB)
        place, style, width, name = browser.run(
            "const e = document.activeElement, s = getComputedStyle(e);"
            "return [window.stops.indexOf(e), s.outlineStyle, parseFloat(s.outlineWidth), e.outerHTML.slice(0, 90)]"
        )
        seen.add(place)
        unmarked += [] if style == "solid" and width >= 2 else [name]
    assert seen == set(range(usable))
    assert unmarked == []


@pytest.mark.parametrize("page", PAGES)
def test_every_chart_and_control_has_words(browser: Browser, files: dict[str, Path], page: str) -> None:
    browser.open(files[page])
    expand(browser)
    shown = [element for element in browser.all(".chart, input, select, button") if element.is_displayed()]
    assert [one.get_attribute("outerHTML")[:200] for one in shown if not one.accessible_name.strip()] == []
    assert all(len(chart.accessible_name) > 30 for chart in browser.all(".chart"))
    assert len(browser.all("svg")) == len(browser.all(".chart[aria-label] svg"))
    assert browser.all("img, canvas") == []


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.parametrize("width", [360, 390])
def test_a_narrow_screen_scrolls_down_only(browser: Browser, files: dict[str, Path], page: str, width: int) -> None:
    browser.open(files[page], width=width)
    expand(browser)
    assert browser.run("return document.documentElement.scrollWidth") <= width
    charts = "return [...document.querySelectorAll('.chart')].filter(e => e.scrollWidth > e.clientWidth + 1).length"
    assert page == "benchmark" or browser.run(charts) == 0


def test_the_first_screen_of_an_audit_has_its_verdict_its_scores_and_its_picture(
    browser: Browser, files: dict[str, Path]
) -> None:
    browser.open(files["audit"], width=1280, height=800)
    for selector in ("h1", ".statement", ".scores", '[data-chart="audit-accuracy"] svg.marks', ".picture figcaption"):
        box = browser.find(selector).rect
        assert box["height"] > 0
        assert 0 <= box["y"] < box["y"] + box["height"] <= 800, selector
    told = [text.text for text in browser.all('[data-chart="audit-accuracy"] svg text')]
    assert {"this model", "reference: never saw it", "control: classes only hidden"} <= set(told)


def test_the_first_screen_of_several_audits_has_the_picture_over_all(browser: Browser, files: dict[str, Path]) -> None:
    browser.open(files["audits"], width=1280, height=800)
    box = browser.find('[data-chart="all-overview"] svg.marks').rect
    assert 0 < box["y"] + box["height"] <= 800
    assert box["y"] < browser.find("table").rect["y"]
    told = [text.text for text in browser.all('[data-chart="all-overview"] svg text')]
    verdict = json.loads((files["audits"].parent / "retrained" / "audit.json").read_text(encoding="utf-8"))["verdict"]
    assert {"delete", "retrained", "recovered", verdict} <= set(told)


PRINTING = """
    window.all = selector => [...document.querySelectorAll(selector)];
    window.shut = all("details:not([open])").length;
    addEventListener("beforeprint", () => {
      const boxes = all(".chart").map(chart => chart.querySelector("svg.marks")?.getBoundingClientRect());
      window.drawn = boxes.filter(box => box && box.width > 0 && box.height > 0).length;
    });
"""


@pytest.mark.parametrize("page", PAGES)
def test_paper_gets_every_chart_dark_on_white_and_no_controls(
    browser: Browser, files: dict[str, Path], page: str
) -> None:
    browser.open(files[page], dark=True)
    browser.run(PRINTING)
    paper = browser.printed()
    assert paper.startswith(b"%PDF-")
    pages = len(re.findall(rb"/Type\s*/Page\b", paper))
    assert pages == 2 if page == "audit" else pages > 5
    charts = browser.run("return all('.chart').length")
    assert browser.run("return window.drawn") == charts >= 5
    assert browser.run("return all('details:not([open])').length === window.shut && window.shut > 0")
    expand(browser)
    browser.look(dark=True, media="print", width=PAPER)
    assert browser.run("return document.documentElement.scrollWidth") <= PAPER
    assert browser.run("return getComputedStyle(document.body).backgroundColor") == LIGHT
    controls = browser.all("input, select, #theme")
    assert controls
    assert not any(control.is_displayed() for control in controls)


def test_paper_gets_an_audit_without_charts_too(browser: Browser, demo_folder: Path, tmp_path: Path) -> None:
    audit = read_audit(demo_folder / "masked")
    audits = [("a", replace(audit, verdict="unusable")), ("b", audit)]
    (tmp_path / "page.html").write_text(overview_page(audits, date=DATE), encoding="utf-8")
    browser.open(tmp_path / "page.html")
    browser.run(
        "addEventListener('beforeprint', () => { window.shut = document.querySelectorAll('.audit:not([open])') })"
    )
    browser.printed()
    assert browser.run("return window.shut.length") == 0


def test_a_sweep_of_scales_still_fits_on_two_sheets(browser: Browser, demo_folder: Path, tmp_path: Path) -> None:
    audit = read_audit(demo_folder / "masked")
    values = {"rs": 0.4, "reference_rs": 0.1, "delta_rs": 0.3, "retain_before": 1.0, "retain_after": 0.9}
    points = tuple(SweepPoint(kappa=k, scale=f"kappa={k:g}", forget_after=0.4, **values) for k in (0.5, 1.0, 2.0, 4.0))
    sweep = Sweep(points=points, best_rs=0.4, area=0.1, rs_at_reference=0.3, level=0.05)
    (tmp_path / "page.html").write_text(audit_page(replace(audit, sweep=sweep), date=DATE), encoding="utf-8")
    browser.open(tmp_path / "page.html")
    assert len(browser.all(".chart")) == 6
    assert len(re.findall(rb"/Type\s*/Page\b", browser.printed())) == 2
