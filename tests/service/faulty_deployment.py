"""A deployment whose parts fail at any moment, over real databases and the real machines.

Every user's report is 1 in a coordinate of their own and there is no noise, so that a 2 in a
batch's sum proves double counting, and a 0 an acknowledged report that was lost. One device has
real files, and counts each of its choices in a coordinate of its own. A liar counts as much in
every coordinate as no honest batch comes to, so that lies can be taken off again.
"""

from __future__ import annotations

import atexit
import hashlib
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from enum import Enum
from functools import cache
from typing import TypeVar

import numpy as np

from croupier import wire
from croupier.service.analyzer.rows import PublishedModel
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages.signed_documents import SignedModel
from croupier.service.messages.transports import BitsTransport, PlanTransport
from croupier.service.shuffler.acceptance import Upload
from croupier.service.shuffler.agreement import PublishedHead, first_entry_to_compare
from croupier.service.shuffler.rows import Basis, BatchRow, BatchState, ReleasedBatch
from croupier.service.storage.database import Database, Hooks
from croupier.service.storage.leases import Lease
from croupier.service.storage.progress import Position

from .attacks.rolled_back_device import Answered, RolledBackDevice
from .beside_the_keys import analyzer_store, beside, shuffler_store
from .noiseless_plans import account, altered, basis, learn, noiseless, one_hot, upload
from .restored_snapshots import ANALYZER, Snapshot, restore, snapshot

Answer = TypeVar("Answer")

PLAN = noiseless(users=3, batches=3, participations=2)
USERS = PLAN.layout.size - 4
"""Users of one report at a time; the other coordinates are a device's choices."""
CHOICES = range(USERS, PLAN.layout.size)
LIE = 8
"""What a liar counts in every coordinate."""
LIARS = 1000
"""Added to the number of a user who lies."""
LEASE = 60.0

GIVE_UP = {
    Reason.STALE_BATCH,
    Reason.STALE_MODEL,
    Reason.DUPLICATE_USER,
    Reason.PARTICIPATION_LIMIT,
    Reason.PLAN_ENDED,
    Reason.ID_CONFLICT,
}
"""After these a device makes no further attempt with the same report."""


class CrashError(Exception):
    """A process ends here."""


class LostError(Exception):
    """A request or a response does not arrive."""


class Moment(Enum):
    """Where something goes wrong."""

    NEVER = "never"
    REQUEST = "request"
    BEFORE_COMMIT = "before commit"
    AFTER_COMMIT = "after commit"
    RESPONSE = "response"


@dataclass(frozen=True)
class Fault:
    """What goes wrong, after how many calls or commits of an event that went well."""

    moment: Moment = Moment.NEVER
    spared: int = 0


class Faults:
    """Counts down to the fault that is armed, then fires once."""

    def __init__(self) -> None:
        self.arm(Fault())

    def arm(self, fault: Fault) -> None:
        self._moment, self._spared = fault.moment, fault.spared

    def reached(self, moment: Moment) -> None:
        if self._moment is not moment:
            return
        self._spared -= 1
        if self._spared >= 0:
            return
        self.arm(Fault())
        network = moment in {Moment.REQUEST, Moment.RESPONSE}
        raise LostError(moment.value) if network else CrashError(moment.value)

    @property
    def hooks(self) -> Hooks:
        return Hooks(
            lambda: self.reached(Moment.BEFORE_COMMIT), lambda: self.reached(Moment.AFTER_COMMIT)
        )

    def call(self, work: Callable[[], Answer]) -> Answer:
        """Over the network."""
        self.reached(Moment.REQUEST)
        answer = work()
        self.reached(Moment.RESPONSE)
        return answer


LOOK = """
import sqlite3, sys
for line in sys.stdin:
    one = sqlite3.connect(line.rstrip())
    one.execute("SELECT count(*) FROM plans").fetchall()
    one.close()
    print("looked", flush=True)
"""


@cache
def _stranger() -> subprocess.Popen[str]:
    """Opens what it is told to; a process that was forked would share our SQLite's locks."""
    both = subprocess.PIPE
    found = subprocess.Popen([sys.executable, "-c", LOOK], stdin=both, stdout=both, text=True)

    def end() -> None:
        found.kill()
        found.communicate()

    atexit.register(end)
    return found


def _opened_file(number: str) -> str:
    try:
        return os.readlink(f"/proc/self/fd/{number}")
    except OSError:
        return ""


class Simulation:
    """Two processes of a shuffler over one database, an analyzer, and devices."""

    plan = PLAN
    transport: type[PlanTransport] = BitsTransport

    def __init__(self, shuffler_url: str, analyzer_url: str, hooks: Hooks | None = None) -> None:
        """``hooks`` take the place of those that the faults of events use."""
        self._urls = (shuffler_url, shuffler_url, analyzer_url)
        self._faults = Faults()
        self._hooks = hooks or self._faults.hooks
        self._now = 1_000_000.0
        self._databases: list[Database] = []
        self._meanwhile: Callable[[], object] | None = None
        self._pending: dict[int, Upload] = {}
        self._sent: list[tuple[int, Upload]] = []
        self._leases: dict[int, Lease] = {}
        self.accepted: set[tuple[int, int]] = set()
        self.unknown: set[tuple[int, int]] = set()
        self.bodies: dict[tuple[int, int], bytes] = {}
        self.crashes = 0
        self.set_backs = 0
        self.lies = [0] * self.plan.schedule.batches
        self.lies_unknown = [0] * self.plan.schedule.batches
        self._told, self._taught = Position(0), Position(0)
        self._acknowledged = False
        self._snapshots: list[Snapshot] = []
        self._older_analyzers: list[Snapshot] = []
        self._start()
        place = beside(self._databases[0]) / "device"
        self._device = RolledBackDevice(place, self.plan, account(CHOICES[0]), CHOICES)
        first = self.analyzer.open_plan(self.plan)
        if not self.processes[0].plans():
            self.processes[0].open_plan(self.plan, self.basis(first))

    # Processes

    def _start(self) -> None:
        """Nothing is left of what processes had in memory."""
        roles = ("shuffler", "shuffler", "analyzer")
        self._databases = [
            Database.open(url, role, self._hooks)
            for url, role in zip(self._urls, roles, strict=True)
        ]
        self.processes = [
            shuffler_store(
                database, transport=self.transport, sign=self._sign, clock=lambda: self._now
            )
            for database in self._databases[:2]
        ]
        self.analyzer = analyzer_store(self._databases[2])

    def stop(self) -> None:
        for database in self._databases:
            database.close()

    def _sign(self, _: bytes) -> str:
        """Between the work of a release and its transaction another process may act."""
        meanwhile, self._meanwhile = self._meanwhile, None
        if meanwhile is not None:
            meanwhile()
        return "signature"

    def run(self, event: Callable[[Simulation], object], fault: Fault) -> None:
        """One event; whatever fails, nothing may have been counted twice."""
        before, self._acknowledged = self._position(), False
        self._faults.arm(fault)
        try:
            event(self)
            if self._acknowledged or self._position() != before:
                self._told = self._position()
            self._taught = self._learnt_so_far()
        except LostError:
            pass
        except CrashError:
            self.crashes += 1
            self.stop()
            self._start()
            self.analyzer.open_plan(self.plan)
        finally:
            self._meanwhile = None
            self._faults.arm(Fault())
        self.check_so_far()

    # Devices

    def send(self, process: int, users: Sequence[int]) -> None:
        """Reports of some devices, new ones or again, in one group."""
        batch = self.processes[process].current(self.plan.id)
        for user in users:
            if user not in self._pending:
                self._pending[user] = self._fresh(batch, user)
                self._sent.append((user, self._pending[user]))
        self._upload(process, [(user, self._pending[user]) for user in dict.fromkeys(users)])

    def _fresh(self, batch: BatchRow, user: int) -> Upload:
        """A new report has a new id; its bytes are like no other's."""
        name = hashlib.sha256(f"{len(self._sent)}".encode()).digest()
        made = self.payload(user)
        return upload(self.plan, batch, user, id=name[:16], digest=name, payload=made)

    def payload(self, user: int) -> bytes:
        return one_hot(self.plan, user)

    def replay(self, process: int, chosen: int) -> None:
        """Anything that was ever sent, once more."""
        if self._sent:
            self._upload(process, [self._sent[chosen % len(self._sent)]])

    def forge(self, process: int, chosen: int, same_payload: bool) -> None:
        """An id that was accepted, with other bytes: sealed for another key, or another report."""
        known = [(user, one) for user, one in self._sent if (user, one.batch) in self.accepted]
        taken = [one for user, one in known if self._pending.get(user) is not one]
        if not taken:
            return
        victim = taken[chosen % len(taken)]
        payload = victim.payload if same_payload else self.payload(chosen % USERS)
        forged = altered(victim, digest=b"forged", payload=payload)
        verdict = self._faults.call(lambda: self.processes[process].take([forged]))[0]
        assert verdict is not None

    def lie(self, process: int, liar: int) -> None:
        """A report that is as it should be, and says of everything the same."""
        batch = self.processes[process].current(self.plan.id)
        row = np.full((1, self.plan.layout.size), float(LIE))
        payload = wire.encode_report(self.plan.shapes(batch.index), {"report": row})
        name = hashlib.sha256(f"lie {len(self._sent)} {sum(self.lies_unknown)}".encode()).digest()
        sent = upload(self.plan, batch, 0, id=name[:16], digest=name, account=account(LIARS + liar))
        self.lies_unknown[batch.index] += 1
        told = altered(sent, payload=payload)
        (verdict,) = self._faults.call(lambda: self.processes[process].take([told]))
        self.lies[batch.index] += verdict is None

    def device(self, process: int, answered: Answered) -> None:
        """The device of real files takes part, or tries to."""
        batch = self.processes[process].current(self.plan.id)

        def take(one: Upload, coordinate: int) -> Reason | None:
            self.unknown.add((coordinate, one.batch))
            (verdict,) = self._faults.call(lambda: self.processes[process].take([one]))
            if verdict is None:
                self._acknowledged = True
                self.accepted.add((coordinate, one.batch))
            return verdict

        self._device.take_part(batch, take, answered)

    def device_goes_back(self, chosen: int, with_ledger: bool) -> None:
        """Its files are again what they were at some moment."""
        self._device.go_back(chosen, with_ledger)

    def _upload(self, process: int, group: list[tuple[int, Upload]]) -> None:
        self.unknown |= {(user, one.batch) for user, one in group}
        sent = [one for _, one in group]
        verdicts = self._faults.call(lambda: self.processes[process].take(sent))
        for (user, one), verdict in zip(group, verdicts, strict=True):
            if verdict is None:
                self._acknowledged = True
                self.accepted.add((user, one.batch))
            if self._pending.get(user) is one and (verdict is None or verdict in GIVE_UP):
                del self._pending[user]

    # Sealers

    def seal(self, process: int) -> None:
        self.processes[process].seal(self.plan.id)

    def release(self, process: int) -> ReleasedBatch | None:
        store = self.processes[process]
        if store.plans()[0].ended:
            return None
        found = store.release(self.plan.id)
        if found is not None:
            place = (found.batch, found.attempt)
            assert self.bodies.setdefault(place, found.body) == found.body
        return found

    def race(self, process: int) -> None:
        """Two processes shuffle the same batch at the same time."""
        self._meanwhile = lambda: self.release(1 - process)
        self.release(process)

    def overtaken(self, process: int) -> None:
        """While one process shuffles, another brings the batch to its end."""
        self._meanwhile = lambda: self.finish(1 - process)
        with suppress(Refusal):
            self.release(process)

    def finish(self, process: int) -> None:
        self.deliver(process)
        self.processes[process].scrub(self.plan.id)

    def deliver(self, process: int) -> None:
        """The released bytes to the analyzer, and what it says back."""
        found = self.release(process)
        if found is None:
            return
        published = self.learnt(process, found)
        if published is None:
            return
        self.processes[process].acknowledge(self.plan.id, found.batch, self.basis(published))

    def learnt(self, process: int, found: ReleasedBatch) -> PublishedModel | None:
        """What the analyzer publishes after the batch; None if it was begun again."""
        return self._faults.call(lambda: learn(self.analyzer, self.plan, found))

    def basis(self, published: PublishedModel) -> Basis:
        return basis(published)

    def pass_by(self, process: int) -> None:
        """Whatever the open batch lacks comes, and it is brought to its end."""
        self.send(process, range(USERS))
        self.seal(process)
        self.finish(process)

    def scrub(self, process: int) -> None:
        self.processes[process].scrub(self.plan.id)

    def work(self, process: int, keep: bool) -> None:
        """The next step of a batch that is leased; a lease that is kept must run out."""
        store = self.processes[process]
        lease = self._leases.pop(process, None) or store.lease(str(process), LEASE)
        if lease is None:
            return
        if keep:
            self._leases[process] = lease
        self._step(process, store.current(self.plan.id).state)
        if not keep:
            store.give_back(lease)

    def _step(self, process: int, state: BatchState) -> None:
        steps = {
            BatchState.OPEN: self.seal,
            BatchState.SEALED: self.release,
            BatchState.RELEASED: self.deliver,
            BatchState.ACKNOWLEDGED: self.scrub,
        }
        steps.get(state, self.scrub)(process)
        if state is BatchState.OPEN:
            self.scrub(process)

    def jump(self, seconds: float) -> None:
        """Somebody sets the clock."""
        self._now += seconds

    # Operators

    def look(self) -> None:
        """A process of somebody else opens the file and closes it again, as a shell does.

        Whatever is committed to a log that it has deleted ends with this process.
        """
        url = self._urls[0]
        if "://" in url:
            return
        stranger = _stranger()
        assert stranger.stdin is not None
        assert stranger.stdout is not None
        stranger.stdin.write(f"{url}\n")
        stranger.stdin.flush()
        assert stranger.stdout.readline() == "looked\n"
        held = [_opened_file(number) for number in os.listdir("/proc/self/fd")]
        lost = [name for name in held if name.startswith(url) and "(deleted)" in name]
        assert not lost, "the log of a running service was deleted"

    def keep_backup(self) -> None:
        """A snapshot of the shuffler's database, of which there may be several."""
        with self._operator() as database:
            self._snapshots.append(snapshot(database))

    def restore_backup(self, chosen: int) -> None:
        """An older copy takes the database's place, until the newest one is brought back.

        Where it lacks anything, that is said, and nothing is taken, sealed or released.
        """
        if not self._snapshots:
            return
        with self._operator() as database:
            newest, position = snapshot(database), self._position()
            restore(database, self._snapshots[chosen % len(self._snapshots)])
            try:
                self._require_stopped(position)
            finally:
                restore(database, newest)

    def restore_disk(self, chosen: int) -> None:
        """The same together with all that is beside it: what the analyzer has signed shows it."""
        if not self._snapshots:
            return
        with self._operator() as database:
            newest = snapshot(database)
            noted = {file: file.read_bytes() for file in beside(database).glob("*.progress")}
            for file in noted:  # as it was when the plan began
                file.write_bytes(b"")
            restore(database, self._snapshots[chosen % len(self._snapshots)])
            try:
                self._require_told_by_the_analyzer()
            finally:
                restore(database, newest)
                for file, content in noted.items():
                    file.write_bytes(content)

    def _require_told_by_the_analyzer(self) -> None:
        store, found = self.processes[0], self._position()
        behind = self._head(0).learnt > store.released(self.plan.id)
        told = store.compare(self.plan.id, self._head(store.released(self.plan.id)))
        assert (told is not None and told.ours) == behind, "nobody said so"
        if behind and not store.plans()[0].ended:
            self.set_backs += 1
            assert store.set_back(self.plan.id)
            self._require_refused(found)

    def _head(self, released: int) -> PublishedHead:
        """What the analyzer shows."""
        entries = self.analyzer.ledger(self.plan.id)[first_entry_to_compare(released) :]
        named = entries[-1].hash if entries else ""
        newest = SignedModel(self.analyzer.newest_model(self.plan.id).model, named)
        return PublishedHead(newest, tuple(entries))

    def keep_backup_of_the_analyzer(self) -> None:
        """A snapshot of its database."""
        with self._operator("analyzer") as database:
            self._older_analyzers.append(snapshot(database, ANALYZER))

    def restore_backup_of_the_analyzer(self, chosen: int) -> None:
        """An older copy takes its place for a while; where it lacks anything, it learns nothing."""
        if not self._older_analyzers:
            return
        with self._operator("analyzer") as database:
            newest = snapshot(database, ANALYZER)
            restore(database, self._older_analyzers[chosen % len(self._older_analyzers)])
            try:
                self._require_learns_nothing()
            finally:
                restore(database, newest)

    def _require_learns_nothing(self) -> None:
        found = self._learnt_so_far()
        missed = self.analyzer.set_back(self.plan.id)
        assert missed or found >= self._taught, "a published model was lost and nobody said so"
        if not missed:
            return
        self.set_backs += 1
        with suppress(Refusal, LostError):
            self.deliver(0)
        with suppress(Refusal):
            self.analyzer.open_plan(self.plan)
        assert self._learnt_so_far() == found, "an analyzer that was set back went on"

    def _learnt_so_far(self) -> Position:
        """How many batches the analyzer has learnt from."""
        return Position(len(self.analyzer.ledger(self.plan.id)))

    def _require_stopped(self, newest: Position) -> None:
        """Nobody was told more than what was noted, so that all that they were told is missed."""
        store, found = self.processes[0], self._position()
        if store.plans()[0].ended:
            return
        missed = store.set_back(self.plan.id)
        assert missed or found >= self._told, "an acknowledged report was lost and nobody said so"
        assert not missed or found < newest, "nothing is missing"
        if missed:
            self.set_backs += 1
            self._require_refused(found)

    def _require_refused(self, found: Position) -> None:
        """What has nothing to do changes nothing and need not be refused; all else is."""
        store, batch = self.processes[0], self.processes[0].current(self.plan.id)
        opened = wire.encode_flags(np.ones(batch.size, dtype=bool))
        steps: list[Callable[[], object]] = [
            lambda: store.take([self._fresh(batch, 0)]),
            lambda: store.pad(self.plan.id, 0),
            lambda: store.drop(self.plan.id),
            lambda: store.seal(self.plan.id) and store.release(self.plan.id),
            lambda: store.share(self.plan.id, batch.index, opened, batch.attempt),
            lambda: store.acknowledge(self.plan.id, batch.index, Basis(9, "00" * 32)),
        ]
        for step in steps:
            with suppress(Refusal):
                assert not step()
            assert self._position() == found, "a database that was set back went on"

    def _position(self) -> Position:
        return self.processes[0].current(self.plan.id).position

    @contextmanager
    def _operator(self, role: str = "shuffler") -> Iterator[Database]:
        """A connection without faults."""
        database = Database.open(self._urls[0 if role == "shuffler" else 2], role)
        try:
            yield database
        finally:
            database.close()

    # The end

    @property
    def rounds(self) -> int:
        """How often something may have to be done again until the end."""
        return 4 * self.plan.schedule.batches

    def complete(self) -> None:
        """Nothing fails any more: every batch is filled and brought to its end."""
        for _ in range(self.rounds):
            if self.processes[0].plans()[0].ended:
                break
            self._top_up()
            self._now += 2 * LEASE
            for _ in range(4):
                self.work(0, keep=False)
                self.check_so_far()
        self.processes[0].scrub(self.plan.id)
        assert self.processes[0].plans()[0].ended

    def _top_up(self) -> None:
        batch = self.processes[0].current(self.plan.id)
        if batch.state is BatchState.OPEN:
            self.send(0, range(USERS))

    def check_so_far(self) -> None:
        lies, sums = self._separated()
        assert set(sums.ravel().tolist()) <= {0.0, 1.0}, "a report was counted twice"
        sizes = {self.plan.users(0)} if len(sums) else set()
        assert set((sums.sum(axis=1) + lies).tolist()) == sizes, "a batch of another size"
        choices = sums[:, CHOICES.start :].sum(axis=0)
        assert choices.sum() <= self.plan.terms.max_participations, "a device took part too often"
        if not self._device.forgot_its_ledger:
            assert choices.max(initial=0) <= 1, "a choice was counted in two batches"

    def _separated(self) -> tuple[np.ndarray, np.ndarray]:
        """How many lies are in each batch, and what the others come to."""
        sums = np.array(self.analyzer.sums(self.plan.id)).reshape(-1, self.plan.layout.size)
        lies, honest = np.divmod(sums, LIE)
        assert np.all(lies == lies[:, :1]), "a lie was taken apart"
        return lies[:, 0], honest

    def check(self) -> None:
        """Every acknowledged report was counted exactly once, and nothing that was not sent."""
        lies, sums = self._separated()
        assert len(sums) == self.plan.schedule.batches
        for least, found, most in zip(self.lies, lies, self.lies_unknown, strict=True):
            assert least <= found <= most
        for user, batch in self.accepted:
            assert sums[batch, user] == 1, "an acknowledged report was lost"
        for batch, user in np.argwhere(sums).tolist():
            assert (user, batch) in self.unknown, "a report was made up"
        assert sums.sum(axis=0).max() <= self.plan.terms.max_participations
        digests = [
            hashlib.sha256(self.bodies[batch, 0]).hexdigest()
            for batch in range(self.plan.schedule.batches)
        ]
        for ledger in (self.processes[0].ledger(self.plan.id), self.analyzer.ledger(self.plan.id)):
            assert [entry.digest for entry in ledger] == digests
        with self._databases[0].reading() as transaction:
            assert transaction.all("SELECT id FROM reports") == []
