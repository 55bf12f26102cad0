"""The ledger as it is published: a list of entries, each with its hash."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from croupier.errors import DocumentError
from croupier.model import read_integer
from croupier.service.messages.signed_documents import LedgerEntry, verify_chain


def read_public_ledger(text: str | bytes, plan_id: str, start: int = 0) -> list[LedgerEntry]:
    """The entries of a plan's ledger from ``start`` on, the chain verified as far as it is there.

    Nobody signs it but by its head.
    """
    try:
        told = json.loads(text, parse_int=read_integer)
        entries = [_read_entry(dict(one)) for one in told["entries"]]
        own = told["plan"] == plan_id and all(entry.plan == plan_id for entry in entries)
        if not own:
            raise DocumentError(f"the ledger is that of another plan than {plan_id}")
        _verify_part(entries, start)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise DocumentError(f"not a ledger: {error!r}") from error
    return entries


def _verify_part(entries: Sequence[LedgerEntry], start: int) -> None:
    """The chain from its first entry on, or each entry followed by the next."""
    if not start:
        verify_chain(entries)
        return
    places = [entry.sequence for entry in entries]
    before = [entry.previous for entry in entries[1:]]
    if places != list(range(start, start + len(entries))) or before != [
        entry.hash for entry in entries[:-1]
    ]:
        raise DocumentError(f"the ledger is broken after entry {start}")


def _read_entry(content: dict[str, Any]) -> LedgerEntry:
    claimed = content.pop("hash")
    entry = LedgerEntry.from_content(content)
    if entry.hash != claimed:
        raise DocumentError(f"entry {entry.sequence} of the ledger was altered")
    return entry


def extends(later: Sequence[LedgerEntry], earlier: Sequence[LedgerEntry]) -> bool:
    """Whether a verified chain goes on where another one ended."""
    if not earlier:
        return True
    return len(later) >= len(earlier) and later[len(earlier) - 1].hash == earlier[-1].hash
