"""Every refusal of the shuffler over HTTP, by its own reason; the service goes on afterwards."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import httpx
import pytest

from croupier import wire
from croupier.service.http.reasons import Reason
from croupier.service.messages.records import Address, make_record
from croupier.service.messages.sealing import Binding, seal_report
from croupier.service.settings import AccessSettings, LimitSettings, Settings, token_hash
from croupier.service.shuffler.acceptance import Upload
from croupier.service.shuffler.upload import OPENED_HERE, OPENED_TOGETHER
from croupier.service.startup import open_keyring
from croupier.wire import Record, Transport

from .conftest import Deploy
from .deployment import BATCHES, USERS, Deployment, Roles, account, altered, made_plan, reason


def goes_on(services: Deployment) -> None:
    """An honest report is still taken."""
    assert services.post(services.record(1000)).status_code == 201


def filled(services: Deployment) -> int:
    found = services.runner.run(services.shuffler.open_batch.refresh())
    assert found is not None
    return found.filled


def counted(services: Deployment, code: str) -> float:
    name = f'croupier_reports_total{{reason="{code}"}} '
    lines = services.get("/metrics").text.splitlines()
    return next(float(line.removeprefix(name)) for line in lines if line.startswith(name))


def check(services: Deployment, sent: bytes, wanted: Reason) -> None:
    """One upload is refused for that reason, counted, and leaves nothing behind."""
    before, held = counted(services, wanted.code), filled(services)
    answer = services.post(sent)
    assert (reason(answer), answer.status_code) == (wanted.code, wanted.status)
    assert ("retry-after" in answer.headers) == wanted.retry
    assert counted(services, wanted.code) == before + 1
    assert filled(services) == held
    goes_on(services)


def test_an_accepted_report_is_answered_and_counted(services: Deployment) -> None:
    answer = services.post(services.record(0))
    assert (answer.status_code, answer.json()) == (201, {"accepted": 1, "failures": []})
    assert counted(services, "accepted") == 1
    assert filled(services) == 1


def test_the_same_bytes_again_are_accepted_again_and_kept_once(services: Deployment) -> None:
    sent = services.record(0)
    assert [services.post(sent).status_code for _ in range(3)] == [201] * 3
    assert services.post(sent, sent).json() == {"accepted": 2, "failures": []}
    assert filled(services) == 1


def test_the_same_id_with_other_bytes_is_a_conflict(services: Deployment) -> None:
    sent = services.record(0)
    services.post(sent)
    check(services, altered(sent, account=account(7)), Reason.ID_CONFLICT)


@pytest.mark.parametrize("plan", ["0" * 32, "nothing", ""])
def test_a_report_to_another_plan_is_refused(services: Deployment, plan: str) -> None:
    path = f"/v1/plans/{plan}/reports"
    answer = services.ask(services.shuffler, "POST", path, content=services.record(0))
    assert (reason(answer), answer.status_code) == ("wrong-plan", 404)
    goes_on(services)


def test_a_report_for_a_later_batch_is_stale(services: Deployment) -> None:
    check(services, altered(services.record(0), batch=1), Reason.STALE_BATCH)


def test_a_report_made_with_another_model_is_stale(services: Deployment) -> None:
    check(services, altered(services.record(0), model_hash="ab" * 32), Reason.STALE_MODEL)


@pytest.mark.parametrize("change", [lambda sent: sent[:-1], lambda sent: sent + b"\0", bytes.hex])
def test_a_body_of_another_length_is_refused(services: Deployment, change: Any) -> None:
    sent = change(services.record(0))
    wanted = Reason.BAD_VERSION if isinstance(sent, str) else Reason.WRONG_LENGTH
    check(services, sent.encode() if isinstance(sent, str) else sent, wanted)


def test_an_empty_body_is_refused(services: Deployment) -> None:
    check(services, b"", Reason.WRONG_LENGTH)


def test_an_unknown_transport_is_malformed(services: Deployment) -> None:
    sent = bytearray(services.record(0))
    sent[1] = 7
    check(services, bytes(sent), Reason.MALFORMED)


def test_another_transport_than_the_plans_is_malformed(services: Deployment) -> None:
    check(services, altered(services.record(0), transport=Transport.SEALED), Reason.MALFORMED)


def test_another_version_is_refused(services: Deployment) -> None:
    check(services, b"\2" + services.record(0)[1:], Reason.BAD_VERSION)


def test_set_padding_bits_are_refused(services: Deployment) -> None:
    """The payload is sealed as it should be; only its last byte has a bit too many."""
    told, report = services.batch(), services.report()
    shapes = services.plan.shapes(0)
    assert sum(rows for (rows, _), _ in shapes.values()) % 8
    payload = bytearray(wire.encode_report(shapes, report.messages))
    payload[-1] |= 0x80
    binding = Binding(Transport.BITS, services.plan.id, 0, 0, told["model_hash"])
    key = services.shuffler.parts.keyring.sealing_key
    name = bytes(range(16))
    honest = services.record(0, report)
    sealed = seal_report(bytes(payload), key, binding, name)
    check(services, altered(honest, report_id=name, sealed=sealed), Reason.BAD_PADDING)


@pytest.mark.parametrize(
    "change", [{"model_version": 1}, {"plan_id": "00" * 16}, {"inner_key": b"\1" * 32}]
)
def test_a_seal_that_is_bound_to_something_else_does_not_open(
    services: Deployment, change: dict[str, Any]
) -> None:
    check(services, services.record(0, **change), Reason.UNDECRYPTABLE)


def test_a_damaged_seal_does_not_open(services: Deployment) -> None:
    sent = bytearray(services.record(0))
    sent[-1] ^= 1
    check(services, bytes(sent), Reason.UNDECRYPTABLE)


def test_a_seal_moved_to_another_id_does_not_open(services: Deployment) -> None:
    """Otherwise anybody on the way could count a report again under another id."""
    sent = altered(services.record(0), report_id=bytes(16), account=account(1))
    check(services, sent, Reason.UNDECRYPTABLE)


def test_an_unknown_key_is_refused(services: Deployment) -> None:
    check(services, altered(services.record(0), key_id=b"\7" * 8), Reason.UNKNOWN_KEY)


def test_a_second_report_of_a_user_in_a_batch_is_refused(services: Deployment) -> None:
    services.post(services.record(0))
    check(services, services.record(0), Reason.DUPLICATE_USER)


def test_a_user_whose_allowance_is_spent_is_refused(services: Deployment) -> None:
    for _ in range(2):
        services.fill(range(USERS))
        services.carry()
    check(services, services.record(0), Reason.PARTICIPATION_LIMIT)


def test_nothing_is_taken_after_the_last_batch(services: Deployment) -> None:
    for batch in range(BATCHES):
        last = services.record(100 + batch)
        services.fill(range(batch * USERS, (batch + 1) * USERS))
        services.carry()
    answer = services.post(last)
    assert (reason(answer), answer.status_code) == ("plan-ended", 410)
    answer = services.get(f"/v1/plans/{services.plan.id}/batch")
    assert (reason(answer), answer.status_code) == ("plan-ended", 410)


def test_a_complete_batch_takes_no_more_until_the_next_is_open(services: Deployment) -> None:
    late = services.record(USERS)
    services.fill(range(USERS))
    answer = services.post(late)
    assert (reason(answer), answer.headers["retry-after"]) == ("batch-closed", "1")
    services.carry()
    assert reason(services.post(late)) == "stale-batch"
    goes_on(services)


def test_a_repeat_is_accepted_while_its_batch_is_on_its_way(services: Deployment) -> None:
    first = services.record(0)
    services.post(first)
    services.fill(range(1, USERS))
    assert services.post(first).status_code == 201
    services.shuffler.parts.store.seal(services.plan.id)
    assert services.post(first).status_code == 201


def test_reports_wait_for_the_plan_to_begin(deploy: Deploy) -> None:
    waiting = deploy(begun=False)
    answer = waiting.post(bytes(wire.record_length(500)))
    assert answer.status_code in {400, 503}
    assert reason(waiting.get(f"/v1/plans/{waiting.plan.id}/batch")) == "batch-closed"
    told = waiting.get("/readyz")
    assert (told.status_code, told.json()["ready"]) == (503, False)
    waiting.carry()
    assert waiting.get("/readyz").json() == {"ready": True, "waiting_for": [], "trouble": ""}
    goes_on(waiting)


def limited(**limits: int) -> Callable[[Settings], Settings]:
    return lambda settings: replace(settings, limits=LimitSettings(**limits))


def test_a_large_body_is_refused_before_it_is_read(deploy: Deploy) -> None:
    small = deploy(change=limited(body_bytes=2000))
    check(small, bytes(2001), Reason.BODY_TOO_LARGE)


def test_a_large_body_of_unknown_length_is_refused(deploy: Deploy) -> None:
    small = deploy(change=limited(body_bytes=2000))

    async def pieces() -> Any:
        for _ in range(3):
            yield bytes(1000)

    answer = small.ask(small.shuffler, "POST", small.reports, content=pieces())
    assert (reason(answer), answer.status_code) == ("body-too-large", 413)
    goes_on(small)


def test_too_many_records_at_once_are_refused(deploy: Deploy) -> None:
    few = deploy(change=limited(records_per_request=2))
    check(few, b"".join(few.record(user) for user in range(3)), Reason.BODY_TOO_LARGE)


def test_a_batched_upload_lists_only_its_failures(services: Deployment) -> None:
    good = [services.record(user) for user in range(4)]
    bad = [altered(services.record(8), key_id=bytes(8)), services.record(0)]
    names = [wire.decode_records(one, len(one) - wire.record_length(0))[0] for one in bad]
    answer = services.post(*good[:2], bad[0], *good[2:], bad[1])
    assert answer.status_code == 201
    assert answer.json() == {
        "accepted": 4,
        "failures": [
            {"index": 2, "id": names[0].report_id.hex(), "reason": "unknown-key"},
            {"index": 5, "id": names[1].report_id.hex(), "reason": "duplicate-user"},
        ],
    }
    assert (filled(services), counted(services, "accepted")) == (4, 4)


@pytest.fixture(params=[0, 1, 2])
def helped(
    request: pytest.FixtureRequest, deploy: Deploy, monkeypatch: pytest.MonkeyPatch
) -> Deployment:
    """With so many helpers, all of them ready; where there are any, they must do it."""
    if request.param:
        monkeypatch.delattr("croupier.service.messages.unsealing.DecryptJob.open_reports")
    services = deploy(change=limited(openers=request.param))

    async def start() -> None:
        openers = services.shuffler.decrypt_pool
        openers.start()
        while len(openers.ready) < request.param:
            await asyncio.sleep(0.002)

    services.runner.run(asyncio.wait_for(start(), 60))
    return services


@pytest.mark.parametrize("count", [1, OPENED_HERE, OPENED_TOGETHER, 3 * OPENED_TOGETHER + 1])
def test_many_records_are_opened_as_one_would_be(helped: Deployment, count: int) -> None:
    """Here, in one job and in several; some are not for opening, some do not open."""
    sent = [helped.record(user) for user in range(USERS)]
    bad = [
        altered(sent[3], key_id=bytes(8), report_id=bytes(16)),
        altered(sent[3], report_id=bytes(16)),
    ]
    told = helped.post(*sent[:5], *bad * count, sent[5]).json()
    assert told["accepted"] == USERS
    reasons = [(one["index"], one["reason"]) for one in told["failures"]]
    wanted = ["unknown-key", "undecryptable"] * count
    assert reasons == list(zip(range(5, 5 + 2 * count), wanted, strict=True))
    assert filled(helped) == USERS


def test_records_for_an_old_and_a_new_key_are_opened_together(
    deploy: Deploy, tmp_path: Path
) -> None:
    roles = Roles.make(tmp_path / "roles", made_plan(), Transport.BITS)
    services = deploy(roles=roles)
    ring = services.shuffler.parts.keyring
    old = [services.record(user) for user in range(3)]
    ring.new()
    ring.rotate()
    new = [services.record(user) for user in range(3, USERS)]
    mistaken = altered(new[0], key_id=old[0][2:10], report_id=bytes(16))
    told = services.post(old[0], new[0], mistaken, *old[1:], *new[1:]).json()
    assert told["accepted"] == USERS
    assert [(one["index"], one["reason"]) for one in told["failures"]] == [(2, "undecryptable")]
    roles.close()


# Tokens, queues and draining


def test_uploads_need_the_token_where_one_is_set(deploy: Deploy) -> None:
    hashed = AccessSettings(token_hash("open sesame"))
    guarded = deploy(change=lambda settings: replace(settings, access=hashed))
    sent = guarded.record(0)
    for given in ({}, {"authorization": "Bearer other"}, {"authorization": "Basic open sesame"}):
        answer = guarded.post(sent, headers=given)
        assert (reason(answer), answer.status_code) == ("bad-token", 401)
        assert answer.headers["www-authenticate"] == "Bearer"
    answer = guarded.post(sent, headers={"authorization": "bearer open sesame"})
    assert answer.status_code == 201


class Gate:
    """A store whose commits wait until they are let through."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.entered, self.open = threading.Event(), threading.Event()

    def take(self, uploads: Sequence[Upload]) -> Any:
        self.entered.set()
        assert self.open.wait(30)
        return self._inner.take(uploads)


@pytest.fixture
def gated(deploy: Deploy) -> Iterator[tuple[Deployment, Gate]]:
    services = deploy(change=limited(queue_length=2))
    gate = Gate(services.shuffler.parts.store)
    services.shuffler._commits._commit = gate.take
    yield services, gate
    gate.open.set()


def test_a_full_queue_is_told_at_once_and_empties(gated: tuple[Deployment, Gate]) -> None:
    services, gate = gated
    sent = [services.record(user) for user in range(4)]

    async def uploads() -> list[httpx.Response]:
        transport = httpx.ASGITransport(services.shuffler)
        async with httpx.AsyncClient(transport=transport, base_url="http://test") as client:
            first = asyncio.create_task(client.post(services.reports, content=sent[0]))
            while not gate.entered.is_set():
                await asyncio.sleep(0.001)
            second = asyncio.create_task(client.post(services.reports, content=sent[1]))
            await asyncio.sleep(0.01)
            third = await client.post(services.reports, content=sent[2])
            gate.open.set()
            return [await first, await second, third]

    first, second, third = services.runner.run(uploads())
    assert (first.status_code, second.status_code) == (201, 201)
    assert (reason(third), third.headers["retry-after"]) == ("queue-full", "1")
    assert services.post(sent[2]).status_code == 201
    assert filled(services) == 3


def test_a_draining_shuffler_refuses_and_says_so(services: Deployment) -> None:
    sent = services.record(0)
    services.shuffler.drain()
    answer = services.post(sent)
    assert (reason(answer), answer.status_code) == ("draining", 503)
    assert services.get("/readyz").json()["waiting_for"] == ["the service is shutting down"]
    assert services.get("/healthz").status_code == 200


def test_an_error_inside_is_answered_without_its_text(services: Deployment) -> None:
    def broken(_uploads: Sequence[Upload]) -> Any:
        raise RuntimeError("a secret")

    commits = services.shuffler._commits
    honest, commits._commit = commits._commit, broken
    answer = services.post(services.record(0))
    assert answer.status_code == 500
    assert reason(answer) == "about:blank"
    assert "secret" not in answer.text
    assert counted(services, "internal") == 1
    commits._commit = honest
    goes_on(services)


@pytest.mark.parametrize(
    ("method", "path", "status"),
    [("GET", "/nothing", 404), ("POST", "/nothing", 404), ("DELETE", "/healthz", 405)],
)
def test_what_is_not_offered_is_a_problem_too(
    services: Deployment, method: str, path: str, status: int
) -> None:
    answer = services.ask(services.shuffler, method, path)
    assert answer.status_code == status
    assert reason(answer)


def test_reports_cannot_be_read_back(services: Deployment) -> None:
    services.post(services.record(0))
    for method in ("GET", "PUT", "DELETE"):
        assert services.ask(services.shuffler, method, services.reports).status_code == 405


def test_a_rotated_key_opens_until_it_is_deleted(
    deploy: Deploy, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Devices seal for the key that they know; a clock that is ahead for a moment costs none."""
    roles = Roles.make(tmp_path / "roles", made_plan(), Transport.BITS)
    services = deploy(roles=roles)
    ring = services.shuffler.parts.keyring
    old, other, late = (services.record(user) for user in (0, 2, 3))
    ring.new()
    ring.rotate()
    assert services.post(old).status_code == 201
    assert services.post(services.record(1)).status_code == 201
    monkeypatch.setattr("croupier.service.keys.keyring.time.time", lambda: 4e9)
    services.runner.run(services.shuffler.courier.refresh_mirror())
    assert services.post(other).status_code == 201
    ring.retire()
    assert reason(services.post(late)) == "unknown-key"
    assert services.post(old).status_code == 201
    roles.close()


def test_a_key_that_another_process_has_made_is_found(deploy: Deploy, tmp_path: Path) -> None:
    """`croupier keys` changes the directory of a shuffler that runs."""
    roles = Roles.make(tmp_path / "roles", made_plan(), Transport.BITS)
    services = deploy(roles=roles)
    told, report = services.batch(), services.report()
    other = open_keyring(roles.shuffler.settings)
    other.new()
    other.rotate()
    binding = Binding(Transport.BITS, services.plan.id, 0, 0, told["model_hash"])
    key = other.sealing_key.public_bytes_raw()
    sent = make_record(services.plan, report.messages, Address(binding, key, account(0)))
    assert services.post(sent).status_code == 201
    assert services.batch()["key"] == key.hex()
    roles.close()


def test_a_device_with_a_private_inner_key_is_refused(deploy: Deploy) -> None:
    """An analyzer that hands one user a key of their own could tell their report apart."""
    services = deploy(Transport.SHARES)
    told = services.batch()
    other = services.shuffler.parts.keyring.sealing_key.public_bytes_raw()
    place = (services.plan.id, told["batch"], told["model_version"], told["model_hash"])
    binding = Binding(Transport.SHARES, *place, other)
    address = Address(binding, bytes.fromhex(told["key"]), account(0))
    sent = make_record(services.plan, services.report().messages, address)
    assert reason(services.post(sent)) == "undecryptable"


def test_records_are_what_the_batch_document_says(services: Deployment) -> None:
    told = services.batch()
    sent = services.record(0)
    assert len(sent) == told["record_length"]
    (decoded,) = wire.decode_records(sent, len(sent) - wire.record_length(0))
    assert isinstance(decoded, Record)
    assert (told["state"], told["size"], told["transport"]) == ("open", USERS, "bits")
