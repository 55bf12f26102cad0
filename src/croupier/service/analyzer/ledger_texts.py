"""The ledger as it is published, read and verified once for each time that it grows."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass

from croupier.service.analyzer.store import AnalyzerStore
from croupier.service.messages.signed_documents import LedgerEntry


@dataclass(frozen=True)
class _ReadLedger:
    head: str
    entries: tuple[bytes, ...]


class LedgerTexts:
    """Ledgers of any plan of the store; anybody may ask for them, as often as they like."""

    def __init__(self, store: AnalyzerStore) -> None:
        self._store = store
        self._known: dict[str, _ReadLedger] = {}

    def text(self, plan_id: str, start: int = 0) -> bytes:
        """The document, with the entries from ``start`` on; a plan that is not here is refused."""
        listed = b", ".join(self._read(plan_id).entries[start:])
        return b'{"plan": ' + json.dumps(plan_id).encode() + b', "entries": [' + listed + b"]}"

    def _read(self, plan_id: str) -> _ReadLedger:
        known = self._known.get(plan_id)
        if known is None or known.head != self._store.ledger_head(plan_id):
            self._store.plan(plan_id)
            entries = self._store.ledger(plan_id)
            head = entries[-1].hash if entries else ""
            known = self._known[plan_id] = _ReadLedger(head, _encode(entries))
        return known


def _encode(entries: Sequence[LedgerEntry]) -> tuple[bytes, ...]:
    return tuple(json.dumps(one.content | {"hash": one.hash}).encode() for one in entries)
