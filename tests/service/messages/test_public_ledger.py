from __future__ import annotations

import json
from contextlib import suppress
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from croupier.errors import DocumentError
from croupier.service.messages.public_ledger import extends, read_public_ledger
from croupier.service.messages.signed_documents import LedgerEntry

PLAN = "ab" * 16
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)


def chain(length: int) -> list[LedgerEntry]:
    entries: list[LedgerEntry] = []
    for batch in range(length):
        previous = entries[-1].hash if entries else ""
        hashes = ("11" * 32, "22" * 32)
        made = LedgerEntry(batch, PLAN, batch, 10, *hashes, 0.5, 1.0, 1e-6, "proved", previous)
        entries.append(made)
    return entries


def published(entries: list[LedgerEntry]) -> dict[str, Any]:
    return {"plan": PLAN, "entries": [one.content | {"hash": one.hash} for one in entries]}


def test_a_published_ledger_is_read_back() -> None:
    assert read_public_ledger(json.dumps(published(chain(3))), PLAN) == chain(3)
    assert read_public_ledger(json.dumps(published([])).encode(), PLAN) == []


def test_a_ledger_with_anything_altered_is_refused() -> None:
    told = published(chain(2))
    told["entries"][0]["users"] = 11
    with pytest.raises(DocumentError, match="entry 0 of the ledger was altered"):
        read_public_ledger(json.dumps(told), PLAN)
    with pytest.raises(DocumentError, match="another plan"):
        read_public_ledger(json.dumps(published(chain(2))), "cd" * 16)
    with pytest.raises(DocumentError, match="broken before entry 0"):
        read_public_ledger(json.dumps(published(chain(2)[1:])), PLAN)


@given(st.text() | st.binary())
def test_what_is_no_ledger_is_refused(text: str | bytes) -> None:
    with pytest.raises(DocumentError):
        read_public_ledger(text, PLAN)


@given(st.sampled_from([*chain(1)[0].content, "hash"]), values)
def test_a_field_of_any_kind_is_read_or_refused(name: str, value: object) -> None:
    told = published(chain(2))
    told["entries"][1][name] = value
    with suppress(DocumentError):
        assert read_public_ledger(json.dumps(told), PLAN) == chain(2)


def test_a_chain_goes_on_where_another_ended_or_not() -> None:
    whole = chain(3)
    other = replace(whole[0], users=11)
    assert extends(whole, [])
    assert extends(whole, whole[:2])
    assert extends(whole, whole)
    assert not extends(whole[:2], whole)
    assert not extends(whole, [other])
