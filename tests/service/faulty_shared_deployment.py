"""The same deployment with a tree of batches whose reports travel as shares, and bad devices.

Every user counts 1 in a coordinate of their own on every level, so that the counts of every node
show exactly who is in it. A report whose inner seal is spoilt makes its batch begin again.
"""

from __future__ import annotations

import hashlib
import json
import secrets
from contextlib import suppress

import numpy as np

from croupier import wire
from croupier.plan import Plan
from croupier.service.analyzer.rows import PublishedModel
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages import released_counts, shares
from croupier.service.messages.sealing import Binding
from croupier.service.messages.transports import SharesTransport
from croupier.service.shuffler.acceptance import Upload
from croupier.service.shuffler.rows import Basis, BatchRow, ReleasedBatch
from croupier.service.storage.database import Hooks
from croupier.shuffler import shapes_of
from croupier.wire import Transport

from .faulty_deployment import Simulation
from .noiseless_plans import account
from .packed_reports import KEY, PUBLIC, written

TREE = written(
    Plan.calibrate(
        "concurrent-tree",
        dim=6,
        batches="fixed",
        batch_size=3,
        horizon=12,
        levels=2,
        epsilon=60.0,
        delta=0.1,
        max_participations=2,
        honest_fraction=1.0,
    )
)
SIZE = TREE.layout.size
SPOILING = 20
"""A user whose report does not open."""


def one_hot_shares(batch: BatchRow, user: int) -> bytes:
    """What the shuffler holds of a user who counts 1 in their coordinate of every level."""
    counted = released_counts.additive_release(TREE, batch.index).counted
    counts = np.zeros(len(counted), np.int64)
    counts[user::SIZE] = 1
    place = (batch.plan_id, batch.index, batch.model_version, batch.model_hash)
    binding = Binding(Transport.SHARES, *place, PUBLIC)
    messages = shares.share_report(counts, KEY.public_key(), binding)
    return wire.encode_report(shapes_of(messages), messages)


class SharedSimulation(Simulation):
    """Shares of a tree. ``accepted`` also has the attempt that a report was accepted in."""

    plan = TREE
    transport = SharesTransport

    def __init__(self, shuffler_url: str, analyzer_url: str, hooks: Hooks | None = None) -> None:
        self.spoilt = 0
        self._last: dict[tuple[int, int], int] = {}
        super().__init__(shuffler_url, analyzer_url, hooks)

    def basis(self, published: PublishedModel) -> Basis:
        return Basis(published.model.version, published.model.hash, PUBLIC)

    # Devices

    def _fresh(self, batch: BatchRow, user: int) -> Upload:
        return self._made(batch, user, one_hot_shares(batch, user))

    def _made(self, batch: BatchRow, user: int, payload: bytes) -> Upload:
        name = secrets.token_bytes(32)
        place = (self.plan.id, batch.index, batch.model_hash)
        return Upload(*place, name[:16], account(user), name, payload)

    def payload(self, user: int) -> bytes:
        """Of a forgery, which is never looked into."""
        return bytes(SharesTransport(self.plan).length(0))

    def forge(self, process: int, chosen: int, same_payload: bool) -> None:
        """An id of an attempt that was dropped is forgotten, and may be anybody's."""
        every = self.accepted
        now = {place: self._attempt(place[1]) for place in every}
        self.accepted = {place for place in every if self._last[place] == now[place]}
        try:
            super().forge(process, chosen, same_payload)
        finally:
            self.accepted = every

    def spoil(self, process: int, user: int) -> None:
        """A device whose report does not open for the analyzer."""
        if user in self._pending:
            self.send(process, [user])
            return
        batch = self.processes[process].current(self.plan.id)
        good = one_hot_shares(batch, user)
        bad = self._made(batch, user, good[:-1] + bytes([good[-1] ^ 1]))
        self._sent.append((user, bad))
        self._pending[user] = bad
        self.spoilt += 1
        self._upload(process, [(user, bad)])

    def _upload(self, process: int, group: list[tuple[int, Upload]]) -> None:
        before = self.accepted
        self.accepted = set()
        try:
            super()._upload(process, group)
        finally:
            newest = self.processes[process].current(self.plan.id)
            for user, batch in self.accepted:
                attempt = newest.attempt if batch == newest.index else self._attempt(batch)
                self._last[user, batch] = attempt
            self.accepted |= before

    # The two halves

    def learnt(self, process: int, found: ReleasedBatch) -> PublishedModel | None:
        try:
            flags = self._faults.call(lambda: self._decided(found))
            place = (self.plan.id, found.batch)
            share = self.processes[process].share(*place, flags, found.attempt)
        except Refusal as refusal:
            if refusal.reason not in {Reason.GUARANTEE_NOT_MET, Reason.STALE_BATCH}:
                raise
            return None
        return self._faults.call(lambda: self.analyzer.settle(*place, share))

    def _decided(self, found: ReleasedBatch) -> bytes:
        shapes = SharesTransport(self.plan).released_shapes(found.batch)
        header, messages = wire.decode_batch(shapes, found.body)
        version = json.loads(self.analyzer.document(header.model_hash))["version"]
        place = (self.plan.id, header.batch, version, header.model_hash)
        binding = Binding(Transport.SHARES, *place, PUBLIC)
        flags, tally = shares.open_shares(messages[shares.SHARE], KEY, binding)
        digest = hashlib.sha256(found.body).digest()
        return self.analyzer.decide(
            self.plan.id, found.batch, header.model_hash, digest, wire.encode_flags(flags), tally
        )

    def outrun(self, process: int, users: list[int]) -> None:
        """While one process shuffles, another drops the attempt and fills the next."""

        def meanwhile() -> None:
            with suppress(Refusal):
                self.deliver(1 - process)
            self.send(1 - process, users)
            self.seal(1 - process)

        self._meanwhile = meanwhile
        with suppress(Refusal):
            self.release(process)

    def live(self, users: int = 3) -> None:
        """From wherever it is to the end; the first attempt at the second batch does not open."""
        while not self.processes[0].plans()[0].ended:
            batch = self.processes[0].current(self.plan.id)
            start = users * batch.index
            if (batch.index, batch.attempt) == (1, 0):
                self.spoil(0, SPOILING)
                self.send(0, [start])
                self.send(0, [start + 1])
            else:
                self.send(0, range(start, start + users))
            self.seal(0)
            self.deliver(0)
            self.scrub(0)
        self.scrub(0)

    # The end

    @property
    def rounds(self) -> int:
        """For every spoilt report that is still to come a batch begins once more."""
        return super().rounds + 2 * self.spoilt

    def check_so_far(self) -> None:
        for batch, counts in enumerate(self.counts()):
            for node, count in zip(self.plan.mechanism.covers(batch), counts, strict=True):
                assert set(count) <= {0, 1} or len(node) > 1, "a report was counted twice"
                assert sum(count) == self.plan.users(0) * len(node), "a node of another size"

    def check(self) -> None:
        """Who was accepted in the attempt that counted was counted once, on every level."""
        counts, batches = self.counts(), self.plan.schedule.batches
        assert len(counts) == batches
        leaves = [dict(enumerate(closed[0])) for closed in counts]
        for (user, batch), attempt in self._last.items():
            if attempt == self._attempt(batch):
                assert leaves[batch][user] == 1, "an acknowledged report was lost"
        for batch, leaf in enumerate(leaves):
            assert all((user, batch) in self.unknown for user, one in leaf.items() if one)
        self.check_nodes()
        self.check_participations(np.sum([closed[0] for closed in counts], axis=0))
        self._check_ledgers()

    def check_nodes(self) -> None:
        """A node is the sum of its batches, and nothing of them is left with the shuffler."""
        counts = self.counts()
        for batch, closed in enumerate(counts):
            for node, count in zip(self.plan.mechanism.covers(batch), closed, strict=True):
                inside = np.sum([counts[one][0] for one in node], axis=0)
                assert inside.tolist() == count, "a node is not the sum of its batches"
        with self._databases[0].reading() as transaction:
            for table in ("reports", "present", "masks", "held"):
                assert transaction.all(f"SELECT * FROM {table}") == []

    def counts(self) -> list[list[list[int]]]:
        """Of every batch, for each node that it closes: what was counted of every user."""
        return [
            [
                self._counted(batch, level, part)
                for level, part in enumerate(np.split(sums, len(sums) // SIZE))
            ]
            for batch, sums in enumerate(self.analyzer.sums(self.plan.id))
        ]

    def _counted(self, batch: int, level: int, sums: np.ndarray) -> list[int]:
        """Back from a node's sums to its counts."""
        node = self.plan.release(batch).nodes[level]  # type: ignore[attr-defined]
        noise = node.users * node.noise_bits * node.bias
        found = (sums - node.users * self.plan.layout.low) * node.grid + noise
        np.testing.assert_allclose(found, np.round(found), atol=1e-6)
        return [int(one) for one in np.round(found)]

    def _attempt(self, batch: int) -> int:
        with self._databases[0].reading() as transaction:
            row = transaction.one("SELECT attempt FROM batches WHERE batch = ?", batch)
        return int(row[0]) if row else 0

    def check_participations(self, counted: np.ndarray) -> None:
        """What the dropped attempts had spent was given back, no more and no less."""
        with self._databases[0].reading() as transaction:
            rows = transaction.all("SELECT spent FROM participations")
        assert sorted(spent for (spent,) in rows) == sorted(counted[counted > 0].tolist())
        assert counted.max() <= self.plan.terms.max_participations

    def _check_ledgers(self) -> None:
        """Both sides charged the same, and name every attempt that was dropped."""
        ours, theirs = self.processes[0].ledger(self.plan.id), self.analyzer.ledger(self.plan.id)
        assert [entry.hash for entry in ours] == [entry.hash for entry in theirs]
        assert self.processes[0].dropped(self.plan.id) == self.analyzer.dropped(self.plan.id)
        for batch, entry in enumerate(ours):
            *dropped, last = [
                body for (one, _), body in sorted(self.bodies.items()) if one == batch
            ]
            assert entry.digest == hashlib.sha256(last).hexdigest()
            assert all(hashlib.sha256(body).hexdigest() in entry.method for body in dropped)
            assert entry.method.count("nothing released") == len(dropped)
