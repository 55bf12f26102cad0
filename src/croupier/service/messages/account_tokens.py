"""Account tokens: the deployer's issuer says that whoever holds one may report for an account.

A token is good for one account in one plan. It is signed, so that the shuffler needs to know
nothing but the issuer's public key, and the issuer learns nothing of reports. ``docs/wire.md`` has
the bytes.
"""

from __future__ import annotations

import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode

from croupier.errors import DocumentError
from croupier.packing import raw, sized
from croupier.service.messages import signed_documents
from croupier.service.messages.signed_documents import Signer, Trusted
from croupier.wire import ACCOUNT, KEY_ID, PLAN_ID

PURPOSE = "account"
VERSION = 1

_SIGNED = struct.Struct(f"<B{PLAN_ID}s{ACCOUNT}s{KEY_ID}s")
_SIGNATURE = 64

TOKEN_LENGTH = (_SIGNED.size + _SIGNATURE) * 4 // 3 + 1
"""Characters of every token."""


def issue_token(plan_id: str, account: bytes, signer: Signer) -> str:
    """The token of an account, 32 opaque bytes, for one plan."""
    plan, user = raw("plan_id", plan_id, PLAN_ID), sized("account", account, ACCOUNT)
    signed = _SIGNED.pack(VERSION, plan, user, signer.id)
    return _to_text(signed + signer.sign(PURPOSE, signed))


def verify_token(text: str | bytes, plan_id: str, issuers: Trusted) -> bytes:
    """The account that a token is for; refused unless a trusted issuer signed it for this plan."""
    data = _from_text(text)
    signed, signature = data[: _SIGNED.size], data[_SIGNED.size :]
    version, plan, account, name = _SIGNED.unpack(signed)
    if version != VERSION:
        raise DocumentError(f"an account token's version must be {VERSION}, got {version}")
    if plan != raw("plan_id", plan_id, PLAN_ID):
        raise DocumentError(f"the account token is for plan {plan.hex()}, this is {plan_id}")
    signed_documents.verify(PURPOSE, signed, name, signature, issuers)
    return bytes(account)


def _to_text(data: bytes) -> str:
    return urlsafe_b64encode(data).rstrip(b"=").decode()


def _from_text(text: str | bytes) -> bytes:
    """The bytes of a token; a second spelling of the same bytes is refused."""
    given = text.encode() if isinstance(text, str) else text
    if len(given) != TOKEN_LENGTH:
        raise DocumentError(
            f"an account token must have {TOKEN_LENGTH} characters, got {len(given)}"
        )
    try:
        data = urlsafe_b64decode(given + b"=" * (-len(given) % 4))
    except ValueError as error:
        raise DocumentError("an account token must be base64url") from error
    if _to_text(data).encode() != given:
        raise DocumentError("an account token must be base64url as it was issued")
    return data
