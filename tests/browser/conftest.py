"""A real Chromium, and consoles for it to look at."""

from __future__ import annotations

import asyncio
import shutil
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import uvicorn
from starlette.applications import Starlette

from croupier.service.console import console_routes
from croupier.service.http import server
from croupier.service.http.connections import ConnectionLimits

from .tab import Tab

QUICKLY = 0.05


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "browser: in a real Chromium, see `make test-browser`")


@pytest.fixture(scope="session")
def chromium() -> Iterator[Any]:
    why = "needs selenium, chromium and chromium-driver; `make test-browser` installs them"
    webdriver = pytest.importorskip("selenium.webdriver", reason=why)
    service = pytest.importorskip("selenium.webdriver.chrome.service", reason=why)
    binary, driver = shutil.which("chromium"), shutil.which("chromedriver")
    if binary is None or driver is None:
        pytest.skip(why)
    options = webdriver.ChromeOptions()
    options.binary_location = binary
    options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
    # A container has no user namespaces for the sandbox; all pages are our own.
    for one in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
        options.add_argument(one)
    made = webdriver.Chrome(options=options, service=service.Service(driver))
    yield made
    made.quit()


@pytest.fixture
def tab(chromium: Any) -> Iterator[Tab]:
    yield Tab(chromium)
    chromium.get("about:blank")


class Console:
    """A console on loopback whose snapshot is what the test says."""

    def __init__(self, snapshot: dict[str, Any], port: int = 0) -> None:
        self.snapshot = snapshot
        self._bound = server.listen("127.0.0.1", port)
        self.port: int = self._bound.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}/"
        app = Starlette(routes=console_routes(lambda: self.snapshot, every=QUICKLY))
        config = uvicorn.Config(app, log_config=None, access_log=False)
        self._server = server.Server(config, self._drain, ConnectionLimits(512, 10.0, 60.0))
        self._thread = threading.Thread(target=self._serve)
        self._thread.start()

    def change(self, **values: object) -> None:
        self.snapshot = self.snapshot | values

    def end(self) -> None:
        self._server.handle_exit(15, None)
        self._thread.join()
        self._bound.close()

    def _drain(self) -> None:
        self.change(draining=True)

    def _serve(self) -> None:
        asyncio.run(self._server.serve([self._bound]))


@pytest.fixture
def consoles() -> Iterator[Callable[..., Console]]:
    running: list[Console] = []

    def start(snapshot: dict[str, Any], port: int = 0) -> Console:
        running.append(Console(snapshot, port))
        return running[-1]

    yield start
    for one in running:
        one.end()
