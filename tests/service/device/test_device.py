from __future__ import annotations

import ast
import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import lru_cache
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest

import croupier
from croupier import client as client_module
from croupier import wire
from croupier.analyzer import Analyzer
from croupier.client import Client
from croupier.contribution import contribution
from croupier.plan import Plan
from croupier.protocols.base import most_draws
from croupier.service.device import verification
from croupier.service.device.device import Device, Ticket
from croupier.service.device.http import UnreachableError
from croupier.service.device.ledger import ParticipationLedger, StateError
from croupier.service.device.upload import UploadOutcome
from croupier.service.http.problems import problem_document
from croupier.service.http.reasons import Reason, Refusal
from croupier.shuffler import Batch, Report, gather
from croupier.wire import Transport

from ..in_process_deployment import Town, town

ARMS = np.array([[0.6, 0.0], [0.0, 0.6], [-0.6, 0.0]])
USERS, BATCHES = 3, 4


@lru_cache
def bits_plan(participations: int = 2) -> Plan:
    return Plan.calibrate(
        "vector-sum",
        dim=2,
        batches="fixed",
        batch_size=USERS,
        horizon=USERS * BATCHES,
        epsilon=4.0,
        delta=1e-2,
        max_participations=participations,
    )


def free_plan(participations: int = 2) -> Plan:
    return Plan.calibrate(
        "noiseless",
        dim=2,
        batches="fixed",
        batch_size=USERS,
        horizon=USERS * BATCHES,
        max_participations=participations,
    )


@pytest.fixture
def here() -> Iterator[Town]:
    with town(bits_plan()) as made:
        yield made


@pytest.fixture
def single() -> Iterator[Town]:
    """A town whose users may be in one batch only."""
    with town(bits_plan(1)) as made:
        yield made


def queue(device: Device, reward: float = 1.0) -> Ticket:
    """Play, and have the reward at once."""
    ticket = device.choose(ARMS)
    device.reward(ticket, reward)
    return ticket


def report(place: Town, user: int) -> UploadOutcome:
    with place.device(user) as device:
        queue(device)
        return device.flush()


def complete(place: Town, users: range) -> None:
    """One batch of these users, learnt from."""
    assert [report(place, user) for user in users] == [UploadOutcome.ACCEPTED] * len(users)
    place.carry()


def reason_of(work: Callable[[], object]) -> Reason:
    with pytest.raises(Refusal) as refused:
        work()
    return refused.value.reason


def answer(refusal: Refusal, **headers: str) -> httpx.Response:
    """A service's own words for a refusal."""
    return httpx.Response(refusal.reason.status, json=problem_document(refusal), headers=headers)


def posts(place: Town, respond: Callable[[httpx.Request], httpx.Response | None]) -> None:
    """Let ``respond`` see uploads before the shuffler does."""
    place.bridge.fault = lambda request: respond(request) if request.method == "POST" else None


def lose_answers(place: Town) -> None:
    """Uploads arrive, their answers do not."""

    def lose(request: httpx.Request, _answer: httpx.Response) -> None:
        if request.method == "POST":
            raise httpx.ReadTimeout("lost")

    place.bridge.after = lose


def cut(_request: httpx.Request) -> httpx.Response:
    raise httpx.ConnectError("no network")


# The whole way


@pytest.mark.parametrize(
    ("protocol", "transport"),
    [
        ("vector-sum", Transport.BITS),
        ("vector-sum", Transport.SHARES),
        ("amplified-gaussian", Transport.SEALED),
    ],
    ids=["bits", "shares", "sealed"],
)
def test_devices_teach_the_analyzer_by_every_transport(protocol: str, transport: Transport) -> None:
    plan = Plan.calibrate(
        protocol, dim=2, batches="fixed", batch_size=4, horizon=8, epsilon=4.0, delta=1e-2
    )
    with town(plan, transport) as here:
        complete(here, range(4))
        with here.device(9) as device:
            model = device.refresh()
            assert (model.version, model.users) == (1, 4)
            queue(device)
            assert device.flush() is UploadOutcome.ACCEPTED
            assert device.accepted == [1]


def begin_again(place: Town) -> None:
    """A batch of shares of which the analyzer says that none opened."""
    store = place.shuffler.parts.store
    store.seal(place.plan.id)
    found = store.release(place.plan.id)
    assert found is not None
    nobody = wire.encode_flags(np.zeros(USERS, dtype=bool))
    with pytest.raises(Refusal, match="0 of 3 reports opened"):
        store.share(place.plan.id, found.batch, nobody, found.attempt)
    place.run(place.shuffler.open_batch.refresh())


def test_a_device_reports_again_once_for_each_attempt_at_a_batch_of_shares() -> None:
    """It counts as one participation, the only one that the plan allows, and is drawn afresh."""
    with town(bits_plan(1), Transport.SHARES) as here:
        for attempt in range(2):
            assert [report(here, user) for user in range(USERS)] == [UploadOutcome.ACCEPTED] * USERS
            assert here.open_batch == 0
            begin_again(here)
            assert here.shuffler.parts.store.current(here.plan.id).attempt == attempt + 1
        with here.device(0) as device:
            assert (device.remaining, device.participations, device.accepted) == (0, [0], [0])
            queue(device)
            assert device.flush() is UploadOutcome.ACCEPTED
            assert (device.remaining, device.participations) == (0, [0])
            queue(device)
            assert device.flush() is UploadOutcome.WAITING
            assert device.trouble == "duplicate-user"
        assert here.filled == 1
        mine = here.bridge.uploads[::USERS]
        assert len({record[46:62] for record in mine}) == len({one[94:] for one in mine}) == 3
        complete(here, range(1, USERS))
        with here.device(0) as device:
            assert device.flush() is UploadOutcome.ENDED
            assert (device.trouble, device.remaining) == ("participation-limit", 0)


def test_a_shuffler_that_always_begins_again_gets_no_more_draws_than_any_other() -> None:
    with town(bits_plan(1), Transport.SHARES) as here:
        with here.device(0) as device:
            for attempt in range(most_draws(1)):
                queue(device)
                assert device.flush() is UploadOutcome.ACCEPTED
                assert here.shuffler.parts.store.current(here.plan.id).attempt == attempt
                assert here.shuffler.parts.store.drop(here.plan.id) == 1
                here.run(here.shuffler.open_batch.refresh())
            assert reason_of(lambda: queue(device)) is Reason.PARTICIPATION_LIMIT
        assert len(here.bridge.uploads) == most_draws(1) == 4


def test_bits_are_reported_once_for_a_batch_whatever_becomes_of_it(here: Town) -> None:
    assert report(here, 0) is UploadOutcome.ACCEPTED
    here.shuffler.parts.store.drop(here.plan.id)
    here.run(here.shuffler.open_batch.refresh())
    with here.device(0) as device:
        queue(device)
        assert device.flush() is UploadOutcome.WAITING
        assert device.trouble == "duplicate-user"
    assert here.filled == 0


def test_the_model_is_the_one_that_the_same_reports_give_without_a_network() -> None:
    plan, rewards = free_plan(), [1.0, 0.0, 0.25]
    told: list[tuple[int, float]] = []
    with town(plan, Transport.SEALED) as here:
        settings = dataclasses.replace(here.settings, allow_unproved=True)
        for user, reward in enumerate(rewards):
            with here.device(user, settings) as device:
                told.append((queue(device, reward).arm, reward))
                assert device.flush() is UploadOutcome.ACCEPTED
        here.carry()
        with here.device(0, settings) as device:
            learnt = device.refresh()
    alone = Analyzer(plan)
    reports = [Client(plan).report(ARMS[arm], reward).messages for arm, reward in told]
    assert alone.receive(Batch(plan.id, 0, gather(reports))).hash == learnt.hash


def test_a_device_that_knows_the_newest_model_does_not_fetch_it_again(here: Town) -> None:
    with here.device(0) as device:
        device.refresh()
        before = len(here.bridge.requests)
        device.refresh()
    (request,) = here.bridge.requests[before:]
    assert request.url.path.endswith("/batch")


# Choices and rewards


def test_rewards_may_come_late_in_any_order_and_after_a_restart(here: Town) -> None:
    with here.device(0) as device:
        first, second = device.choose(ARMS), device.choose(ARMS)
    with here.device(0) as device:
        device.reward(second, 1.0)
        assert device.flush() is UploadOutcome.ACCEPTED
        device.reward(first.id, 0.0)
        assert device.waiting


def test_a_masked_arm_is_not_played(here: Town) -> None:
    with here.device(0) as device:
        assert {device.choose(ARMS, [False, True, False]).arm for _ in range(20)} == {1}


def test_the_oldest_of_too_many_open_choices_is_forgotten(here: Town) -> None:
    settings = dataclasses.replace(here.settings, open_choices=2)
    with here.device(0, settings) as device:
        tickets = [device.choose(ARMS) for _ in range(3)]
        with pytest.raises(ValueError, match="ticket must be that of an open choice"):
            device.reward(tickets[0], 1.0)
        device.reward(tickets[1], 1.0)


def test_one_report_is_queued_at_a_time_and_the_other_choice_stays_open(here: Town) -> None:
    with here.device(0) as device:
        first, second = device.choose(ARMS), device.choose(ARMS)
        device.reward(first, 1.0)
        assert reason_of(lambda: device.reward(second, 1.0)) is Reason.DUPLICATE_USER
        assert device.flush() is UploadOutcome.ACCEPTED
        device.reward(second, 1.0)


def test_a_second_report_waits_for_the_next_batch(here: Town) -> None:
    with here.device(0) as device:
        queue(device)
        device.flush()
        queue(device)
        assert device.flush() is UploadOutcome.WAITING
        assert len(here.bridge.uploads) == 1
        complete(here, range(1, 3))
        assert device.flush() is UploadOutcome.ACCEPTED
        assert device.accepted == [0, 1]


def test_a_reward_outside_its_range_is_refused_before_it_is_queued(here: Town) -> None:
    with here.device(0) as device:
        ticket = device.choose(ARMS)
        with pytest.raises(ValueError, match="reward must be in"):
            device.reward(ticket, 1.5)
        assert not device.waiting


# Allowance


def test_no_more_reports_than_the_plan_allows_also_after_a_restart(single: Town) -> None:
    assert report(single, 0) is UploadOutcome.ACCEPTED
    with single.device(0) as device:
        assert device.remaining == 0
        ticket = device.choose(ARMS)
        assert reason_of(lambda: device.reward(ticket, 1.0)) is Reason.PARTICIPATION_LIMIT


def test_a_device_that_lost_its_memory_learns_of_the_limit_from_the_shuffler(single: Town) -> None:
    complete(single, range(3))
    (single.directory / "devices" / "0" / "ledger.jsonl").unlink()
    with single.device(0) as device:
        queue(device)
        assert device.flush() is UploadOutcome.ENDED
        assert device.trouble == "participation-limit"
        assert (device.remaining, device.waiting) == (0, False)
    with single.device(0) as device:
        assert device.remaining == 0


def test_another_device_of_the_account_leaves_the_report_for_the_next_batch(here: Town) -> None:
    assert report(here, 0) is UploadOutcome.ACCEPTED
    with here.device(0, name="tablet") as tablet:
        queue(tablet)
        assert tablet.flush() is UploadOutcome.WAITING
        assert (tablet.trouble, tablet.waiting) == ("duplicate-user", True)
        # The account is in that batch, whichever device sent the report.
        assert (tablet.participations, tablet.accepted) == ([0], [])
        complete(here, range(1, 3))
        assert tablet.flush() is UploadOutcome.ACCEPTED
        assert (tablet.accepted, tablet.remaining) == ([1], 0)


def test_a_successor_takes_over_what_was_spent(tmp_path: Path) -> None:
    ledger = ParticipationLedger(tmp_path)
    ledger.spend("old", 7)
    assert ParticipationLedger(tmp_path).remaining("new", 2) == 1


# Counting before sending


def test_a_participation_is_on_disk_before_its_bytes_leave(here: Town) -> None:
    seen: list[list[int]] = []

    def look(_request: httpx.Request) -> None:
        seen.append(ParticipationLedger(here.home("0")).batches(here.plan.id))

    posts(here, look)
    assert report(here, 0) is UploadOutcome.ACCEPTED
    assert seen == [[0]]


def test_a_device_that_stops_while_sending_sends_the_same_bytes_again(here: Town) -> None:
    def die(_request: httpx.Request) -> None:
        raise KeyboardInterrupt

    posts(here, die)
    with here.device(0) as device:
        queue(device)
        with pytest.raises(KeyboardInterrupt):
            device.flush()
    here.bridge.fault = None
    with here.device(0) as again:
        assert (again.participations, again.remaining) == ([0], 1)
        assert again.flush() is UploadOutcome.ACCEPTED
    first, second = here.bridge.uploads
    assert first == second
    assert here.filled == 1


def test_killed_at_any_step_a_device_never_sends_what_it_has_not_counted(here: Town) -> None:
    answers: dict[str, str] = {}

    def record(request: httpx.Request, found: httpx.Response) -> None:
        answers[f"{request.method} {request.url}"] = found.text

    here.bridge.after = record
    assert report(here, 0) is UploadOutcome.ACCEPTED
    told = {"settings": dataclasses.asdict(here.settings), "answers": answers}
    script = Path(__file__).parent / "killed_device.py"
    done = subprocess.run(
        [sys.executable, "-W", "error", str(script), str(here.home("killed")), json.dumps(told)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    # Kills before the first step, between all of them, and after the bytes have left.
    assert int(done.stdout) >= 8


def test_an_answer_that_is_lost_is_asked_for_again_with_the_same_bytes(here: Town) -> None:
    lose_answers(here)
    with here.device(0) as device:
        queue(device)
        assert device.flush(patience=0.0) is UploadOutcome.WAITING
        here.bridge.after = None
        assert device.flush() is UploadOutcome.ACCEPTED
    assert len(set(here.bridge.uploads)) == 1
    assert here.filled == 1


def test_a_report_that_may_have_been_counted_is_not_made_again(here: Town) -> None:
    lose_answers(here)
    with here.device(0) as device:
        queue(device)
        assert device.flush(patience=0.0) is UploadOutcome.WAITING
        here.bridge.after = None
        complete(here, range(1, 3))
        assert device.flush() is UploadOutcome.LOST
        assert (device.participations, device.waiting) == ([0], False)
    assert here.filled == 0


def test_a_fault_of_the_app_does_not_lose_a_report_that_may_be_in(here: Town) -> None:
    lose_answers(here)
    with here.device(0) as device:
        queue(device)
        assert device.flush(patience=0.0) is UploadOutcome.WAITING
        here.bridge.after = None
        posts(here, lambda _: answer(Refusal(Reason.BAD_TOKEN)))
        assert reason_of(device.flush) is Reason.BAD_TOKEN
        here.bridge.fault = None
        assert device.flush() is UploadOutcome.ACCEPTED
    assert (here.filled, len(set(here.bridge.uploads))) == (1, 1)


# Batches that are over


def closed(_request: httpx.Request) -> httpx.Response:
    return answer(Refusal(Reason.BATCH_CLOSED), **{"retry-after": "1"})


def records(place: Town) -> list[wire.Record]:
    """All that was uploaded."""
    length = len(place.bridge.uploads[0]) - wire.record_length(0)
    return [wire.decode_records(one, length)[0] for one in place.bridge.uploads]


def test_a_stale_report_is_drawn_afresh_for_the_new_batch(single: Town) -> None:
    with single.device(9) as device:
        queue(device)
        posts(single, closed)
        assert device.flush(patience=0.0) is UploadOutcome.WAITING
        single.bridge.fault = None
        complete(single, range(3))
        assert device.flush() is UploadOutcome.ACCEPTED
        assert (device.accepted, device.remaining) == ([1], 0)
    early, *_, stale, fresh = records(single)
    assert early == stale
    assert (stale.batch, fresh.batch) == (0, 1)
    assert stale.report_id != fresh.report_id


def test_a_report_for_a_closed_batch_waits_as_long_as_it_was_asked_to(here: Town) -> None:
    posts(here, lambda _: answer(Refusal(Reason.QUEUE_FULL), **{"retry-after": "7"}))
    with here.device(0) as device:
        queue(device)
        assert device.flush(patience=20.0) is UploadOutcome.WAITING
        assert device.trouble == "queue-full"
    assert [round(seconds // 7) for seconds in here.slept] == [1, 1]
    assert len(set(here.bridge.uploads)) == 1


def test_waits_for_a_network_grow_and_end(here: Town) -> None:
    with here.device(0) as device:
        queue(device)
        here.bridge.fault = cut
        assert device.flush(patience=30.0) is UploadOutcome.WAITING
    assert sum(here.slept) <= 30.0
    assert 5 <= len(here.slept) <= 12
    assert max(here.slept) > 4 * here.slept[0]


def test_an_answer_that_means_nothing_is_no_answer(here: Town) -> None:
    posts(here, lambda _: httpx.Response(502, text="<html>bad gateway</html>"))
    with here.device(0) as device:
        queue(device)
        assert device.flush(patience=0.0) is UploadOutcome.WAITING
        here.bridge.fault = None
        assert device.flush() is UploadOutcome.ACCEPTED


@pytest.fixture
def drawn(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The batches that devices have drawn a report for."""
    batches: list[int] = []
    report_once = Client.report

    def noted(client: Client, *arguments: Any) -> Report:
        made = report_once(client, *arguments)
        batches.append(made.batch)
        return made

    monkeypatch.setattr(Client, "report", noted)
    return batches


def test_a_report_takes_one_client_and_one_contribution(
    here: Town, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts = {"clients": 0, "contributions": 0}

    def counted(name: str, made: Callable[..., Any]) -> Callable[..., Any]:
        def once_more(*arguments: Any) -> Any:
            counts[name] += 1
            return made(*arguments)

        return once_more

    monkeypatch.setattr(verification, "Client", counted("clients", Client))
    monkeypatch.setattr(client_module, "contribution", counted("contributions", contribution))
    with here.device(0) as device:
        queue(device)
        assert device.flush() is UploadOutcome.ACCEPTED
    assert counts == {"clients": 1, "contributions": 1}


AGAIN = [
    Reason.STALE_BATCH,
    Reason.STALE_MODEL,
    Reason.ID_CONFLICT,
    Reason.UNKNOWN_KEY,
    Reason.UNDECRYPTABLE,
]


def test_a_shuffler_that_refuses_a_report_in_any_way_gets_no_second_draw(
    here: Town, drawn: list[int]
) -> None:
    refusals = list(AGAIN)
    posts(here, lambda _: answer(Refusal(refusals.pop())) if refusals else None)
    with here.device(0) as device:
        queue(device)
        assert device.flush(patience=1000.0) is UploadOutcome.ACCEPTED
        assert device.participations == [0]
    assert len(set(here.bridge.uploads)) == 1 + len(AGAIN)
    assert drawn == [0]


def test_what_was_drawn_for_a_batch_is_kept_over_a_restart(here: Town, drawn: list[int]) -> None:
    posts(here, lambda _: answer(Refusal(Reason.UNKNOWN_KEY)))
    with here.device(0) as device:
        queue(device)
        assert device.flush(patience=0.0) is UploadOutcome.WAITING
    here.bridge.fault = None
    with here.device(0) as device:
        assert device.flush() is UploadOutcome.ACCEPTED
    assert drawn == [0]


def test_reports_that_are_refused_for_ever_are_drawn_for_few_batches(tmp_path: Path) -> None:
    ledger = ParticipationLedger(tmp_path)
    for batch in range(most_draws(2)):
        assert ledger.remaining("plan", 2) > 0
        ledger.spend("plan", batch)
        ledger.refund("plan", batch)
    # Two participations and three to spare, which local guarantees count.
    assert ledger.spent() == 0
    assert ParticipationLedger(tmp_path).remaining("plan", 2) == 0


def test_a_plan_that_has_ended_takes_no_report_and_still_lets_choose() -> None:
    with town(bits_plan(1)) as here:
        for batch in range(BATCHES):
            complete(here, range(USERS * batch, USERS * (batch + 1)))
        with here.device(99) as device:
            queue(device)
            assert device.flush() is UploadOutcome.ENDED
            assert device.trouble == "plan-ended"
            assert (device.waiting, device.participations) == (False, [])
            assert device.flush() is UploadOutcome.NOTHING
            assert device.choose(ARMS).arm in range(3)


@pytest.mark.parametrize("reason", [Reason.BAD_TOKEN, Reason.WRONG_LENGTH, Reason.WRONG_PLAN])
def test_what_only_the_app_can_mend_is_raised_and_costs_nothing(here: Town, reason: Reason) -> None:
    posts(here, lambda _: answer(Refusal(reason)))
    with here.device(0) as device:
        queue(device)
        assert reason_of(device.flush) is reason
        assert (device.waiting, device.participations) == (True, [])


# Offline


def test_without_a_network_the_device_plays_on_and_queues_one_report(here: Town) -> None:
    with here.device(0) as device:
        device.refresh()
    here.bridge.fault = cut
    with here.device(0) as device:
        queue(device)
        second = device.choose(ARMS)
        assert reason_of(lambda: device.reward(second, 1.0)) is Reason.DUPLICATE_USER
        assert device.flush(patience=0.0) is UploadOutcome.WAITING
        here.bridge.fault = None
        assert device.flush() is UploadOutcome.ACCEPTED


def test_a_device_that_never_had_a_network_says_so(here: Town) -> None:
    here.bridge.fault = cut
    with here.device(0) as device, pytest.raises(UnreachableError):
        device.choose(ARMS)


def test_an_endless_answer_is_not_heard_out(here: Town, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("croupier.service.device.http.MOST_BYTES", 100)
    with here.device(0) as device, pytest.raises(UnreachableError, match="longer than 100"):
        device.refresh()


# Opting out


def test_who_opts_out_leaves_nothing_behind_and_is_asked_nothing_more(here: Town) -> None:
    with here.device(0) as device:
        queue(device)
        device.opt_out()
        asked = len(here.bridge.requests)
        refused = [
            reason_of(lambda: device.choose(ARMS)),
            reason_of(lambda: device.reward("1", 1.0)),
            reason_of(device.flush),
            reason_of(device.refresh),
        ]
        assert refused == [Reason.OPTED_OUT] * 4
    assert len(here.bridge.requests) == asked
    assert here.filled == 0
    assert {path.name for path in here.home("0").iterdir()} == {"ledger.jsonl", "lock"}


def test_opting_out_is_for_good(here: Town) -> None:
    with here.device(0) as device:
        queue(device)
        device.opt_out()
    with here.device(0) as device:
        assert device.opted_out
        assert reason_of(device.flush) is Reason.OPTED_OUT


def test_opting_out_needs_no_network(here: Town) -> None:
    here.bridge.fault = cut
    with here.device(0) as device:
        device.opt_out()
        assert device.opted_out


def test_what_an_interrupted_opt_out_left_is_deleted_at_the_next_start(here: Town) -> None:
    with here.device(0) as device:
        queue(device)
    ParticipationLedger(here.home("0")).opt_out()
    with here.device(0) as device:
        assert not (here.home("0") / "state.json").exists()
        assert not device.waiting


# Files


def test_two_processes_cannot_share_a_directory(here: Town) -> None:
    with here.device(0), pytest.raises(StateError, match="in use"):
        here.device(0)
    here.device(0).close()


def test_files_are_for_their_owner_only(here: Town) -> None:
    report(here, 0)
    home = here.home("0")
    assert home.stat().st_mode & 0o077 == 0


def test_a_damaged_state_is_forgotten_and_the_ledger_is_not(here: Town) -> None:
    report(here, 0)
    (here.home("0") / "state.json").write_text("{")
    (here.home("0") / "model.json").write_text("{}")
    (here.home("0") / "plan.json").write_bytes(b"\xff")
    with here.device(0) as device:
        assert (device.participations, device.remaining) == ([0], 1)
        assert device.model.version == 0


def test_a_damaged_ledger_stops_the_device(here: Town) -> None:
    report(here, 0)
    ledger = here.home("0") / "ledger.jsonl"
    ledger.write_bytes(b"x" + ledger.read_bytes())
    with pytest.raises(StateError, match="damaged"):
        here.device(0)
    ledger.write_text('{"event": "borrowed", "plan": "", "batch": 0}\n')
    with pytest.raises(StateError, match="does not know"):
        here.device(0)


def test_half_a_line_at_the_end_of_a_ledger_is_of_no_report_that_was_sent(tmp_path: Path) -> None:
    ledger = ParticipationLedger(tmp_path)
    ledger.spend("plan", 0)
    path = tmp_path / "ledger.jsonl"
    path.write_bytes(path.read_bytes() + b'{"event": "spent", "pl')
    again = ParticipationLedger(tmp_path)
    again.spend("plan", 1)
    assert ParticipationLedger(tmp_path).batches("plan") == [0, 1]


# Randomness


SERVICE = Path(croupier.__file__).parent / "service"
ON_DEVICES = [SERVICE / "messages" / "records.py", *sorted((SERVICE / "device").glob("*.py"))]


@pytest.mark.parametrize("path", ON_DEVICES, ids=lambda path: path.name)
def test_devices_name_no_generator_and_no_coins(path: Path) -> None:
    tree = ast.parse(path.read_text())
    words = {getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(tree)}
    imported = {
        word
        for node in ast.walk(tree)
        if isinstance(node, ast.Import | ast.ImportFrom)
        for word in [*(alias.name for alias in node.names), getattr(node, "module", "") or ""]
    }
    banned = {"random", "default_rng", "SeededCoins", "RandomState", "_seeded", "_coins"}
    assert not (words | imported) & banned
    assert not any("coins" in word for word in imported)
