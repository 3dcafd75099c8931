"""Take the picture of the demonstration's page that README.md shows.

    make demo browser && .venv/bin/python docs/screenshot.py

The page lies in demo-out; Chromium opens it without a window, at two pixels per unit, and the top of one audit is kept:
verdict, findings, accuracies and curves.
"""

from __future__ import annotations

import argparse
import base64
import io
import shutil
from pathlib import Path
from typing import Any

from PIL import Image
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

ROOT = Path(__file__).parents[1]
WIDTH, MARGIN = 1000, 8
AREA = """
    const audit = document.getElementById(arguments[0]);
    const top = audit.getBoundingClientRect();
    const chart = audit.querySelector("[data-chart$=trajectory]").closest("figure").getBoundingClientRect();
    return { x: top.left, y: top.top + scrollY, width: top.width, height: chart.bottom - top.top };
"""


def main() -> None:
    """Open the page, take the picture, and write it with a small palette."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--page", type=Path, default=ROOT / "demo-out" / "report.html")
    parser.add_argument("--audit", default="audit-1", help="name of the audit within the page")
    parser.add_argument("--dark", action="store_true")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "demo-report.png")
    given = parser.parse_args()
    driver = _chromium()
    try:
        picture = _picture(driver, f"{given.page.resolve(strict=True).as_uri()}#{given.audit}", given.audit, given.dark)
    finally:
        driver.quit()
    colours = picture.convert("RGB").quantize(128, dither=Image.Dither.NONE)
    colours.save(given.out, optimize=True)
    print(f"{given.out}: {colours.width} x {colours.height}, {given.out.stat().st_size / 1000:.0f} kB")


def _chromium() -> Chrome:
    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"):
        options.add_argument(flag)
    return Chrome(options=options, service=Service(shutil.which("chromedriver")))


def _picture(driver: Chrome, address: str, audit: str, dark: bool) -> Image.Image:
    screen = {"width": WIDTH, "height": 1000, "deviceScaleFactor": 2, "mobile": False}
    theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [theme]})
    driver.get(address)
    chart = f"#{audit} .chart[data-drawn=yes]"
    WebDriverWait(driver, 60).until(lambda found: found.find_elements("css selector", chart))
    area: dict[str, Any] = driver.execute_script(AREA, audit)
    clip = {
        "x": area["x"] - MARGIN,
        "y": area["y"] - MARGIN,
        "width": area["width"] + 2 * MARGIN,
        "height": area["height"] + MARGIN,
        "scale": 1,
    }
    shot = driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True})
    return Image.open(io.BytesIO(base64.b64decode(shot["data"])))


if __name__ == "__main__":
    main()
