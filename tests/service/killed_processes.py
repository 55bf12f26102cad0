"""Processes to kill: ``python -m service.killed_processes``, jobs in and results out as JSON.

``kill`` runs a deployment that is told at which commit to kill itself with SIGKILL, and then
again to its end. ``work`` lets several processes take and seal over one database.
"""

from __future__ import annotations

import hashlib
import json
import os
import signal
import sys
import traceback
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import count, islice
from typing import Any

import numpy as np

from croupier import wire
from croupier.service.http.reasons import Refusal
from croupier.service.shuffler.acceptance import Upload
from croupier.service.shuffler.rows import Basis, BatchRow, BatchState, ReleasedBatch
from croupier.service.shuffler.store import ShufflerStore
from croupier.service.storage.database import Database, Hooks

from .beside_the_keys import analyzer_store, shuffler_store
from .faulty_shared_deployment import TREE, SharedSimulation
from .noiseless_plans import account, basis, learn, noiseless, upload

Say = Callable[[Any], None]

KILLED = noiseless(users=3, batches=2)
WORKED = 4
"""Users of a batch while several processes work."""


# Processes


def forked(work: Callable[[Say], None]) -> tuple[int, list[Any]]:
    """Run ``work`` in a process of its own; how it ended, and what it said until then."""
    process, source = started(work)
    return finished(process, source)


def started(work: Callable[[Say], None]) -> tuple[int, int]:
    source, sink = os.pipe()
    process = os.fork()
    if process == 0:
        os.close(source)
        status = 1
        try:
            work(lambda what: _write(sink, what))
            status = 0
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(status)
    os.close(sink)
    return process, source


def finished(process: int, source: int) -> tuple[int, list[Any]]:
    with os.fdopen(source) as lines:
        said = [json.loads(line) for line in lines]
    _, status = os.waitpid(process, 0)
    return os.waitstatus_to_exitcode(status), said


def _write(sink: int, what: Any) -> None:
    """What was written is out, whatever happens to us next."""
    os.write(sink, json.dumps(what).encode() + b"\n")


# Killed at a commit


def kill(job: dict[str, Any]) -> dict[str, Any]:
    """Killed at one commit, then run to the end; who was told "accepted" does not send again."""
    ended, before = forked(lambda say: life(job, killing(job["commit"], job["moment"]), [], say))
    finished_with, after = forked(lambda say: finish(job, before, say))
    return {"ended": ended, "accepted": before, "finished": finished_with, "sums": after}


def killing(commit: int, moment: str) -> Hooks:
    """Ends the process the hard way at that commit, counted from 0."""
    commits = count()

    def reached() -> None:
        if next(commits) == commit:
            os.kill(os.getpid(), signal.SIGKILL)

    return Hooks(before_commit=reached) if moment == "before" else Hooks(after_commit=reached)


def life(job: dict[str, Any], hooks: Hooks, done: list[int], say: Say) -> None:
    """Both machines from wherever they are to the end of the plan; says who was accepted."""
    analyzer = analyzer_store(Database.open(job["analyzer"], "analyzer", hooks))
    shuffler = shuffler_store(Database.open(job["shuffler"], "shuffler", hooks))
    first = analyzer.open_plan(KILLED)
    if not shuffler.plans():
        shuffler.open_plan(KILLED, basis(first))
    while not shuffler.plans()[0].ended:
        batch = shuffler.current(KILLED.id)
        if batch.state is BatchState.OPEN:
            report(shuffler, batch, done, say)
        shuffler.seal(KILLED.id)
        released = shuffler.release(KILLED.id)
        assert released is not None
        published = learn(analyzer, KILLED, released)
        shuffler.acknowledge(KILLED.id, released.batch, basis(published))
        shuffler.scrub(KILLED.id)
    shuffler.scrub(KILLED.id)


def report(shuffler: ShufflerStore, batch: BatchRow, done: list[int], say: Say) -> None:
    """The same three users for a batch: one alone, then two in a group."""
    start = 3 * batch.index
    for group in ([start], [start + 1, start + 2]):
        users = [user for user in group if user not in done]
        verdicts = shuffler.take([upload(KILLED, batch, user) for user in users])
        for user, verdict in zip(users, verdicts, strict=True):
            assert verdict is None, verdict
            say(user)


def finish(job: dict[str, Any], done: list[int], say: Say) -> None:
    life(job, Hooks(), done, lambda _: None)
    for sums in analyzer_store(Database.open(job["analyzer"], "analyzer")).sums(KILLED.id):
        say(sums.tolist())


def kill_shares(job: dict[str, Any]) -> dict[str, Any]:
    """The same for a tree in shares, of which a batch begins again."""
    hooks, places = killing(job["commit"], job["moment"]), (job["shuffler"], job["analyzer"])
    ended, _ = forked(lambda _: SharedSimulation(*places, hooks).live())
    finished_with, after = forked(lambda say: finish_shares(*places, say))
    return {"ended": ended, "finished": finished_with, "counts": after}


def finish_shares(shuffler: str, analyzer: str, say: Say) -> None:
    simulation = SharedSimulation(shuffler, analyzer)
    simulation.live()
    counts = np.array([closed[0] for closed in simulation.counts()])
    simulation.check_so_far()
    simulation.check_participations(counts.sum(axis=0))
    simulation.check_nodes()
    assert simulation.processes[0].dropped(TREE.id) == simulation.analyzer.dropped(TREE.id) == 1
    say([np.flatnonzero(row).tolist() for row in counts])


# Several at once


def work(job: dict[str, Any]) -> dict[str, Any]:
    """Processes that all take and seal until the plan has ended."""
    plan = noiseless(users=WORKED, batches=job["batches"], dim=1)
    store = shuffler_store(Database.open(job["shuffler"], "shuffler"))
    store.open_plan(plan, Basis(0, _model(0)))
    running = [
        started(lambda say, number=number: toil(job, number, say))  # type: ignore[misc]
        for number in range(job["processes"])
    ]
    found = [finished(*one) for one in running]
    return {"ended": [ended for ended, _ in found], "said": [said for _, said in found]}


def toil(job: dict[str, Any], number: int, say: Say) -> None:
    plan = noiseless(users=WORKED, batches=job["batches"], dim=1)
    store = shuffler_store(Database.open(job["shuffler"], "shuffler"))
    users = iter(range(number * 10**6, (number + 1) * 10**6))
    while not store.plans()[0].ended:
        batch = store.current(plan.id)
        sent = dict(numbered(plan.id, batch, users, 1 + batch.index % 3))
        verdicts = store.take(list(sent.values()))
        for user, verdict in zip(sent, verdicts, strict=True):
            if verdict is None:
                say(["accepted", user])
        # A lease only saves work: half of the time nobody asks for one.
        lease = store.lease(str(number), 5.0) if batch.index % 2 else None
        with suppress(Refusal):
            carry(store, plan.id, say)
        if lease is not None:
            store.give_back(lease)


def numbered(
    plan_id: str, batch: BatchRow, users: Iterator[int], how_many: int
) -> Iterator[tuple[int, Upload]]:
    """Reports that say which user they are of."""
    for user in islice(users, how_many):
        payload = np.array([[user, 1.0]]).astype("<f8").tobytes()
        name = hashlib.sha256(f"report {user}".encode()).digest()
        yield (
            user,
            Upload(plan_id, batch.index, batch.model_hash, name[:16], account(user), name, payload),
        )


def carry(store: ShufflerStore, plan_id: str, say: Say) -> None:
    """All steps that there are."""
    store.seal(plan_id)
    released = store.release(plan_id)
    if released is None:
        return
    say(["released", released.batch, hashlib.sha256(released.body).hexdigest(), _users(released)])
    version = released.batch + 1
    store.acknowledge(plan_id, released.batch, Basis(version, _model(version)))
    store.scrub(plan_id)


def _users(released: ReleasedBatch) -> list[int]:
    header = wire.decode_batch_header(released.body)
    plan = noiseless(users=WORKED, batches=10**4, dim=1)
    shapes = wire.batch_shapes(plan.shapes(0), header.users)
    _, messages = wire.decode_batch(shapes, released.body)
    return [int(user) for user in messages["report"][:, 0]]


def _model(version: int) -> str:
    return hashlib.sha256(f"model {version}".encode()).hexdigest()


if __name__ == "__main__":
    jobs = json.load(sys.stdin)
    known = {"kill": kill, "kill_shares": kill_shares, "work": work}
    json.dump([known[job["do"]](job) for job in jobs], sys.stdout)
