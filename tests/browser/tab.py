"""One tab of a real Chromium, in the words of the tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

PATIENCE = 20.0
LOOK = 0.05


class Tab:
    """A page as somebody sees it who has only a keyboard."""

    def __init__(self, driver: Any) -> None:
        self._driver = driver

    def open(self, url: str, width: int = 1200, dark: bool = False, scripts: bool = True) -> Tab:
        """Show a page on a screen like that."""
        self._command("Emulation.setScriptExecutionDisabled", value=not scripts)
        self.resize(width)
        scheme = "dark" if dark else "light"
        features = [{"name": "prefers-color-scheme", "value": scheme}]
        self._command("Emulation.setEmulatedMedia", features=features)
        self._driver.get("about:blank")
        self.complaints()
        self._driver.get(url)
        return self

    def resize(self, width: int, height: int = 800) -> None:
        size = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500}
        self._command("Emulation.setDeviceMetricsOverride", **size)

    def picture(self, path: Path) -> None:
        """The whole page, however long it is."""
        width, height = self.run(
            "const all = document.documentElement; return [all.clientWidth, all.scrollHeight];"
        )
        self.resize(width, height)
        path.write_bytes(self._driver.get_screenshot_as_png())

    def complaints(self) -> list[str]:
        """What the browser found wrong since it was asked last."""
        return [entry["message"] for entry in self._driver.get_log("browser")]

    def run(self, script: str, *values: object) -> Any:
        return self._driver.execute_script(script, *values)

    def elements(self, selector: str) -> Sequence[Any]:
        found: Sequence[Any] = self._driver.find_elements("css selector", selector)
        return found

    def text(self, key: str) -> str:
        (place,) = self.elements(f'[data-text="{key}"]')
        return str(place.text)

    def progress(self, key: str) -> tuple[float, float]:
        (gauge,) = self.elements(f'progress[data-gauge="{key}"]')
        return float(gauge.get_property("value")), float(gauge.get_property("max"))

    @property
    def connection(self) -> str:
        return str(self.elements("#connection")[0].text)

    @property
    def focused(self) -> Any:
        return self._driver.switch_to.active_element

    def press(self, key: str) -> None:
        from selenium.webdriver import ActionChains

        ActionChains(self._driver).send_keys(key).perform()

    def until(self, holds: Callable[[], object]) -> None:
        """Wait for it, but not for ever."""
        end = time.monotonic() + PATIENCE
        while not holds():
            if time.monotonic() > end:
                raise TimeoutError(self.elements("body")[0].text)
            time.sleep(LOOK)

    def _command(self, name: str, **values: object) -> None:
        self._driver.execute_cdp_cmd(name, values)
