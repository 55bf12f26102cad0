"""More slow connections than a process may have files, and headers that name ever other batches."""

from __future__ import annotations

import resource
import socket
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import httpx
import pytest

from croupier.plan import Plan
from croupier.protocols.vector_release import VectorSumRelease
from croupier.service.messages.transports import BitsTransport

from .laboratory import PATIENCE, Laboratory

FILES, CROWD = 1024, 1100
IMPATIENT = "\n[limits]\nheader_seconds = 2.0\nbody_seconds = 2.0\n"


@contextmanager
def few_files() -> Iterator[None]:
    """As a login or systemd leaves it, for the processes that are started meanwhile."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (FILES, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def await_acknowledged(here: Laboratory) -> None:
    """Until one honest report gets in."""
    record, end = here.record(here.offer()), time.monotonic() + PATIENCE
    while time.monotonic() < end:
        with suppress(httpx.HTTPError):
            if here.post(record).status_code == 201:
                return
        time.sleep(0.1)
    raise TimeoutError


@pytest.mark.slow
@pytest.mark.parametrize("stage", ["body", "headers"])
def test_a_crowd_of_slow_connections_keeps_nobody_out_for_longer_than_its_time(
    tmp_path: Path, stage: str
) -> None:
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft < 2 * CROWD:
        pytest.skip(f"{soft} files are too few for a crowd of {CROWD}")
    here = Laboratory(tmp_path / "deployment")
    settings = here.directory("shuffler") / "settings.toml"
    settings.write_text(settings.read_text() + IMPATIENT)
    with ExitStack() as stack, here.http:
        with few_files():
            stack.enter_context(here.services)
        here.await_batch(0)
        offer = here.offer()
        said = f"POST /v1/plans/{here.plan.id}/reports HTTP/1.1\r\nhost: x\r\n"
        said += "content-length: 1000\r\n\r\nA" if stage == "body" else "content-le"
        port = int(here.services.url("shuffler").rsplit(":", 1)[1])
        held = []
        for _ in range(CROWD):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", port), PATIENCE))
            with suppress(ConnectionError):
                one.sendall(said.encode())
            held.append(one)
        assert offer["batch"] == 0
        await_acknowledged(here)
        assert here.filled() == 1
        assert "Too many open files" not in here.services.log("shuffler").read_text()
        here.services.require_running()


def test_headers_that_name_ever_other_batches_cost_no_randomising(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """How long a record is has to be known before anything of it is; reports are alike."""
    plan = Plan.calibrate(
        "vector-sum",
        epsilon=1.0,
        delta=1e-4,
        dim=3,
        batch_size=1000,
        horizon=400_000,
        batches="fixed",
        honest_fraction=0.8,
    )
    transport, randomized = BitsTransport(plan), []
    randomize = VectorSumRelease.randomize

    def counted(release: VectorSumRelease, *arguments: object) -> object:
        randomized.append(release)
        return randomize(release, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(VectorSumRelease, "randomize", counted)
    lengths = {transport.sealed_length(index) for index in [*range(800), 2**32 - 1]}
    assert (len(lengths), len(randomized)) == (1, 1)
