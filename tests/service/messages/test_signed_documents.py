"""Signed documents and the ledger: nothing unsigned is read, nothing charged twice."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from croupier.errors import DocumentError, SignatureError
from croupier.model import Model
from croupier.service.messages import signed_documents
from croupier.service.messages.signed_documents import LedgerEntry, Signer, verify_chain
from croupier.service.messages.witnessed_heads import WitnessedHead

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "documents.json").read_text())
SIGNER, STRANGER = (Signer(Ed25519PrivateKey.generate()) for _ in "ab")
TRUSTED = signed_documents.trusted_keys([SIGNER.public])
MODEL = Model("ucb", np.array([0.1, -0.0]), np.eye(2), 1.5, 1, 10, plan_id="ab" * 16)
REASONS = {"bad-signature": SignatureError, "document": DocumentError}

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53) + 1, 2**53 - 1)
    | st.text()
    | st.floats(allow_nan=False, allow_infinity=False),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(st.dictionaries(st.text(), values, max_size=4))
def test_a_signed_content_is_read_back(content: dict[str, Any]) -> None:
    text = signed_documents.sign_document("model", content, [SIGNER])
    found = signed_documents.verify_document("model", text, TRUSTED)
    assert found == content
    assert signed_documents.verify_document("model", text.encode(), TRUSTED) == content


@given(st.integers(0, 10**6), st.integers(0, 255))
def test_a_document_with_any_byte_changed_is_refused(place: int, value: int) -> None:
    data = bytearray(signed_documents.sign_model(MODEL, "ee" * 32, SIGNER).encode())
    before = data[place % len(data)]
    data[place % len(data)] = value
    if value == before:
        return
    try:
        found = signed_documents.verify_model(bytes(data), TRUSTED)
    except DocumentError:
        return
    # Only the spelling of a signature or of the text may differ, never what is said.
    assert (found.model.hash, found.ledger) == (MODEL.hash, "ee" * 32)


def test_a_signed_model_is_read_back_bit_for_bit() -> None:
    found = signed_documents.verify_model(
        signed_documents.sign_model(MODEL, "ee" * 32, SIGNER), TRUSTED
    )
    assert found.model.hash == MODEL.hash
    assert found.model.to_json() == MODEL.to_json()
    assert found.ledger == "ee" * 32


def test_a_model_by_a_stranger_is_refused() -> None:
    text = signed_documents.sign_model(MODEL, "", STRANGER)
    with pytest.raises(SignatureError, match="not signed by a key that is trusted"):
        signed_documents.verify_model(text, TRUSTED)
    with pytest.raises(SignatureError, match="not signed by a key that is trusted"):
        signed_documents.verify_model(text, {})


def test_one_trusted_signature_is_enough_but_a_wrong_one_is_too_many() -> None:
    both = signed_documents.sign_document("keys", {"a": 1}, [STRANGER, SIGNER])
    assert signed_documents.verify_document("keys", both, TRUSTED) == {"a": 1}
    forged = json.loads(both)
    forged["signatures"][STRANGER.id.hex()] = "00" * 64
    text = json.dumps(forged)
    assert signed_documents.verify_document("keys", text, TRUSTED) == {"a": 1}
    with pytest.raises(SignatureError, match="does not fit"):
        signed_documents.verify_document(
            "keys", text, signed_documents.trusted_keys([SIGNER.public, STRANGER.public])
        )


def test_a_signature_fits_one_purpose_only() -> None:
    text = signed_documents.sign_document("model", {"a": 1}, [SIGNER])
    moved = text.replace("signed-model", "signed-keys")
    with pytest.raises(SignatureError, match="does not fit"):
        signed_documents.verify_document("keys", moved, TRUSTED)


@pytest.mark.parametrize(
    "text",
    [
        "",
        "null",
        "[]",
        "{",
        '{"kind": "signed-model", "content": {}, "signatures": []}',
        '{"kind": "signed-model", "content": [], "signatures": {}}',
        '{"kind": "signed-model", "content": {"a": NaN}, "signatures": {}}',
        '{"kind": "signed-model", "content": {"a": 1e999}, "signatures": {}}',
        '{"kind": "signed-model", "content": {}, "signatures": {"zz": "00"}}',
        '{"kind": "signed-model", "content": {}, "signatures": {"00": 5}}',
        "[" * 100_000,
        b"\xff\xfe",
        '{"kind": "signed-model", "content": {"a": ' + "9" * 5000 + '}, "signatures": {}}',
    ],
)
def test_what_is_not_a_signed_document_is_refused(text: str | bytes) -> None:
    with pytest.raises(DocumentError, match="not a signed model"):
        signed_documents.verify_document("model", text, TRUSTED)


@given(st.binary(max_size=100))
def test_a_batch_is_verified_over_exactly_its_bytes(body: bytes) -> None:
    header = signed_documents.sign_batch(body, SIGNER)
    signed_documents.verify_batch(body, header, TRUSTED)
    for wrong in (body + b"\x00", b"\x00" + body, body[:-1] if body else b"x"):
        with pytest.raises(SignatureError):
            signed_documents.verify_batch(wrong, header, TRUSTED)


@pytest.mark.parametrize("header", ["", ".", "zz.zz", "00", "00.00", "\u00e9", "0" * 10_000])
def test_a_header_that_is_no_signature_is_refused(header: str) -> None:
    with pytest.raises(SignatureError):
        signed_documents.verify_batch(b"body", header, TRUSTED)


# The ledger


def chain(count: int, plan: str = "ab" * 16) -> list[LedgerEntry]:
    entries: list[LedgerEntry] = []
    for number in range(count):
        previous = entries[-1].hash if entries else ""
        entries.append(
            LedgerEntry(
                number, plan, number, 10, "cd" * 32, "ef" * 32, 0.5, None, 1e-6, "x", previous
            )
        )
    return entries


def test_a_whole_chain_is_accepted_and_ends_in_its_head() -> None:
    entries = chain(5)
    assert verify_chain(entries) == entries[-1].hash
    assert verify_chain(entries, entries[-1].hash) == entries[-1].hash
    assert verify_chain([]) == ""


def test_an_entry_is_read_back_from_its_content() -> None:
    for entry in chain(3):
        again = LedgerEntry.from_content(json.loads(json.dumps(entry.content)))
        assert again == entry
        assert again.hash == entry.hash


@pytest.mark.parametrize("missing", range(4))
def test_a_chain_with_an_entry_missing_is_broken(missing: int) -> None:
    entries = chain(5)
    del entries[missing]
    with pytest.raises(DocumentError, match=f"broken before entry {missing}"):
        verify_chain(entries)


def test_a_chain_cut_off_at_its_end_is_noticed_by_who_knows_the_head() -> None:
    entries = chain(5)
    with pytest.raises(DocumentError, match="the ledger ends in"):
        verify_chain(entries[:-1], entries[-1].hash)
    with pytest.raises(DocumentError, match="the ledger ends in nothing"):
        verify_chain([], entries[-1].hash)


@pytest.mark.parametrize(
    "changes",
    [
        {"users": 11},
        {"plan": "ff" * 16},
        {"mu": 0.4},
        {"epsilon": 1.0},
        {"delta": None},
        {"method": ""},
        {"digest": "00" * 32},
        {"model_hash": "00" * 32},
        {"batch": 0},
        {"sequence": 2},
        {"previous": ""},
    ],
)
def test_a_chain_with_any_field_changed_is_broken(changes: dict[str, Any]) -> None:
    entries = chain(4)
    entries[1] = replace(entries[1], **changes)
    with pytest.raises(DocumentError, match="the ledger"):
        verify_chain(entries)


def test_a_batch_charged_twice_is_refused_even_in_a_chain_that_fits() -> None:
    entries = chain(3)
    again = replace(entries[1], sequence=3, previous=entries[2].hash)
    with pytest.raises(DocumentError, match="charges batch 1 again, entry 3"):
        verify_chain([*entries, again])
    other = replace(again, plan="99" * 16)
    verify_chain([*entries, other])


@pytest.mark.parametrize("content", [{}, {"sequence": 1}, {**chain(1)[0].content, "more": 1}])
def test_an_entry_with_other_fields_is_refused(content: dict[str, Any]) -> None:
    with pytest.raises(DocumentError, match="not a ledger entry"):
        LedgerEntry.from_content(content)


# Known answers


def known() -> tuple[Signer, dict[bytes, Any]]:
    told = VECTORS["signer"]
    signer = Signer(Ed25519PrivateKey.from_private_bytes(bytes.fromhex(told["private"])))
    assert (signer.public.hex(), signer.id.hex()) == (told["public"], told["id"])
    return signer, signed_documents.trusted_keys([signer.public])


def test_the_known_model_is_written_and_read() -> None:
    signer, trusted = known()
    case = VECTORS["model"]
    found = signed_documents.verify_model(case["text"], trusted)
    assert (found.model.hash, found.ledger) == (case["hash"], case["ledger"])
    assert signed_documents.sign_model(found.model, found.ledger, signer) == case["text"]


@pytest.mark.parametrize("bad", VECTORS["model"]["bad"], ids=lambda bad: bad["why"])
def test_bad_models_are_refused_for_the_stated_reason(bad: dict[str, str]) -> None:
    with pytest.raises(DocumentError) as refused:
        signed_documents.verify_model(bad["text"], known()[1])
    assert type(refused.value) is REASONS[bad["reason"]]


def test_the_known_batch_signature_fits_and_the_bad_ones_do_not() -> None:
    signer, trusted = known()
    case = VECTORS["batch"]
    assert signed_documents.sign_batch(bytes.fromhex(case["body"]), signer) == case["header"]
    signed_documents.verify_batch(bytes.fromhex(case["body"]), case["header"], trusted)
    for bad in case["bad"]:
        with pytest.raises(SignatureError):
            signed_documents.verify_batch(bytes.fromhex(bad["body"]), bad["header"], trusted)


def test_the_known_ledger_has_the_known_hashes() -> None:
    entries = [LedgerEntry.from_content(told["content"]) for told in VECTORS["ledger"]]
    assert [entry.hash for entry in entries] == [told["hash"] for told in VECTORS["ledger"]]
    verify_chain(entries, VECTORS["ledger"][-1]["hash"])


def test_the_known_head_is_read_and_made_again() -> None:
    signer, trusted = known()
    case = VECTORS["head"]
    found = WitnessedHead.verify(case["text"], trusted)
    assert found.content == case["content"]
    assert found.sign(signer) == case["text"]


@pytest.mark.parametrize("bad", VECTORS["head"]["bad"], ids=lambda bad: bad["why"])
def test_known_bad_heads_are_refused(bad: dict[str, str]) -> None:
    with pytest.raises(DocumentError) as refused:
        WitnessedHead.verify(bad["text"], known()[1])
    assert type(refused.value) is REASONS[bad["reason"]]
