"""What two honest services cannot show: a model or a ledger outside the one chain."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from croupier.errors import CroupierError
from croupier.service.messages.public_ledger import extends
from croupier.service.messages.signed_documents import LedgerEntry, SignedModel
from croupier.service.messages.witnessed_heads import WitnessedHead


class ForkedError(CroupierError):
    """Two documents that cannot both be everybody's; the text says which."""


@dataclass(frozen=True)
class SeenHistory:
    """What was read in one look.

    ``models`` are those that the shuffler has named, the newest first, back to the head before or
    to the first of all. ``mirrored`` and ``published`` are the ledger as each service shows it.
    """

    models: Sequence[SignedModel]
    mirrored: Sequence[LedgerEntry]
    published: Sequence[LedgerEntry]


def witness_history(plan_id: str, seen: SeenHistory, last: WitnessedHead | None) -> WitnessedHead:
    """The head that may be signed after ``last``; a ``ForkedError`` says what does not fit."""
    newest = seen.models[0]
    if not extends(seen.published, seen.mirrored):
        raise ForkedError("the shuffler shows another ledger than the analyzer")
    if newest.ledger not in {"", *(entry.hash for entry in seen.mirrored)}:
        raise ForkedError(f"model {newest.model.version} rests on an entry that no ledger has")
    _require_goes_on(seen, last)
    _require_own_models(seen, 0 if last is None else last.entries)
    entries = len(seen.mirrored)
    return WitnessedHead(
        plan_id,
        newest.model.version,
        newest.model.hash,
        entries,
        seen.mirrored[-1].hash if entries else "",
    )


def _require_goes_on(seen: SeenHistory, last: WitnessedHead | None) -> None:
    """The ledger has every entry that was signed before."""
    if last is None or not last.entries:
        return
    if len(seen.mirrored) < last.entries:
        raise ForkedError(f"the ledger has {len(seen.mirrored)} entries, it had {last.entries}")
    if seen.mirrored[last.entries - 1].hash != last.ledger:
        raise ForkedError(f"entry {last.entries - 1} of the ledger is not the one it was")


def _require_own_models(seen: SeenHistory, before: int) -> None:
    """Batches were made with models of the chain."""
    known = {one.model.hash for one in seen.models}
    for entry in seen.mirrored[before:]:
        if entry.model_hash not in known:
            raise ForkedError(f"batch {entry.batch} was made with model {entry.model_hash}")
