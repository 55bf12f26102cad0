"""The console as somebody sees it: live, by keyboard, on a phone, in the dark, without scripts."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from croupier.plan import Plan
from croupier.service import Device
from croupier.service.demo.local_services import LocalServices

from .conftest import Console
from .snapshots import Snapshot, analyzer, shuffler
from .tab import Tab

pytestmark = pytest.mark.browser

Consoles = Callable[..., Console]

TAB, SPACE, ENTER = "\ue004", " ", "\ue007"
CONTROLS = ["Skip to the numbers", "Refresh", "Pause updates", "Readiness", "Metrics", "API"]
LEAST_CONTRAST = 4.5
"""Of text, as the accessibility guidelines want it (WCAG 2.2, 1.4.3)."""

BOTH = pytest.mark.parametrize("snapshot", [shuffler(), analyzer()], ids=["shuffler", "analyzer"])


def live(tab: Tab, console: Console, **how: Any) -> Tab:
    tab.open(console.url, **how)
    tab.until(lambda: tab.connection == "Live")
    return tab


def until_filled(tab: Tab, filled: int) -> None:
    tab.until(lambda: tab.progress("filled")[0] == filled)


@BOTH
def test_a_page_loads_and_nothing_is_wrong_with_it(
    tab: Tab, consoles: Consoles, snapshot: Snapshot
) -> None:
    live(tab, consoles(snapshot))
    assert tab.complaints() == []
    title = tab.run("return document.title")
    assert title == f"{snapshot['role'].title()} – croupier"  # noqa: RUF001 - as in the page
    loaded = tab.run("return performance.getEntriesByType('resource').map(one => one.name)")
    origin = tab.run("return location.origin")
    assert len(loaded) >= 3
    assert all(name.startswith(origin) for name in loaded)


def test_numbers_move_while_the_page_stays(tab: Tab, consoles: Consoles) -> None:
    console = consoles(shuffler(refused={}))
    live(tab, console)
    tab.run("window.same = true")
    assert tab.progress("filled") == (6180, 10000)
    assert [table.is_displayed() for table in tab.elements('[data-table="refused"]')] == [False]
    console.change(filled=9000, accepted=1_119_000, refused={"queue-full": 4})
    tab.until(lambda: tab.progress("filled") == (9000, 10000))
    assert tab.text("filled") == "9,000 of 10,000 (90 %)"
    assert tab.text("accepted") == "1,119,000"
    (table,) = tab.elements('[data-table="refused"]')
    assert table.text.splitlines()[-1] == "Too many reports are waiting 4"
    assert [place.is_displayed() for place in tab.elements('[data-empty="refused"]')] == [False]
    assert tab.run("return window.same")


def test_a_trend_grows(tab: Tab, consoles: Consoles) -> None:
    console = consoles(analyzer())
    live(tab, console)
    console.change(rewards=[{"batch": 0, "mean": 0.25}, {"batch": 1, "mean": 1.0}])
    tab.until(lambda: "to 1.000 in batch 1" in tab.text("rewards"))
    (line,) = tab.elements("polyline")
    assert line.get_attribute("points") == "0.0,45.0 300.0,0.0"


def test_news_are_announced_by_quarters_and_not_for_every_report(
    tab: Tab, consoles: Consoles
) -> None:
    console = consoles(shuffler(filled=2600))
    live(tab, console)
    tab.run(
        "window.told = []; new MutationObserver(() => told.push(news.textContent))"
        ".observe(news, {childList: true, characterData: true, subtree: true})"
    )
    for filled in (2700, 3900, 4999, 5000, 5001, 7000):
        console.change(filled=filled)
        until_filled(tab, filled)
    assert tab.run("return told") == ["Batch 11 is open and half full."]
    (news,) = tab.elements("#news")
    assert news.aria_role == "status"


@BOTH
def test_the_keyboard_reaches_every_control_in_order_and_shows_where_it_is(
    tab: Tab, consoles: Consoles, snapshot: Snapshot
) -> None:
    live(tab, consoles(snapshot))
    reached: list[str] = []
    tab.press(TAB)
    while tab.focused.tag_name != "body" and len(reached) < 50:
        now = tab.focused
        reached.append(now.accessible_name)
        assert now.value_of_css_property("outline-style") == "solid"
        assert now.rect["x"] >= 0
        tab.press(TAB)
    assert reached == CONTROLS
    assert len(tab.elements("a, button, input, select, summary, [tabindex='0']")) == len(CONTROLS)


def test_the_skip_link_leads_to_the_numbers(tab: Tab, consoles: Consoles) -> None:
    live(tab, consoles(shuffler()))
    tab.press(TAB)
    tab.press(ENTER)
    assert tab.focused.tag_name == "main"


def test_updates_can_be_paused_and_the_focus_stays(tab: Tab, consoles: Consoles) -> None:
    console = consoles(shuffler())
    live(tab, console)
    for _ in range(3):
        tab.press(TAB)
    tab.press(SPACE)
    assert (tab.connection, tab.focused.get_attribute("aria-pressed")) == ("Paused", "true")
    console.change(filled=7000)
    assert tab.run("return new Promise(done => setTimeout(() => done('later'), 300))") == "later"
    assert tab.progress("filled")[0] == 6180
    tab.press(SPACE)
    tab.until(lambda: tab.progress("filled")[0] == 7000)
    assert tab.focused.accessible_name == "Pause updates"
    assert tab.focused.get_attribute("aria-pressed") == "false"


@BOTH
@pytest.mark.parametrize("width", [320, 360, 768, 1200])
def test_nothing_is_wider_than_the_screen(
    tab: Tab, consoles: Consoles, snapshot: Snapshot, width: int
) -> None:
    live(tab, consoles(snapshot | {"trouble": "unreachable" * 9}), width=width)
    wide, screen = tab.run(
        "const all = document.documentElement; return [all.scrollWidth, all.clientWidth]"
    )
    assert wide <= screen <= width
    outside = tab.run(
        "return [...document.querySelectorAll('main *')]"
        ".filter(one => one.getBoundingClientRect().right > innerWidth)"
        ".map(one => one.outerHTML)"
    )
    assert outside == []


CONTRASTS = """
const channels = text => text.match(/[\\d.]+/g).map(Number);
const linear = part => part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
const light = ([red, green, blue]) =>
  [red, green, blue].map(one => linear(one / 255))
    .reduce((sum, one, place) => sum + one * [0.2126, 0.7152, 0.0722][place], 0);
function ground(element) {
  const found = channels(getComputedStyle(element).backgroundColor);
  return found.length === 3 || found[3] > 0 ? found : ground(element.parentElement);
}
function contrast(element) {
  const [low, high] =
    [light(channels(getComputedStyle(element).color)), light(ground(element))].sort();
  return (high + 0.05) / (low + 0.05);
}
return [...document.querySelectorAll("body *")]
  .filter(one => [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim()))
  .map(one => [one.textContent.slice(0, 40), contrast(one)]);
"""


@BOTH
@pytest.mark.parametrize("dark", [False, True], ids=["light", "dark"])
def test_text_can_be_read(tab: Tab, consoles: Consoles, snapshot: Snapshot, dark: bool) -> None:
    live(tab, consoles(snapshot), dark=dark)
    found = tab.run(CONTRASTS)
    assert len(found) > 40
    assert [one for one in found if one[1] < LEAST_CONTRAST] == []
    red, green, blue = tab.run(
        "return getComputedStyle(document.body).backgroundColor.match(/\\d+/g).map(Number)"
    )
    assert (max(red, green, blue) < 64) is dark


@BOTH
def test_everything_has_a_name(tab: Tab, consoles: Consoles, snapshot: Snapshot) -> None:
    live(tab, consoles(snapshot))
    for selector in ("a", "button", "progress", "table:not([hidden])", "section", "nav"):
        found = tab.elements(selector)
        assert found, selector
        assert all(one.accessible_name for one in found), selector
    levels = [int(one.tag_name[1]) for one in tab.elements("h1, h2, h3")]
    assert levels == [1, *[2] * (len(levels) - 1)]


def test_without_scripts_the_page_is_a_snapshot_that_is_refreshed(
    tab: Tab, consoles: Consoles
) -> None:
    console = consoles(shuffler())
    tab.open(console.url, scripts=False)
    assert tab.text("filled") == "6,180 of 10,000 (61 %)"
    assert [button.is_displayed() for button in tab.elements("button")] == [False]
    console.change(filled=7000)
    tab.press(TAB)
    tab.press(TAB)
    tab.press(ENTER)
    tab.until(lambda: tab.text("filled") == "7,000 of 10,000 (70 %)")


def test_a_page_survives_a_restart_of_the_service(tab: Tab, consoles: Consoles) -> None:
    console = consoles(shuffler())
    live(tab, console)
    console.end()
    tab.until(lambda: tab.connection == "Connection lost, trying again")
    assert tab.text("news") == "The service is shutting down."
    consoles(shuffler(filled=9999), port=console.port)
    tab.until(lambda: tab.progress("filled")[0] == 9999)
    assert tab.connection == "Live"


def test_the_page_of_a_running_shuffler_follows_its_reports(tab: Tab, tmp_path: Path) -> None:
    """Two services in processes of their own, and devices that report to them."""
    plan = Plan.calibrate(
        "vector-sum", dim=2, batch_size=6, horizon=18, epsilon=8.0, delta=1e-2, batches="fixed"
    )
    with LocalServices(tmp_path / "services", plan) as services:
        tab.open(services.url("shuffler"))
        for user in range(6):
            report(services, tmp_path, user)
            until_filled(tab, (user + 1) % 6)
        assert (tab.text("batch"), tab.text("released")) == ("1", "1 of 3 (33 %)")
        tab.open(services.url("analyzer"))
        assert (tab.text("version"), tab.text("reports")) == ("1", "6")
        assert tab.complaints() == []


def report(services: LocalServices, directory: Path, user: int) -> None:
    """One user's device plays and reports."""
    account = hashlib.sha256(f"user {user}".encode()).digest()
    with Device(services.settings, account, directory / f"device-{user}") as device:
        device.refresh()
        ticket = device.choose(np.array([[0.3, 0.1], [0.1, 0.3]]))
        device.reward(ticket, 1.0)
        device.flush(30.0)
