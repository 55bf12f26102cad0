"""The consoles of both services as they run: right numbers, and nothing about anybody."""

from __future__ import annotations

import asyncio
import json
import signal
import threading
import time
from dataclasses import replace
from pathlib import Path

import httpx
import pytest
import uvicorn

from croupier import wire
from croupier.service.analyzer.app import AnalyzerApp
from croupier.service.console import analyzer_console
from croupier.service.http import server
from croupier.service.http.connections import ConnectionLimits
from croupier.wire import Transport

from .conftest import Deploy
from .deployment import BATCHES, USERS, Deployment, account, altered
from .test_views import traces

PATIENCE = 60.0


def shown(services: Deployment, app: object) -> dict[str, str]:
    """The texts of a page; draining makes the stream end."""
    services.shuffler.drain()
    services.analyzer.drain()
    text = services.ask(app, "GET", "/events").text
    texts: dict[str, str] = json.loads(text.rpartition("data: ")[2])["texts"]
    return texts


def test_the_shuffler_shows_its_batch_as_it_fills(services: Deployment) -> None:
    services.fill(range(USERS - 2))
    services.post(altered(services.record(0), batch=1))
    assert f"{USERS - 2} of {USERS} (66 %)" in services.get("/").text
    told = shown(services, services.shuffler)
    assert (told["batch"], told["state"], told["released"]) == ("0", "open", "0 of 3 (0 %)")
    assert (told["accepted"], told["limit"]) == ("4", "2 reports in all, one in a batch")
    assert told["oldest"] == "under a minute"
    assert told["why"].endswith("never short: 2 are missing.")


def test_both_pages_are_the_same_over_postgresql(deploy: Deploy) -> None:
    services = deploy(kind="postgresql")
    services.fill(range(USERS))
    services.carry()
    assert shown(services, services.shuffler)["released"] == f"1 of {BATCHES} (33 %)"
    assert shown(services, services.analyzer)["publications"] == "2"


def test_refused_reports_are_counted_by_reason(services: Deployment) -> None:
    record = services.record(0)
    services.post(altered(record, batch=1))
    services.post(record[:-1])
    text = services.get("/").text
    assert '<th scope="row">That batch is not open</th><td>1</td>' in text
    assert '<th scope="row">The length differs from the plan&#x27;s</th><td>1</td>' in text


def test_the_analyzer_shows_model_and_ledger(services: Deployment) -> None:
    services.fill(range(USERS))
    services.carry()
    told = shown(services, services.analyzer)
    newest = services.analyzer.parts.store.newest_model(services.plan.id).model
    assert (told["version"], told["hash"]) == (str(newest.version), newest.hash[:12])
    assert told["learnt"] == told["entries"] == f"1 of {BATCHES} (33 %)"
    assert (told["left"], told["reports"]) == ("2", str(USERS))
    assert told["age"] == "under a minute, at least"
    budget = services.plan.budget
    assert budget is not None
    certified = services.plan.promise.epsilon(budget.delta)
    assert float(told["epsilon"]) == pytest.approx(certified, rel=1e-3)
    assert float(told["epsilon"]) <= budget.epsilon == float(told["asked"])
    assert float(told["delta"]) == budget.delta


def test_a_plan_that_has_ended_says_so_on_both_pages(services: Deployment) -> None:
    for batch in range(BATCHES):
        services.fill(range(USERS * batch, USERS * (batch + 1)))
        services.carry()
    assert "The plan has ended; no more reports are taken." in services.get("/").text
    assert f"Model {BATCHES} is published; the plan has ended." in services.read("/").text


def test_a_shuffler_shows_its_page_before_the_first_model(deploy: Deploy) -> None:
    assert "The plan has not begun" in deploy(begun=False).get("/").text


def test_a_console_can_be_turned_off(deploy: Deploy) -> None:
    services = deploy(change=lambda settings: replace(settings, console=False))
    for path in ("/", "/events", "/console.js"):
        assert services.get(path).status_code == 404
    assert services.get("/healthz").status_code == 200


@pytest.mark.parametrize("transport", list(Transport))
def test_no_trace_of_a_user_is_on_a_page(deploy: Deploy, transport: Transport) -> None:
    services = deploy(transport)
    records = [services.record(user) for user in range(USERS - 1)]
    services.post(*records)
    services.post(records[0][:-1], headers={"x-forwarded-for": "203.0.113.9"})
    pages = (services.get("/").content, services.read("/").content)
    for user, record in enumerate(records):
        (decoded,) = wire.decode_records(record, len(record) - wire.record_length(0))
        for secret in (decoded.report_id, account(user), decoded.sealed[:48], decoded.sealed[-48:]):
            assert not traces(secret[:12], *pages)
    for name in (b"203.0.113.9", b"127.0.0.1", b"testclient"):
        assert not any(name in page for page in pages)


def test_rewards_come_from_the_file_that_is_told(services: Deployment, tmp_path: Path) -> None:
    path = tmp_path / "rewards.json"
    parts = services.analyzer.parts
    app = AnalyzerApp(
        replace(parts, settings=replace(parts.settings, rewards=path)), pages=analyzer_console
    )
    assert "Nobody has told a reward yet." in services.ask(app, "GET", "/").text
    path.write_text('[{"batch": 0, "mean": 0.5}]')
    app = AnalyzerApp(app.parts, pages=analyzer_console)
    assert "From 0.500 in batch 0" in services.ask(app, "GET", "/").text


def test_an_open_page_does_not_hold_up_the_end_of_a_service(services: Deployment) -> None:
    app, bound = services.analyzer, server.listen("127.0.0.1", 0)
    running = server.Server(
        uvicorn.Config(app, log_config=None), app.drain, ConnectionLimits(512, 10.0, 60.0)
    )
    thread = threading.Thread(target=lambda: asyncio.run(running.serve([bound])))
    thread.start()
    address = f"http://127.0.0.1:{bound.getsockname()[1]}/events"
    with httpx.stream("GET", address, trust_env=False, timeout=PATIENCE) as answer:
        lines = answer.iter_lines()
        assert next(lines) == "retry: 2000"
        started = time.monotonic()
        running.handle_exit(signal.SIGTERM, None)
        assert "The service is shutting down." in "".join(lines)
    thread.join(PATIENCE)
    bound.close()
    assert not thread.is_alive()
    assert time.monotonic() - started < server.DRAIN_SECONDS / 2
