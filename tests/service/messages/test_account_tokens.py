"""Account tokens: good for one account of one plan, by a trusted issuer, in one spelling."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from croupier.errors import DocumentError, SignatureError
from croupier.service.messages import signed_documents
from croupier.service.messages.account_tokens import TOKEN_LENGTH, issue_token, verify_token
from croupier.service.messages.signed_documents import Signer

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "documents.json").read_text())
KNOWN = VECTORS["account_tokens"]
REASONS = {"bad-signature": SignatureError, "document": DocumentError}
ISSUER, STRANGER = (Signer(Ed25519PrivateKey.generate()) for _ in "ab")
TRUSTED = signed_documents.trusted_keys([ISSUER.public])
PLAN, OTHER = "ab" * 16, "cd" * 16
ACCOUNT = bytes(range(32))


@given(st.binary(min_size=32, max_size=32))
def test_a_token_names_its_account(account: bytes) -> None:
    token = issue_token(PLAN, account, ISSUER)
    assert len(token) == TOKEN_LENGTH
    assert verify_token(token, PLAN, TRUSTED) == account


@pytest.mark.parametrize("case", KNOWN["cases"], ids=lambda case: case.get("name", "good"))
def test_known_tokens(case: dict[str, Any]) -> None:
    issuers = signed_documents.trusted_keys([bytes.fromhex(KNOWN["issuer"])])
    if "account" in case:
        assert verify_token(case["token"], KNOWN["plan"], issuers).hex() == case["account"]
        return
    with pytest.raises(REASONS[case["reason"]]):
        verify_token(case["token"], KNOWN["plan"], issuers)


@given(st.integers(0, TOKEN_LENGTH - 1), st.characters(codec="ascii"))
def test_a_token_with_any_character_changed_is_refused(place: int, other: str) -> None:
    token = issue_token(PLAN, ACCOUNT, ISSUER)
    changed = token[:place] + other + token[place + 1 :]
    if changed != token:
        with pytest.raises(DocumentError):
            verify_token(changed, PLAN, TRUSTED)


@pytest.mark.parametrize("length", range(0, TOKEN_LENGTH, 9))
def test_a_truncated_token_is_refused(length: int) -> None:
    with pytest.raises(DocumentError, match="must have 162 characters"):
        verify_token(issue_token(PLAN, ACCOUNT, ISSUER)[:length], PLAN, TRUSTED)


def test_a_token_of_another_plan_or_issuer_is_refused() -> None:
    with pytest.raises(DocumentError, match=f"is for plan {OTHER}"):
        verify_token(issue_token(OTHER, ACCOUNT, ISSUER), PLAN, TRUSTED)
    with pytest.raises(SignatureError, match="not trusted"):
        verify_token(issue_token(PLAN, ACCOUNT, STRANGER), PLAN, TRUSTED)


def test_a_signature_for_something_else_is_no_token() -> None:
    """What an issuer's key signs under another purpose says nothing of accounts."""

    class Batches(Signer):
        def sign(self, purpose: str, data: bytes) -> bytes:
            return super().sign("batch", data)

    with pytest.raises(SignatureError):
        verify_token(issue_token(PLAN, ACCOUNT, Batches(ISSUER.key)), PLAN, TRUSTED)


@pytest.mark.parametrize("account", [b"", bytes(31), bytes(33)])
def test_an_account_of_another_length_gets_no_token(account: bytes) -> None:
    with pytest.raises(ValueError, match="account must"):
        issue_token(PLAN, account, ISSUER)
