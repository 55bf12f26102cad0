"""Helper processes: they open what we open, and no report suffers when one does not."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from itertools import pairwise
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from croupier.service.messages import unsealing
from croupier.service.messages.unsealing import READY, DecryptJob, encode_answer, encode_frame
from croupier.service.shuffler.decrypt_pool import MOST_IN_FLIGHT, DecryptPool, DecryptProcess

from ..messages.test_unsealing import BINDING, KEY, OTHER, PATIENCE, job, mixed, report


async def until(true: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE):
        while not true():
            await asyncio.sleep(0.002)


@asynccontextmanager
async def running(count: int = 1, **more: float) -> AsyncIterator[DecryptPool]:
    openers = DecryptPool(count, "shuffler", **more)
    openers.start()
    await until(lambda: len(openers.ready) == count)
    try:
        yield openers
    finally:
        await openers.close()


def alive(pid: int) -> bool:
    """Whether it runs; what ended and was not waited for does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


# What they open


def test_a_helper_opens_what_we_open_byte_for_byte() -> None:
    async def scene() -> None:
        async with running() as openers:
            (helper,) = openers.ready
            for asked in (mixed(), job(b""), job(b"", b""), job(bytes(range(256)) * 40)):
                assert await helper.ask(asked, PATIENCE) == asked.open_reports()

    asyncio.run(scene())


def test_jobs_for_different_keys_are_answered_each_with_its_own() -> None:
    """A helper keeps no key from one job to the next."""

    async def scene() -> None:
        async with running() as openers:
            (helper,) = openers.ready
            reports = [report(b"first"), report(b"other", OTHER)]
            jobs = [DecryptJob(key, BINDING.outer_prefix, reports) for key in (KEY, OTHER, KEY)]
            found = await asyncio.gather(*(helper.ask(one, PATIENCE) for one in jobs))
            assert found == [[b"first", None], [None, b"other"], [b"first", None]]

    asyncio.run(scene())


def test_many_jobs_are_spread_and_every_one_gets_its_own_answer() -> None:
    async def scene() -> None:
        async with running(2) as openers:
            jobs = [job(bytes([number]) * 5, bytes(5)) for number in range(100)]
            for one in openers.ready:
                os.kill(one.pid, signal.SIGSTOP)
            asked = asyncio.create_task(openers.open(jobs))
            await until(lambda: all(one.in_flight == MOST_IN_FLIGHT for one in openers.ready))
            for one in openers.ready:
                os.kill(one.pid, signal.SIGCONT)
            assert await asked == [[bytes([number]) * 5, bytes(5)] for number in range(100)]

    asyncio.run(scene())


def test_without_helpers_seals_are_opened_here() -> None:
    async def scene() -> None:
        openers, asked = DecryptPool(0, "shuffler"), mixed()
        openers.start()
        assert await openers.open([asked] * 3) == [asked.open_reports()] * 3
        assert await openers.open([]) == []
        await openers.close()

    asyncio.run(scene())


def test_others_have_their_turns_while_a_large_upload_is_opened_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    order: list[str] = []
    monkeypatch.setattr(DecryptJob, "open_reports", lambda _job: order.append("job"))

    async def other() -> None:
        for _ in range(20):
            order.append("other")
            await asyncio.sleep(0)

    async def scene() -> None:
        await asyncio.gather(DecryptPool(0, "shuffler").open([job(b"")] * 5), other())

    asyncio.run(scene())
    places = [place for place, who in enumerate(order) if who == "job"]
    assert len(places) == 5
    assert all(second - first > 1 for first, second in pairwise(places))


# What becomes of them


def test_a_helper_that_is_killed_under_load_costs_no_report_and_comes_back() -> None:
    """One is held still until it is killed, so that it has jobs; the other is in their midst."""

    async def scene() -> None:
        async with running(2, pause=0.0) as openers:
            still, busy = openers.ready
            first = {still.pid, busy.pid}
            jobs = [job(*(bytes([number]) * 9 for _ in range(32))) for number in range(60)]
            os.kill(still.pid, signal.SIGSTOP)
            asked = [asyncio.create_task(openers.open([one])) for one in jobs]
            await asyncio.wait(asked, return_when=asyncio.FIRST_COMPLETED)
            assert still.in_flight == MOST_IN_FLIGHT
            for pid in first:
                os.kill(pid, signal.SIGKILL)
            found = await asyncio.gather(*asked)
            assert found == [[[bytes([number]) * 9] * 32] for number in range(60)]
            await until(lambda: len({one.pid for one in openers.ready} - first) == 2)
            assert await openers.ready[0].ask(jobs[7], PATIENCE) == found[7][0]

    with capture_logs() as told:
        asyncio.run(scene())
    ended = [(one["event"], one["status"]) for one in told]
    assert ended == [("opener ended", -signal.SIGKILL)] * 2


def test_a_helper_that_stands_still_is_replaced_and_its_jobs_are_done_here(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("croupier.service.shuffler.decrypt_pool.END_SECONDS", 0.05)

    async def scene() -> None:
        async with running(pause=0.0, patience=0.05) as openers:
            pid, asked = openers.ready[0].pid, mixed()
            os.kill(pid, signal.SIGSTOP)
            assert await openers.open([asked]) == [asked.open_reports()]
            await until(lambda: bool(openers.ready) and openers.ready[0].pid != pid)
            assert not alive(pid)

    with capture_logs():
        asyncio.run(scene())


def test_a_request_that_is_given_up_disturbs_no_other() -> None:
    async def scene() -> None:
        async with running() as openers:
            (helper,) = openers.ready
            given_up = asyncio.create_task(helper.ask(job(b"first"), PATIENCE))
            await asyncio.sleep(0)
            given_up.cancel()
            assert await helper.ask(job(b"second"), PATIENCE) == [b"second"]
            assert (helper.in_flight, openers.ready) == (0, [helper])

    asyncio.run(scene())


def test_closing_leaves_no_process() -> None:
    async def scene() -> None:
        async with running(2) as openers:
            pids = [one.pid for one in openers.ready]
            assert all(alive(pid) for pid in pids)
        await openers.close()
        assert not any(Path(f"/proc/{pid}").exists() for pid in pids)
        assert openers.ready == []

    with capture_logs() as told:
        asyncio.run(scene())
    assert told == []


def test_closing_at_once_leaves_no_process() -> None:
    """Before a helper has said that it is ready, or has even been started."""

    async def scene(turns: int) -> None:
        openers = DecryptPool(1, "shuffler")
        openers.start()
        for _ in range(turns):
            await asyncio.sleep(0)
        await openers.close()
        assert children() == before

    for turns in range(6):
        before = children()
        asyncio.run(scene(turns))


def test_closing_while_a_helper_is_being_ended_leaves_no_process(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def scene() -> None:
        async with running(patience=0.05) as openers:
            pid = openers.ready[0].pid
            os.kill(pid, signal.SIGSTOP)
            assert await openers.open([job(b"payload")]) == [[b"payload"]]
            await asyncio.sleep(0.01)
            monkeypatch.setattr("croupier.service.shuffler.decrypt_pool.END_SECONDS", 0.05)
        assert not Path(f"/proc/{pid}").exists()

    asyncio.run(scene())


def children() -> set[str]:
    lists = Path(f"/proc/{os.getpid()}/task").glob("*/children")
    return {child for one in lists for child in one.read_text().split()}


PARENT = """
import asyncio
from croupier.service.shuffler.decrypt_pool import DecryptPool

async def main():
    openers = DecryptPool(2, "shuffler")
    openers.start()
    while len(openers.ready) < 2:
        await asyncio.sleep(0.002)
    print(*(one.pid for one in openers.ready), flush=True)
    await asyncio.sleep(600)

asyncio.run(main())
"""


def test_no_helper_outlives_a_parent_that_is_killed() -> None:
    command = [sys.executable, "-c", PARENT]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as parent:
        assert parent.stdout is not None
        pids = [int(word) for word in parent.stdout.readline().split()]
        assert [alive(pid) for pid in pids] == [True, True]
        parent.kill()
    asyncio.run(until(lambda: not any(alive(pid) for pid in pids)))


def test_signals_for_the_service_do_not_end_a_helper() -> None:
    """A terminal and systemd send them to every process; the parent says when it is over."""

    async def scene() -> None:
        async with running() as openers:
            (helper,) = openers.ready
            for number in (signal.SIGINT, signal.SIGTERM):
                os.kill(helper.pid, number)
            assert await helper.ask(job(b"payload"), PATIENCE) == [b"payload"]

    asyncio.run(scene())


# Helpers that are no good

GREETING = f"import sys; out = sys.stdout.buffer; out.write({encode_frame(READY)!r}); out.flush(); "
ASKED = GREETING + "sys.stdin.buffer.read(9); "
WAITS = "; out.flush(); sys.stdin.buffer.read()"
BROKEN = {
    "ends at once": "raise SystemExit(3)",
    "greets with something else": f"import sys; sys.stdout.buffer.write({encode_frame(b'no')!r})",
    "speaks unasked": GREETING + f"out.write({encode_frame(b'no')!r})" + WAITS,
    "answers too little": ASKED + f"out.write({encode_frame(b'no')!r})" + WAITS,
    "answers with a flag that is none": ASKED + f"out.write({encode_frame(b'2payload')!r})" + WAITS,
    "claims an absurd answer": ASKED + "out.write(bytes([255] * 9))" + WAITS,
    "stops half way": ASKED + "out.write(bytes(2))",
}


@pytest.mark.parametrize("words", BROKEN)
def test_a_broken_helper_costs_no_report_and_is_not_started_again_at_once(
    words: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    script, starts = tmp_path / "helper.py", tmp_path / "starts"
    script.write_text(f"open({str(starts)!r}, 'a').write('started ')\n{BROKEN[words]}")
    monkeypatch.setattr(unsealing, "__file__", str(script))

    async def scene() -> None:
        openers = DecryptPool(1, "shuffler", pause=600.0)
        openers.start()
        while not told:
            assert await openers.open([job(b"payload")]) == [[b"payload"]]
            await asyncio.sleep(0.002)
        assert (openers.ready, starts.read_text()) == ([], "started ")
        assert await openers.open([job(b"payload")]) == [[b"payload"]]
        await openers.close()

    with capture_logs() as told:
        asyncio.run(asyncio.wait_for(scene(), PATIENCE))
    assert [one["event"] for one in told] == ["opener ended"]


def test_a_machine_that_starts_no_process_still_opens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "/nowhere/python")

    async def scene() -> None:
        openers = DecryptPool(1, "shuffler", pause=600.0)
        openers.start()
        await until(lambda: bool(told))
        assert await openers.open([job(b"payload")]) == [[b"payload"]]
        await openers.close()

    with capture_logs() as told:
        asyncio.run(scene())
    assert [(one["event"], one["error"]) for one in told] == [
        ("opener failed", "FileNotFoundError")
    ]


def test_a_job_that_fits_no_frame_is_done_here(monkeypatch: pytest.MonkeyPatch) -> None:
    async def scene() -> None:
        async with running() as openers:
            (helper,) = openers.ready
            monkeypatch.setattr("croupier.service.shuffler.decrypt_pool.LONGEST", 100)
            assert await helper.ask(job(b"payload"), PATIENCE) is None
            assert await openers.open([job(b"payload")]) == [[b"payload"]]
            assert openers.ready == [helper]

    asyncio.run(scene())


def test_answers_in_pieces_and_together_are_told_apart() -> None:
    async def scene() -> None:
        helper, jobs = DecryptProcess(), [job(b"first"), job(b"second", b"third.")]
        helper.connection_made(Written())
        asked = [asyncio.create_task(helper.ask(one, PATIENCE)) for one in jobs]
        await asyncio.sleep(0)
        data = encode_frame(READY) + b"".join(encode_frame(encode_answer(one)) for one in jobs)
        for at in range(len(data)):
            helper.pipe_data_received(1, data[at : at + 1])
        assert await asyncio.gather(*asked) == [[b"first"], [b"second", b"third."]]
        assert (helper.ready, helper.lost.is_set()) == (True, False)

    asyncio.run(scene())


class Written:
    """A transport that takes whatever is written."""

    def get_pipe_transport(self, _fd: int) -> Written:
        return self

    def write(self, _data: bytes) -> None:
        pass
