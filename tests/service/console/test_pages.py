"""The console's pages and events, from snapshots that tests make up."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import httpx
import pytest
from starlette.applications import Starlette

from croupier.errors import CroupierError
from croupier.service.analyzer.model_age import ModelAge
from croupier.service.console import console_routes, words
from croupier.service.console.events import Events
from croupier.service.console.listed_fields import FIELDS, keep_listed
from croupier.service.console.page_parts import Page, PageGauge, TrendLine
from croupier.service.console.rewards import read_rewards
from croupier.service.console.routes import SAFETY, STATIC, page_of

Snapshot = dict[str, Any]


def shuffler(**changes: object) -> Snapshot:
    return {
        "role": "shuffler", "plan": "ab" * 16, "transport": "bits", "short_policy": "wait",
        "participation_limit": 2, "batches_total": 17, "draining": False, "trouble": "",
        "rolled_back": "",
        "oldest_seconds": 200.0, "accepted": 1345, "refused": {"stale-batch": 3, "malformed": 12},
        "keys": [{"use": "seal", "state": "expired", "expires_seconds": 90000.0}],
        "begun": True, "ended": False, "released": 4, "batch": 4, "state": "open", "size": 500,
        "filled": 137, "padded": 0, "dropped": 6, "model_version": 4, "why": "It is not complete.",
        "newest_batches": [{"batch": 4, "state": "open", "filled": 137, "size": 500}],
    } | changes  # fmt: skip


def analyzer(**changes: object) -> Snapshot:
    return {
        "role": "analyzer", "plan": "cd" * 16, "transport": "bits", "participation_limit": 1,
        "batches_total": 17, "draining": False, "refused": {}, "keys": [], "rewards": None,
        "rolled_back": "", "quarantined": None,
        "epsilon": 0.98765, "epsilon_asked": 1.0, "epsilon_batch": 0.75, "delta": 1e-5,
        "method": "certificate", "learnt": 16, "repairs": 3, "clipped": 2, "model_version": 9,
        "model_hash": "0123456789abcdef", "model_seconds": 7300.0, "model_seen_new": True,
        "publications": 10, "newest_models": [{"model_version": 9, "model_hash": "f00dfeed" * 8}],
        "entries": 16,
        "newest_batches": [{"batch": 15, "size": 4321, "model_version": 9, "standing": "in"}],
        "reports": 65432, "ledger_head": "beef" * 16,
    } | changes  # fmt: skip


def asked(
    path: str, snapshot: Callable[[], Snapshot], method: str = "GET", **more: Any
) -> httpx.Response:
    """The answer of a console that looks again every millisecond."""

    async def call() -> httpx.Response:
        app = Starlette(routes=console_routes(snapshot, every=0.001))
        transport = httpx.ASGITransport(app)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            return await client.request(method, path, **more)

    return asyncio.run(call())


def frames(*snapshots: Snapshot) -> list[dict[str, Any]]:
    """What a listener hears while these are true, one after the other; the last must drain."""
    waiting = iter(snapshots)
    text = asked("/events", lambda: next(waiting)).text
    parts = [part for part in text.split("\n\n") if part and part != ":"]
    return [json.loads(part.partition("data: ")[2]) for part in parts]


class Reader(HTMLParser):
    """Finds what every place of a page shows, and which tags are left open."""

    VOID = frozenset({"meta", "link", "polyline"})

    def __init__(self, text: str) -> None:
        super().__init__()
        self.shown: dict[str, str] = {}
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self._open: list[tuple[str, str | None]] = []
        self.feed(text)
        self.close()
        assert not self._open

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = dict(attrs)
        self.tags.append((tag, found))
        if tag not in self.VOID:
            self._open.append((tag, found.get("data-text")))

    def handle_endtag(self, tag: str) -> None:
        assert tag in self.VOID or self._open.pop()[0] == tag

    def handle_data(self, data: str) -> None:
        if self._open and self._open[-1][1]:
            self.shown[self._open[-1][1]] = data


def html(snapshot: Snapshot) -> str:
    return asked("/", lambda: snapshot).text


def test_the_shuffler_page_shows_its_numbers_without_a_script() -> None:
    text = html(shuffler())
    shown = Reader(text).shown
    assert shown["filled"] == "137 of 500 (27 %)"
    assert shown["released"] == "4 of 17 (23 %)"
    assert shown["oldest"] == "3 minutes"
    assert shown["accepted"] == "1,345"
    assert shown["limit"] == "2 reports in all, one in a batch"
    assert shown["dropped"] == "6"
    assert shown["why"] == "It is not complete."
    assert shown["trouble"] == "none"
    assert 'value="137" max="500"' in text
    assert '<th scope="row">The bytes are not what they claim to be</th><td>12</td>' in text
    assert "<td>expired</td><td>in 1 day</td>" in text


def test_the_analyzer_page_shows_what_privacy_has_cost() -> None:
    text = html(analyzer())
    shown = Reader(text).shown
    assert shown["entries"] == "16 of 17 (94 %)"
    assert shown["left"] == "1"
    assert (shown["epsilon"], shown["delta"]) == ("0.9877", "1e-05")
    assert (shown["once"], shown["asked"]) == ("0.75", "1")
    assert shown["reports"] == "65,432"
    assert shown["repairs"] == "3"
    assert (shown["version"], shown["age"], shown["hash"]) == ("9", "2 hours", "0123456789ab")
    assert '<th scope="row">15</th><td>4,321</td><td>9</td>' in text
    assert "data-trend" not in text


def test_a_model_from_before_the_start_has_a_least_age() -> None:
    assert Reader(html(analyzer(model_seen_new=False))).shown["age"] == "2 hours, at least"


def test_a_plan_without_a_promise_shows_no_epsilon() -> None:
    unproved = analyzer(epsilon=None, epsilon_asked=None, epsilon_batch=None, delta=None)
    assert Reader(html(unproved)).shown["epsilon"] == words.NOTHING


def test_only_reports_of_an_open_batch_wait() -> None:
    assert Reader(html(shuffler(state="sealed"))).shown["oldest"] == words.NOTHING
    assert Reader(html(shuffler(filled=0))).shown["oldest"] == words.NOTHING


def test_a_shuffler_that_has_not_begun_has_a_page() -> None:
    names = ("batch", "state", "size", "filled", "padded", "dropped", "model_version", "why")
    before = {name: value for name, value in shuffler().items() if name not in names}
    text = html(before | {"begun": False, "released": 0, "newest_batches": []})
    assert Reader(text).shown["state"] == "not begun"
    assert '<table data-table="batches" hidden>' in text
    assert 'data-empty="batches">None yet.' in text


def test_rewards_are_shown_where_they_are_told() -> None:
    told = [{"batch": 0, "mean": 0.5}, {"batch": 1, "mean": 0.75}]
    text = html(analyzer(rewards=told))
    assert Reader(text).shown["rewards"] == "From 0.500 in batch 0 to 0.750 in batch 1."
    assert 'points="0.0,30.0 300.0,15.0"' in text
    assert "Nobody has told a reward yet." in html(analyzer(rewards=[]))


@pytest.mark.parametrize("page", [shuffler, analyzer])
def test_a_page_says_that_a_database_was_set_back(page: Callable[..., Snapshot]) -> None:
    """In as many words as a disagreement between both services has."""
    told = f"batch 3 is for model {'ab' * 32}, not for {'cd' * 32}"
    shown = Reader(html(page(rolled_back=told))).shown
    assert shown["news"].startswith("Rolled back, nothing is ")
    assert told in shown["news"]


@pytest.mark.parametrize(
    ("values", "points"),
    [((), ""), ((0.5,), "0.0,30.0 300.0,30.0"), ((-1.0, 2.0), "0.0,60.0 300.0,0.0")],
)
def test_a_trend_stays_within_its_frame(values: tuple[float, ...], points: str) -> None:
    assert TrendLine("key", "label", values, "").points == points


def test_whatever_comes_from_outside_is_escaped() -> None:
    evil = '<script>alert("1")</script>&'
    text = html(shuffler(trouble=evil, why=evil, plan=evil))
    assert evil not in text
    assert text.count("&lt;script&gt;alert(&quot;1&quot;)&lt;/script&gt;&amp;") == 3


def test_a_page_has_headings_captions_and_labels() -> None:
    tags = Reader(html(shuffler())).tags
    names = [tag for tag, _ in tags]
    assert names.count("h1") == names.count("main") == 1
    assert names.count("h2") == names.count("section") == 5
    assert names.count("caption") == names.count("table") == 3
    labels = {found["for"] for tag, found in tags if tag == "label"}
    assert labels == {found["id"] for tag, found in tags if tag == "progress"}
    assert ("p", {"id": "news", "role": "status", "data-text": "news"}) in tags


def test_everything_that_a_page_loads_is_its_own() -> None:
    answer = asked("/", shuffler)
    policy = answer.headers["content-security-policy"]
    assert policy.startswith("default-src 'self';")
    assert "unsafe" not in policy
    tags = Reader(answer.text).tags
    assert not any(re.match("on|style", name) for _, found in tags for name in found)
    links = [found.get("src") or found.get("href") for _, found in tags]
    loaded = {link for link in links if link and link.startswith("console")}
    assert loaded == set(STATIC)
    assert not any(":" in link or link.startswith("/") for link in links if link)
    assert answer.headers["cache-control"] == "no-store"


@pytest.mark.parametrize(("name", "kind"), STATIC.items())
def test_files_are_served_with_their_type_and_a_tag(name: str, kind: str) -> None:
    answer = asked(f"/{name}", shuffler)
    assert answer.headers["content-type"].split(";")[0] == kind
    assert SAFETY.items() <= answer.headers.items()
    again = asked(f"/{name}", shuffler, headers={"if-none-match": answer.headers["etag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert "http:" not in answer.text.replace("http://www.w3.org/2000/svg", "")
    assert "https:" not in answer.text


def test_a_page_without_scripts_refreshes_itself() -> None:
    text = html(shuffler())
    assert '<noscript><meta http-equiv="refresh" content="10"></noscript>' in text
    assert '<a href="?">Refresh</a>' in text


def test_only_listed_fields_of_plain_values_get_out() -> None:
    told = shuffler(
        account="someone", refused={"malformed": 1, "203.0.113.9": 2}, trouble="x" * 301
    )
    told["keys"] = [{"use": "seal", "public": b"key", "state": ["a"]}, "payload"]
    told["newest_batches"] = [{"batch": 1, "payload": b"bits", "state": {"account": 1}}]
    clean = keep_listed(told)
    assert clean.keys() <= FIELDS
    assert clean["refused"] == {"malformed": 1}
    assert clean["newest_batches"] == [{"batch": 1}]
    assert not {"account", "keys", "trouble"} & clean.keys()


def test_nothing_about_a_user_is_on_the_list() -> None:
    about_users = "account|user|address|payload|mac|token|report_id|digest|_key|private|seed"
    assert not [name for name in FIELDS if re.search(about_users, name)]


def test_a_listener_hears_changes_and_only_those() -> None:
    heard = frames(shuffler(), shuffler(), shuffler(filled=138), shuffler(draining=True))
    assert [one["texts"]["filled"] for one in heard] == [
        "137 of 500 (27 %)", "138 of 500 (27 %)", "137 of 500 (27 %)",
    ]  # fmt: skip
    assert heard[1]["gauges"]["filled"] == [138, 500]
    assert heard[-1]["texts"]["news"] == "The service is shutting down."


def test_an_event_has_something_for_every_place_of_the_page() -> None:
    over = analyzer(learnt=17, entries=17)
    for made in (shuffler(), analyzer(rewards=[]), ended(), over):
        (heard,) = frames(made | {"draining": True})
        tags = Reader(html(made)).tags
        for kind in ("text", "gauge", "table", "trend"):
            on_page = {found[f"data-{kind}"] for _, found in tags if f"data-{kind}" in found}
            assert on_page == heard[f"{kind}s"].keys()


def test_seconds_that_pass_are_no_change() -> None:
    heard = frames(
        shuffler(oldest_seconds=61.0),
        shuffler(oldest_seconds=119.0),
        shuffler(oldest_seconds=120.0, draining=True),
    )
    assert [one["texts"]["oldest"] for one in heard] == ["1 minute", "2 minutes"]


def test_the_news_change_by_quarters_not_with_every_report() -> None:
    news = [page_of(shuffler(filled=filled)).news for filled in range(501)]
    assert len(set(news)) == 6
    assert news[250] == "Batch 4 is open and half full."
    assert "complete" in news[500]
    assert "complete" not in news[499]


def test_the_news_say_when_a_batch_or_a_plan_is_closed() -> None:
    assert page_of(shuffler(state="sealed")).news == "Batch 4 is sealed; the next is not open yet."
    assert page_of(shuffler(ended=True)).news == "The plan has ended; no more reports are taken."
    assert page_of(analyzer()).news == "Model 9 is published; the plan has 1 batch left."
    assert page_of(analyzer(quarantined=15)).news.startswith("Batch 15 is quarantined: ")
    assert page_of(analyzer(learnt=17)).news == "Model 9 is published; the plan has ended."


END = "The plan has ended without batch 4: 137 of its reports were dropped; nothing is released."


def ended(**changes: object) -> Snapshot:
    """A shuffler whose plan was retired with a quarter of a batch."""
    empty = {"state": "scrubbed", "filled": 0, "dropped": 137, "why": END, "ended": True}
    return shuffler(**{**empty, **changes})


@pytest.mark.parametrize("short", ["wait", "pad", "drop"])
def test_the_page_of_an_ended_plan_says_so_and_waits_for_nothing(short: str) -> None:
    text = html(ended(short_policy=short))
    shown = Reader(text).shown
    assert shown["news"] == "The plan has ended; no more reports are taken."
    assert shown["why"] == END
    assert not {"filled", "state", "oldest", "padded", "short", "limit"} & shown.keys()
    assert not re.search("wait|is open|padded|is dropped|begun again|Newest batch<", text)
    assert shown["accepted"] == "1,345"


def test_an_ended_plan_is_not_called_rolled_back() -> None:
    told = "batch 3 is not the one it was"
    assert page_of(ended(rolled_back=told)).news == page_of(ended()).news


def test_the_analyzers_page_of_an_ended_plan_counts_nothing_that_is_left() -> None:
    """A batch that is quarantined then is learnt from by no model that would follow."""
    over = {"learnt": 17, "entries": 17}
    for made in (analyzer(**over), analyzer(quarantined=16, **over)):
        text = html(made)
        assert Reader(text).shown["news"] == "Model 9 is published; the plan has ended."
        assert "left" not in Reader(text).shown
        assert "0 batches" not in text


def test_a_plan_that_ends_while_somebody_looks_leaves_no_place_unfilled() -> None:
    """The page is loaded anew when a place has nothing to show: so an event may not have it."""
    before = {
        found["data-text"] for _, found in Reader(html(shuffler())).tags if "data-text" in found
    }
    (heard,) = frames(ended(draining=True))
    assert before - heard["texts"].keys() >= {"filled", "state", "short"}


def test_a_stream_ends_when_the_database_is_out_of_reach() -> None:
    answers = iter([shuffler()])

    def snapshot() -> Snapshot:
        try:
            return next(answers)
        except StopIteration:
            raise CroupierError("gone") from None

    assert asked("/events", snapshot).text.count("data:") == 1


def test_events_are_not_stored_or_held_back_on_their_way() -> None:
    answer = asked("/events", lambda: shuffler(draining=True), method="HEAD")
    assert answer.headers["content-type"].startswith("text/event-stream")
    assert answer.headers["cache-control"] == "no-store"
    assert answer.headers["x-accel-buffering"] == "no"
    assert answer.content == b""


def test_listeners_are_bounded_and_one_that_leaves_makes_room() -> None:
    async def listen(events: Events, gone: asyncio.Event) -> int:
        """Listen until gone; the status."""
        heard: list[dict[str, Any]] = []

        async def receive() -> dict[str, Any]:
            await gone.wait()
            return {"type": "http.disconnect"}

        async def send(message: dict[str, Any]) -> None:
            heard.append(message)

        scope = {"type": "http", "method": "GET", "asgi": {"spec_version": "2.3"}}
        await events(scope, receive, send)
        return int(heard[0]["status"])

    async def pages() -> Page:
        return page_of(shuffler())

    async def story() -> None:
        events, gone = Events(pages, every=0.001, most=2), asyncio.Event()
        first = [asyncio.create_task(listen(events, gone)) for _ in range(2)]
        await asyncio.sleep(0.01)
        assert await listen(events, gone) == 503
        assert events.listeners == 2
        gone.set()
        assert await asyncio.gather(*first) == [200, 200]
        assert events.listeners == 0
        assert await listen(events, gone) == 200

    asyncio.run(story())


def test_many_who_look_at_once_cost_one_look() -> None:
    looks = 0

    def snapshot() -> Snapshot:
        nonlocal looks
        looks += 1
        return shuffler()

    async def story() -> None:
        transport = httpx.ASGITransport(Starlette(routes=console_routes(snapshot, every=60)))
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            await asyncio.gather(*(client.get("/") for _ in range(20)))

    asyncio.run(story())
    assert looks == 1


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        (0, "under a minute"),
        (60, "1 minute"),
        (3599, "59 minutes"),
        (7200, "2 hours"),
        (86400 * 3, "3 days"),
    ],
)
def test_durations_are_told_coarsely(seconds: float, told: str) -> None:
    assert words.duration(seconds) == told


def test_a_gauge_is_full_only_when_nothing_is_missing() -> None:
    assert PageGauge("key", "label", 9999, 10000).text == "9,999 of 10,000 (99 %)"
    assert PageGauge("key", "label", 0, 0).text == "0 of 0 (0 %)"


def test_an_age_begins_with_a_newer_version() -> None:
    now = 100.0
    ages = ModelAge(lambda: now)
    assert (ages.see(3), ages.seen_new) == (0, False)
    now = 160.0
    assert (ages.see(3), ages.seen_new) == (60, False)
    assert (ages.see(4), ages.seen_new) == (0, True)
    now = 170.0
    assert ages.see(3) == 10


@pytest.mark.parametrize("text", [None, "", "[1]", '[{"batch": 0}]', "{}x", "7"])
def test_a_file_of_rewards_that_cannot_be_read_tells_nothing(
    tmp_path: Path, text: str | None
) -> None:
    path = tmp_path / "rewards.json"
    if text is not None:
        path.write_text(text)
    assert read_rewards(path) == []


def test_a_file_of_rewards_is_read(tmp_path: Path) -> None:
    path = tmp_path / "rewards.json"
    path.write_text('[{"batch": 0, "mean": 0.5, "account": "someone"}]')
    assert read_rewards(path) == [{"batch": 0, "mean": 0.5}]
