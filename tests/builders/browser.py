"""A real browser for tests of pages: Chromium, without a window and cut off from every network."""

from __future__ import annotations

import base64
import json
import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
DRIVER = shutil.which("chromedriver")
INSTALL = "Chromium and chromedriver are needed: make browser"
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
WIDE, HIGH = 1280, 900
OFFLINE = {"offline": True, "latency": 0, "downloadThroughput": 0, "uploadThroughput": 0}
SETTLED = """
    const charts = [...document.querySelectorAll(".chart")].filter(e => !e.closest("details:not([open])"));
    return document.readyState === "complete" && charts.every(e => e.dataset.drawn === "yes");
"""


ROUNDED = 0.0051
"""Half of the last digit that a page shows, and a little."""


def value(text: str) -> float:
    """Read a number as a page writes it."""
    return float(text.removesuffix(" %").replace("−", "-")) / (100 if text.endswith("%") else 1)


class Browser:
    """A window that opens pages from disk and hears whatever they complain of or ask for."""

    def __init__(self, driver: Any) -> None:
        self.driver = driver

    def open(self, file: Path, anchor: str = "", *, width: int = WIDE, height: int = HIGH, dark: bool = False) -> None:
        """Open a page as someone would who never saw it before, and wait for its charts."""
        self.look(width=width, height=height, dark=dark)
        self.command("Storage.clearDataForOrigin", origin="file://", storageTypes="local_storage")
        self.driver.get("about:blank")
        self.messages()
        self.requests()
        self.driver.get(f"{file.as_uri()}{anchor}")
        self.settle()

    def look(self, *, width: int = WIDE, height: int = HIGH, dark: bool = False, media: str = "") -> None:
        """Set the size of the window, and what the system asks of pages."""
        size = {"width": width, "height": height}
        self.command("Emulation.setDeviceMetricsOverride", **size, deviceScaleFactor=1, mobile=False)
        scheme = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        still = {"name": "prefers-reduced-motion", "value": "reduce"}
        self.command("Emulation.setEmulatedMedia", media=media, features=[scheme, still])

    def settle(self) -> None:
        """Wait until every chart that can be seen is drawn."""
        self.wait(lambda: self.run(SETTLED))

    def wait(self, condition: Callable[[], Any]) -> Any:
        """Wait until something is so."""
        from selenium.webdriver.support.ui import WebDriverWait

        return WebDriverWait(self.driver, 60, poll_frequency=0.05).until(lambda _: condition())

    def run(self, script: str, *arguments: Any) -> Any:
        """Run JavaScript in the page, past its policy."""
        return self.driver.execute_script(script, *arguments)

    def command(self, name: str, **arguments: Any) -> Any:
        """Give a command of the DevTools protocol."""
        return self.driver.execute_cdp_cmd(name, arguments)

    def find(self, selector: str) -> Any:
        """Return the first element that a CSS selector finds."""
        return self.driver.find_element("css selector", selector)

    def all(self, selector: str) -> list[Any]:
        """Return all elements that a CSS selector finds."""
        return list(self.driver.find_elements("css selector", selector))

    def text(self, selector: str) -> str:
        """Return the visible text of an element, blanks made one."""
        return " ".join(str(self.find(selector).text).split())

    def table(self, selector: str) -> list[list[str]]:
        """Return the cells of all rows that a CSS selector finds."""
        script = (
            "return [...document.querySelectorAll(arguments[0])].map(r => [...r.cells].map(c => c.textContent.trim()))"
        )
        return list(self.run(script, selector))

    def choose(self, identifier: str, value: str) -> None:
        """Choose an entry of a list by its value."""
        from selenium.webdriver.support.ui import Select

        Select(self.find(f"#{identifier}")).select_by_value(value)

    def press(self, *keys: str) -> None:
        """Press keys one after the other, wherever the focus is."""
        from selenium.webdriver import ActionChains

        ActionChains(self.driver, duration=0).send_keys(*keys).perform()

    def messages(self) -> list[str]:
        """Return what the console said since the last time it was asked."""
        return [f"{entry['level']}: {entry['message']}" for entry in self.driver.get_log("browser")]

    def requests(self) -> list[str]:
        """Return the addresses that were asked for since the last time."""
        found = [json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance")]
        return [one["params"]["request"]["url"] for one in found if one["method"] == "Network.requestWillBeSent"]

    def printed(self) -> bytes:
        """Print the page to a PDF file, on the paper that it asks for."""
        return base64.b64decode(self.command("Page.printToPDF", printBackground=False, preferCSSPageSize=True)["data"])


@contextmanager
def started() -> Iterator[Browser]:
    """Start a browser; where there is none the test is skipped, or fails if SFRA_REQUIRE_BROWSER is set."""
    if CHROMIUM is None or DRIVER is None:
        (pytest.fail if os.environ.get("SFRA_REQUIRE_BROWSER") else pytest.skip)(INSTALL)
    from selenium.webdriver import Chrome, ChromeOptions
    from selenium.webdriver.chrome.service import Service

    options = ChromeOptions()
    options.binary_location = str(CHROMIUM)
    for flag in FLAGS:
        options.add_argument(flag)
    options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
    driver = Chrome(options=options, service=Service(DRIVER))
    try:
        browser = Browser(driver)
        browser.command("Network.enable")
        browser.command("Network.emulateNetworkConditions", **OFFLINE)
        yield browser
    finally:
        driver.quit()
