"""Take the pictures of README.md and of the documentation: pages, paper, notebook and terminal.

    make demo browser && .venv/bin/python docs/screenshot.py

They are made of the demonstration in demo-out and of examples/audit.ipynb. Chromium opens the pages without a window,
at two pixels per unit; pdftoppm (poppler-utils) turns the printed sheets into pictures.
"""

from __future__ import annotations

import argparse
import base64
import io
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from PIL import Image
from rich.console import Console
from rich.terminal_theme import MONOKAI
from selenium.webdriver import Chrome, ChromeOptions
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.support.ui import WebDriverWait

from sfra.cli.summary import summary
from sfra.report import audit_page, overview_page, read_audit

ROOT = Path(__file__).parents[1]
AUDIT = "delete"
DATE = "2026-01-31"
DRAWN = "return [...document.querySelectorAll('.chart')].every(e => e.dataset.drawn || !e.checkVisibility())"
SHEET = {"printBackground": False, "preferCSSPageSize": True}


def main() -> None:
    """Make the pages, open each, and write the pictures with a small palette."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--demo", type=Path, default=ROOT / "demo-out")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures")
    given = parser.parse_args()
    given.out.mkdir(exist_ok=True)
    driver = _chromium()
    try:
        with tempfile.TemporaryDirectory() as scratch:
            for name, picture in _pictures(driver, given.demo, Path(scratch)).items():
                small = picture.convert("RGB").quantize(40 if name == "terminal" else 64, dither=Image.Dither.NONE)
                small.save(given.out / f"{name}.png", optimize=True)
                size = (given.out / f"{name}.png").stat().st_size
                print(f"{name}.png: {small.width} x {small.height}, {size / 1000:.0f} kB")
    finally:
        driver.quit()


def _pictures(driver: Chrome, demo: Path, scratch: Path) -> dict[str, Image.Image]:
    audits = {file.parent.name: read_audit(file) for file in sorted(demo.glob("*/audit.json"))}
    one, all_of_them = scratch / "one.html", scratch / "all.html"
    one.write_text(audit_page(audits[AUDIT], date=DATE), encoding="utf-8")
    all_of_them.write_text(overview_page(list(audits.items()), date=DATE), encoding="utf-8")
    made = {
        "page": _shot(driver, one, height=745),
        "dark": _shot(driver, one, height=745, dark=True),
        "several": _shot(driver, all_of_them, height=760),
        "phone": _shot(driver, one, width=390, height=844),
    }
    made["paper"] = _sheets(driver, one, scratch)
    made["notebook"] = _notebook(driver, scratch)
    made["terminal"] = _terminal(driver, demo / AUDIT, scratch)
    return made


def _chromium() -> Chrome:
    options = ChromeOptions()
    options.binary_location = shutil.which("chromium") or "chromium"
    for flag in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"):
        options.add_argument(flag)
    return Chrome(options=options, service=Service(shutil.which("chromedriver")))


def _open(driver: Chrome, file: Path, *, width: int, height: int, dark: bool = False) -> None:
    screen = {"width": width, "height": height, "deviceScaleFactor": 2, "mobile": width < 500}
    theme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
    driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", screen)
    driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": [theme]})
    driver.get(file.as_uri())
    WebDriverWait(driver, 60).until(lambda found: found.execute_script(DRAWN))


def _shot(driver: Chrome, file: Path, *, height: int, width: int = 1280, dark: bool = False) -> Image.Image:
    """Take what is seen first."""
    _open(driver, file, width=width, height=height, dark=dark)
    return _picture(driver.execute_cdp_cmd("Page.captureScreenshot", {}))


def _part(driver: Chrome, script: str) -> Image.Image:
    """Take the part of a page that a script returns as left, top, width and height."""
    x, y, width, height = driver.execute_script(script)
    clip = {"x": x, "y": y, "width": width, "height": height, "scale": 1}
    return _picture(driver.execute_cdp_cmd("Page.captureScreenshot", {"clip": clip, "captureBeyondViewport": True}))


def _picture(shot: dict[str, Any]) -> Image.Image:
    return Image.open(io.BytesIO(base64.b64decode(shot["data"])))


def _sheets(driver: Chrome, file: Path, scratch: Path) -> Image.Image:
    """Print a page, and lay its sheets side by side."""
    _open(driver, file, width=1280, height=800)
    printed = scratch / "paper.pdf"
    printed.write_bytes(base64.b64decode(driver.execute_cdp_cmd("Page.printToPDF", SHEET)["data"]))
    subprocess.run(["pdftoppm", "-r", "110", "-png", printed, scratch / "sheet"], check=True)
    sheets = [Image.open(path) for path in sorted(scratch.glob("sheet-*.png"))]
    gap = 12
    desk = Image.new("RGB", (sum(sheet.width + gap for sheet in sheets) + gap, sheets[0].height + 2 * gap), "#8a8f94")
    for i, sheet in enumerate(sheets):
        desk.paste(sheet, (gap + i * (sheet.width + gap), gap))
    return desk


def _notebook(driver: Chrome, scratch: Path) -> Image.Image:
    """Show the example notebook as a browser does, from its first audit to the picture of its card."""
    command = [sys.executable, "-m", "nbconvert", "--to", "html", "--output-dir", str(scratch)]
    subprocess.run([*command, str(ROOT / "examples" / "audit.ipynb")], check=True, capture_output=True)
    _open(driver, scratch / "audit.html", width=1000, height=800)
    return _part(
        driver,
        "const top = document.getElementById('A-release-that-only-looks-unlearned').getBoundingClientRect().top - 8;"
        "const end = document.querySelector('img[alt^=What]').closest('.jp-Cell').getBoundingClientRect().bottom + 8;"
        "return [0, top + scrollY, 1000, end - top]",
    )


def _terminal(driver: Chrome, folder: Path, scratch: Path) -> Image.Image:
    """Show what ``sfra audit`` prints, with its colours."""
    console = Console(file=io.StringIO(), record=True, width=96, force_terminal=True, color_system="standard")
    console.print(summary(read_audit(folder), Path("out")))  # type: ignore[arg-type]  # what was read has all of it
    look = (
        "<pre style='display:inline-block;margin:0;padding:18px 22px;background:#14171a;color:#f0f0f0;"
        'font:15px/1.35 "DejaVu Sans Mono",monospace\'>{code}</pre>'
    )
    page = f"<!DOCTYPE html><meta charset='utf-8'><body style='margin:0'>{look}"
    file = scratch / "terminal.html"
    file.write_text(console.export_html(code_format=page, inline_styles=True, theme=MONOKAI), encoding="utf-8")
    _open(driver, file, width=1000, height=800)
    return _part(
        driver, "const r = document.querySelector('pre').getBoundingClientRect(); return [0, 0, r.width, r.height]"
    )


if __name__ == "__main__":
    main()
