"""Transactions that are refused over a database which was set back, and noted outside of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from croupier.service.http.reasons import Refusal
from croupier.service.storage.database import Database, Transaction
from croupier.service.storage.progress import Position, ProgressFiles, set_back

ReadPosition = Callable[[Transaction, str], Position | None]
"""How far a plan has come; None if it has not begun."""


class NotedSteps:
    """Steps of plans in one database. A plan that has ended is behind nothing."""

    def __init__(
        self,
        database: Database,
        files: ProgressFiles,
        read_position: ReadPosition,
        has_ended: Callable[[Transaction, str], bool],
    ) -> None:
        self._database = database
        self._files = files
        self._read_position = read_position
        self._has_ended = has_ended

    @contextmanager
    def step(self, plan_id: str, durable: bool = False) -> Iterator[Transaction]:
        """One transaction over a plan.

        What is noted is read before the transaction and written after it, so that other processes
        which go on in the meantime are no contradiction. ``durable``: on disk when this returns.
        """
        known = self._files.read(plan_id)
        with self._database.transaction() as transaction:
            self._require_in_order(transaction, plan_id, known)
            yield transaction
            found = self._read_position(transaction, plan_id)
        self.note(plan_id, found, durable)

    @contextmanager
    def first_step(self, plan_id: str, durable: bool = False) -> Iterator[Transaction]:
        """The step that begins a plan; from here on it has a file."""
        with self._database.reading() as transaction:
            is_new = self._read_position(transaction, plan_id) is None
        if is_new:
            self._files.create(plan_id)
        with self.step(plan_id, durable) as transaction:
            yield transaction

    @contextmanager
    def adopting_step(self, plan_id: str) -> Iterator[Transaction]:
        """A step of a plan whose file was lost: its database is taken for the newest there is."""
        self._files.create(plan_id)
        with self.step(plan_id, durable=True) as transaction:
            yield transaction

    def note_end(self, plan_id: str, found: Position) -> None:
        """Note where a plan was ended; where nothing is known of it any more that stays so."""
        if self._files.has(plan_id):
            self.note(plan_id, found)

    def note(self, plan_id: str, found: Position | None, durable: bool = False) -> None:
        """Note what is committed. Where more is noted, the same database must have it by now."""
        if found is None:
            return
        known = self._files.note(plan_id, found, durable)
        if known != found:
            with self._database.reading() as transaction:
                self._require_in_order(transaction, plan_id, known)

    def set_back(self, plan_id: str) -> str:
        """How the database contradicts what was noted, in words; empty if it does not."""
        known = self._files.read(plan_id)
        with self._database.reading() as transaction:
            try:
                self._require_in_order(transaction, plan_id, known)
            except Refusal as refusal:
                return refusal.detail
        return ""

    def was_set_back(self, transaction: Transaction, plan_id: str) -> bool:
        """The same of a plan that may have ended, or whether that is not known."""
        known, found = self._files.read(plan_id), self._read_position(transaction, plan_id)
        if known is None:
            return not self._files.has(plan_id)
        return found is None or found < known

    def note_released(self, plan_id: str, batches: int) -> None:
        """So many batches were released, as somebody else has signed: none of them is open."""
        known = self._files.read(plan_id)
        if known is None or known.batch < batches:
            self._files.note(plan_id, Position(batches), durable=True)

    def _require_in_order(
        self, transaction: Transaction, plan_id: str, known: Position | None
    ) -> None:
        """Refuse a database that is older than what was noted, or of which nothing is."""
        found = self._read_position(transaction, plan_id)
        if found is not None and self._has_ended(transaction, plan_id):
            return
        if known is None:
            if found is not None and not self._files.has(plan_id):
                raise self._files.lost(plan_id)
        elif found is None or found.contradicts(known):
            raise set_back(plan_id, found, known)
