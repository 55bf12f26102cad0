"""What operators are told: why a batch is not released, and what to do about it."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from croupier.service.admin import doctor
from croupier.service.admin.decisions import RetiredPlan, adopt, judge, retire
from croupier.service.admin.doctor import CheckError
from croupier.service.admin.service_status import ServiceStatus
from croupier.service.admin.status import status
from croupier.service.settings import BatchSettings, ShortBatchPolicy
from croupier.service.shuffler.batch_status import explain_wait
from croupier.service.shuffler.rows import BatchRow, BatchState
from croupier.service.startup import StartError
from croupier.service.storage.database import Database
from croupier.service.toml_tables import SettingsError

from ..beside_the_keys import beside
from .conftest import Deploy
from .deployment import USERS, reason


def batch(state: BatchState, filled: int) -> BatchRow:
    return BatchRow("p", 3, state, 10, filled, 0, 0, 3, "hash", bytes(32))


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (
            batch(BatchState.OPEN, 7),
            "has 7 of 10 reports. It is released when it is complete, never",
        ),
        (
            batch(BatchState.OPEN, 10),
            "Batch 3 is complete with 10 reports and is about to be sealed",
        ),
        (batch(BatchState.SEALED, 10), "is sealed and is about to be shuffled"),
        (batch(BatchState.RELEASED, 10), "the analyzer has not acknowledged it"),
        (batch(BatchState.ACKNOWLEDGED, 10), "its reports are about to be deleted"),
    ],
)
def test_every_state_of_a_batch_has_its_answer(found: BatchRow, words: str) -> None:
    assert words in explain_wait(found)


def told(answers: dict[str, ServiceStatus], monkeypatch: pytest.MonkeyPatch) -> None:
    """What the two services would say."""
    monkeypatch.setattr("croupier.service.admin.status.own_url", lambda _: "own")
    monkeypatch.setattr(
        "croupier.service.admin.status.ask_service",
        lambda url: answers["own" if url == "own" else "peer"],
    )


READY = ServiceStatus("here", True, True)


@pytest.mark.parametrize(
    ("own", "peer", "words"),
    [
        (ServiceStatus("here", False), READY, "Start the shuffler"),
        (READY, ServiceStatus("there", False), "The analyzer does not answer at there"),
        (READY, ServiceStatus("there", True, False, ("x",)), "answers at there, but waits: x"),
        (
            ServiceStatus("here", True, True, (), "bad-token"),
            READY,
            "The last try failed: bad-token",
        ),
        (READY, READY, "Nothing is wrong; look again in a moment."),
    ],
)
def test_a_complete_batch_that_is_stuck_is_explained(
    deploy: Deploy,
    monkeypatch: pytest.MonkeyPatch,
    own: ServiceStatus,
    peer: ServiceStatus,
    words: str,
) -> None:
    services = deploy()
    services.fill(range(USERS))
    told({"own": own, "peer": peer}, monkeypatch)
    settings = replace(services.shuffler.parts.settings, database=services.urls["shuffler"])
    found = status(settings)
    assert words in found.advice
    assert not found.moving


@pytest.mark.parametrize(
    ("short", "words"),
    [
        (ShortBatchPolicy.WAIT, "Wait for more users, or set batches.short"),
        (ShortBatchPolicy.PAD, "padded after 60 seconds, once 90% of its reports are real"),
        (ShortBatchPolicy.DROP, "dropped and begun again after 60 seconds"),
    ],
)
def test_a_short_batch_is_explained_by_its_policy(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch, short: ShortBatchPolicy, words: str
) -> None:
    services = deploy()
    services.fill(range(2))
    told({"own": READY, "peer": READY}, monkeypatch)
    rules = BatchSettings(short, after_seconds=60.0)
    parts = services.shuffler.parts
    settings = replace(parts.settings, database=services.urls["shuffler"], batches=rules)
    found = status(settings)
    assert found.moving
    assert words in found.advice
    assert found.facts["filled"] == 2


@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_what_the_running_service_has_found_is_told_though_the_database_looks_well(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch, role: str
) -> None:
    services = deploy()
    services.fill(range(2))
    parts: Any = getattr(services, role).parts
    settings = replace(parts.settings, database=services.urls[role])
    behind = ("rolled-back: the analyzer has learnt from 0 batches",)
    told({"own": ServiceStatus("here", True, False, behind), "peer": READY}, monkeypatch)
    found = status(settings)
    assert not found.moving
    assert found.answer.startswith("Rolled back, nothing is")
    assert "the analyzer has learnt from 0 batches" in found.answer
    assert "Bring back the newest copy" in found.advice


@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
@pytest.mark.parametrize(
    "own",
    [
        ServiceStatus("here", True, False, ("a disk is full",)),
        ServiceStatus("here", True, True, (), "unreachable"),
    ],
)
def test_a_service_in_trouble_is_no_plan_that_moves_and_does_not_pass_doctor(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch, role: str, own: ServiceStatus
) -> None:
    services = deploy()
    parts: Any = getattr(services, role).parts
    settings = replace(parts.settings, database=services.urls[role])
    words = own.trouble or own.waiting_for[0]
    told({"own": own, "peer": READY}, monkeypatch)
    found = status(settings)
    assert not found.moving
    assert words in found.advice
    monkeypatch.setattr(doctor, "ask_service", lambda _: own)
    with pytest.raises(CheckError, match=words):
        doctor._own(settings)
    monkeypatch.setattr(doctor, "ask_service", lambda _: READY)
    assert doctor._own(settings) == "is ready at here"


def test_the_end_of_a_plan_is_told_by_both(deploy: Deploy, monkeypatch: pytest.MonkeyPatch) -> None:
    services = deploy()
    told({"own": READY, "peer": READY}, monkeypatch)
    for number in range(3):
        services.fill(range(number * USERS, (number + 1) * USERS))
        services.carry()
    for role, words in (
        ("shuffler", "The plan has ended with batch 2"),
        ("analyzer", "All batches have come; the plan has ended."),
    ):
        parts: Any = getattr(services, role).parts
        found = status(replace(parts.settings, database=services.urls[role]))
        assert words in found.answer
        assert found.moving


def test_a_plan_is_retired_while_its_shuffler_runs(deploy: Deploy) -> None:
    services = deploy()
    services.fill(range(2))
    late = services.record(5)
    settings = replace(services.shuffler.parts.settings, database=services.urls["shuffler"])
    assert retire(settings) == RetiredPlan(services.plan.id, 2)
    assert retire(settings) == RetiredPlan(services.plan.id, 0)
    assert reason(services.post(late)) == "plan-ended"
    services.carry()


def test_the_end_of_a_retired_plan_is_told_alike_by_status_page_and_readiness(
    deploy: Deploy,
) -> None:
    services = deploy()
    services.fill(range(2))
    settings = replace(services.shuffler.parts.settings, database=services.urls["shuffler"])
    retire(settings)
    words = "The plan has ended without batch 0: 2 of its reports were dropped; nothing more is"
    for _ in range(2):
        found, page = status(settings), services.get("/").text
        assert found.answer.startswith(words)
        assert (found.advice, found.moving) == ("", True)
        assert words in page
        assert "no more reports are taken" in page
        assert not re.search("wait|is open|missing", page.partition("Reports since")[0])
        assert services.get("/readyz").json() == {"ready": True, "waiting_for": [], "trouble": ""}
        services.carry()


def test_a_plan_that_was_set_back_and_retired_has_ended_and_no_more(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> None:
    services = deploy()
    store = services.shuffler.parts.store
    monkeypatch.setattr(store, "set_back", lambda _: "batch 3 was here")
    assert services.get("/readyz").status_code == 503
    store.retire(services.plan.id)
    assert services.get("/readyz").json() == {"ready": True, "waiting_for": [], "trouble": ""}
    assert "Rolled back" not in services.get("/").text


def test_a_plan_is_retired_by_its_shuffler_only_and_once_it_has_begun(
    deploy: Deploy, tmp_path: Path
) -> None:
    services = deploy()
    analyzer = replace(services.analyzer.parts.settings, database=services.urls["analyzer"])
    with pytest.raises(SettingsError, match="a plan is retired at the shuffler"):
        retire(analyzer)
    settings = replace(services.shuffler.parts.settings, database=str(tmp_path / "new.db"))
    elsewhere = replace(settings, keys=replace(settings.keys, never_back_up=tmp_path / "beside"))
    with pytest.raises(StartError, match="has not begun here"):
        retire(elsewhere)


def test_a_plan_whose_database_is_gone_is_no_plan_that_has_not_begun(
    deploy: Deploy, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """At either role, whether the file is not there or one of which nothing is known."""
    services = deploy()
    told({"own": READY, "peer": READY}, monkeypatch)
    for app in (services.shuffler, services.analyzer):
        role = app.parts.settings.role.value
        path = tmp_path / f"{role}.db"
        kept = replace(app.parts.settings.keys, never_back_up=beside(app.parts.database))
        settings = replace(app.parts.settings, database=str(path), keys=kept)
        for begun in (False, True):
            if begun:
                Database.open(str(path), role).close()
            found = status(settings)
            assert (found.moving, "Rolled back" in found.answer) == (False, True)
            assert "another plan" in found.advice
            with pytest.raises(CheckError, match="rolled-back"):
                doctor._database(settings)
        with pytest.raises(StartError, match="nothing to adopt"):
            adopt(settings)


def test_what_is_left_of_a_plan_whose_database_is_gone_is_destroyed_on_request(
    deploy: Deploy, tmp_path: Path
) -> None:
    services = deploy()
    services.fill(range(2))
    parts = services.shuffler.parts
    kept = replace(parts.settings.keys, never_back_up=beside(parts.database))
    settings = replace(parts.settings, database=str(tmp_path / "new.db"), keys=kept)
    with pytest.raises(StartError, match="another plan"):
        retire(settings)
    assert len(list(beside(parts.database).glob("*.*.*.*"))) == 2
    assert retire(settings, abandon=True) == RetiredPlan(services.plan.id, 0)
    assert list(beside(parts.database).glob("*.*.*.*")) == []


def test_batches_are_judged_by_their_analyzer_and_in_one_way(deploy: Deploy) -> None:
    services = deploy()
    services.fill(range(USERS))
    services.carry()
    ours, theirs = (
        replace(getattr(services, role).parts.settings, database=services.urls[role])
        for role in ("analyzer", "shuffler")
    )
    with pytest.raises(SettingsError, match="batches are judged at the analyzer"):
        judge(theirs, [], [])
    with pytest.raises(SettingsError, match="batch 0 cannot be left out and taken in"):
        judge(ours, [0, 1], [0])
    with pytest.raises(StartError, match="batch 1 has not come, 1 have"):
        judge(ours, [1], [])
    (found,) = judge(ours, [0], [])
    assert (found.batch, found.is_in) == (0, False)
    assert judge(ours, [], [0])[0].is_in


def test_a_plan_is_not_retired_while_a_batch_is_on_its_way(deploy: Deploy) -> None:
    services = deploy()
    services.fill(range(USERS))
    services.shuffler.parts.store.seal(services.plan.id)
    settings = replace(services.shuffler.parts.settings, database=services.urls["shuffler"])
    with pytest.raises(StartError, match=r"batch 0 is sealed; try again in a moment"):
        retire(settings)
    assert retire(settings, abandon=True) == RetiredPlan(services.plan.id, USERS)
    services.carry()
    assert all(request.method == "GET" for request in services.sent)
