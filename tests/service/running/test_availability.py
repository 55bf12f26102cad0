"""What a crowd of strangers or a full disk may cost, and that services say so."""

from __future__ import annotations

import resource
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from croupier.service import disk_space
from croupier.service.admin import doctor
from croupier.service.disk_space import FULL, LEAST_FREE, DiskWatch, is_disk_full
from croupier.service.http import guards, server
from croupier.service.settings import LimitSettings, Settings
from croupier.service.storage import ledger
from croupier.service.storage.database import DatabaseError
from croupier.wire import Transport

from .conftest import Deploy
from .deployment import BATCHES, USERS, Deployment, Roles, altered, reason


class FullError(Exception):
    """As SQLite says it."""

    sqlite_errorname = "SQLITE_FULL"


def small_disk(monkeypatch: pytest.MonkeyPatch, free: int) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))


def test_both_services_want_no_traffic_on_a_full_disk(
    services: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert services.get("/readyz").status_code == services.read("/readyz").status_code == 200
    small_disk(monkeypatch, LEAST_FREE - 1)
    for answer in (services.get("/readyz"), services.read("/readyz")):
        assert (answer.status_code, answer.json()["waiting_for"]) == (503, [FULL])
    small_disk(monkeypatch, LEAST_FREE)
    assert services.get("/readyz").status_code == services.read("/readyz").status_code == 200


def test_a_write_that_failed_for_the_disk_is_remembered_for_a_while(
    services: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: Any) -> Any:
        raise RuntimeError("commit failed") from FullError()

    monkeypatch.setattr(services.shuffler._receiver, "take", fail)
    assert services.post(services.record(1)).status_code == 500
    assert services.get("/readyz").json()["waiting_for"] == [FULL]


def test_a_failed_write_is_forgotten_and_other_errors_say_nothing_of_the_disk() -> None:
    now = 0.0
    watch = DiskWatch("postgresql://elsewhere/name", Path("/"), lambda: now)
    watch.note(ValueError("of something else"))
    assert watch.blockers() == []
    watch.note(FullError())
    assert watch.blockers() == [FULL]
    now = disk_space.PAUSE
    assert watch.blockers() == []
    assert is_disk_full(OSError(28, "No space left on device"))


@pytest.mark.parametrize("database", ["postgresql://elsewhere/name", "{}/large/shuffler.db"])
def test_the_disk_that_takes_the_keys_of_batches_is_watched_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, database: str
) -> None:
    free = {tmp_path / "small": LEAST_FREE, tmp_path / "large": 10 * LEAST_FREE}
    for directory in free:
        directory.mkdir()
    monkeypatch.setattr(shutil, "disk_usage", lambda found: SimpleNamespace(free=free[found]))
    watch = DiskWatch(database.format(tmp_path), tmp_path / "small" / "never-back-up")
    assert watch.blockers() == []
    free[tmp_path / "small"] = LEAST_FREE - 1
    assert watch.blockers() == [FULL]


@pytest.mark.parametrize("error", [OSError(28, "No space left on device"), DatabaseError("full")])
def test_a_step_of_the_courier_that_failed_for_the_disk_is_remembered(
    services: Deployment, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    if not isinstance(error, OSError):
        error.__cause__ = FullError()

    async def fail() -> bool:
        raise error

    assert services.get("/readyz").status_code == 200
    monkeypatch.setattr(services.shuffler.courier, "step", fail)
    services.runner.run(services.shuffler.courier._try_step())
    assert services.get("/readyz").json()["waiting_for"] == [FULL]


def test_the_ledger_is_verified_once_for_each_time_that_it_grows(
    services: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    read, verified = ledger.read_ledger, []

    def counted(*arguments: Any) -> Any:
        verified.append(arguments)
        return read(*arguments)

    monkeypatch.setattr("croupier.service.analyzer.store.ledger.read_ledger", counted)
    place = f"/v1/plans/{services.plan.id}/ledger"
    before = services.read(place).json()["entries"]
    assert before == services.read(place).json()["entries"] == []
    services.fill(range(USERS))
    verified.clear()
    services.carry()
    found = [services.read(f"{place}{more}").json() for more in ("", "?from=0") for _ in range(3)]
    assert services.read(f"{place}?from=1").json() == {"plan": services.plan.id, "entries": []}
    assert len(verified) == 1
    assert [one["batch"] for one in found[-1]["entries"]] == [0]
    assert all(one == found[0] for one in found)


@pytest.mark.parametrize("transport", list(Transport))
def test_batch_numbers_that_are_made_up_are_not_computed_for(
    deploy: Deploy, transport: Transport
) -> None:
    """What a report of a release looks like is found by randomising, which takes its time."""
    services = deploy(transport)
    record = services.record(1)
    known = services.shuffler.parts.transport._report_shapes
    before = known.cache_info().misses
    for batch in [*range(1, BATCHES), 10**3, 10**6, 2**32 - 1]:
        refused = services.post(altered(record, batch=batch))
        assert reason(refused) in ("stale-batch", "plan-ended")
    assert known.cache_info().misses == before


def test_large_bodies_that_do_not_fit_are_refused_and_single_reports_are_not(
    deploy: Deploy,
) -> None:
    limits = LimitSettings(openers=0, held_bytes=2**17, body_bytes=2**17)
    services = deploy(change=lambda settings: replace(settings, limits=limits))
    budget = services.shuffler._bodies
    budget.held = 2**17 - 100  # others are being read
    refused = services.post(bytes(guards.SMALL + 101))
    assert (refused.status_code, reason(refused)) == (503, "queue-full")
    assert refused.headers["retry-after"]
    assert services.post(services.record(1)).status_code == 201
    assert budget.held == 2**17 - 100


def test_doctor_counts_the_files_that_may_be_open(
    roles_of: Callable[[Transport], Roles], monkeypatch: pytest.MonkeyPatch
) -> None:
    def files(settings: Settings) -> doctor.CheckResult:
        return doctor._run_check("files", doctor._files, settings)

    settings = roles_of(Transport.BITS).shuffler.settings
    wanted = settings.limits.connections + server.SPARE_FILES
    monkeypatch.setattr(resource, "getrlimit", lambda _: (wanted, wanted))
    assert files(settings).ok
    monkeypatch.setattr(resource, "getrlimit", lambda _: (wanted, wanted - 1))
    assert "raise LimitNOFILE" in files(settings).words
