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

    @property
    def proved(self) -> int:
        """The same as far as the signed model says it: other entries are nobody's word."""
        named = [one.sequence + 1 for one in self.entries if one.hash == self.newest.ledger]
        return max([self.newest.model.version, *named])


@dataclass(frozen=True)
class Disagreement:
    """What does not fit. ``ours``: this database is behind what the analyzer shows.

    ``proved`` is how many batches were released, where a signed model says that it is more than
    here; without that word we stop as long as it is shown, and note nothing.
    """

    words: str
    ours: bool
    proved: int = 0


def first_entry_to_compare(released: int) -> int:
    """Of a ledger with so many entries: the analyzer may not have learnt from the last one yet."""
    return max(0, released - 2)


def find_disagreement(
    batch: BatchRow, own: Sequence[LedgerEntry], head: PublishedHead, batches: int
) -> Disagreement | None:
    """Compare our newest batch and our last entries with what the analyzer shows.

    The plan has so many ``batches``, whatever anybody shows.
    """
    released, learnt = (own[-1].sequence + 1 if own else 0), head.learnt
    told = f"the analyzer has learnt from {learnt} batches, this database has released {released}"
    if learnt > released:
        proved = min(head.proved, batches)
        more = proved if proved > released else 0
        return Disagreement(f"{told}: an older copy of it was restored", True, more)
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
