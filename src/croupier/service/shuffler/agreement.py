"""Whether shuffler and analyzer agree on how far a plan has come; either may have been set back.

A shuffler whose database was set back together with everything beside it would fill a batch again
that was released before. What the analyzer has signed since shows it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from croupier.service.messages.signed_documents import LedgerEntry, SignedModel
from croupier.service.shuffler.rows import BatchRow, BatchState


@dataclass(frozen=True)
class PublishedHead:
    """The newest signed model of the analyzer, and the last entries of its ledger."""

    newest: SignedModel
    entries: tuple[LedgerEntry, ...]

    @property
    def learnt(self) -> int:
        """How many batches it has learnt from: a model's version is at most that."""
        charged = self.entries[-1].sequence + 1 if self.entries else 0
        return max(charged, self.newest.model.version)


@dataclass(frozen=True)
class Disagreement:
    """What does not fit. ``ours``: this database is behind what the analyzer has signed."""

    words: str
    ours: bool


def first_entry_to_compare(released: int) -> int:
    """Of a ledger with so many entries: the analyzer may not have learnt from the last one yet."""
    return max(0, released - 2)


def find_disagreement(
    batch: BatchRow, own: Sequence[LedgerEntry], head: PublishedHead
) -> Disagreement | None:
    """Compare our newest batch and our last entries with what the analyzer shows."""
    released, learnt = (own[-1].sequence + 1 if own else 0), head.learnt
    told = f"the analyzer has learnt from {learnt} batches, this database has released {released}"
    if learnt > released:
        return Disagreement(f"{told}: an older copy of it was restored", True)
    if learnt < released - 1:
        return Disagreement(f"{told}: an older copy of the analyzer's was restored", False)
    theirs = {entry.sequence: entry.hash for entry in head.entries}
    for entry in own:
        if theirs.get(entry.sequence, entry.hash) != entry.hash:
            return Disagreement(f"the ledgers differ in entry {entry.sequence}", False)
    ours, newest = batch.model_hash, head.newest.model.hash
    # A batch that was learnt from and is not acknowledged is followed by a newer model.
    waits = learnt == released and batch.state is BatchState.RELEASED
    if ours == newest or waits:
        return None
    return Disagreement(f"batch {batch.index} is for model {ours}, not for {newest}", False)
