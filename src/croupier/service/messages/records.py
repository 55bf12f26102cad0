"""A device's randomised messages as the record that is uploaded, by any of the transports."""

from __future__ import annotations

import secrets
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PublicKey

from croupier import wire
from croupier.plan import Plan
from croupier.service.messages import sealing, shares
from croupier.service.messages.released_counts import additive_release
from croupier.service.messages.sealing import Binding
from croupier.service.messages.signed_documents import key_id
from croupier.shuffler import Messages, shapes_of
from croupier.wire import Transport


@dataclass(frozen=True)
class Address:
    """Whom a record is for and from: what it is bound to, the shuffler's key, the account."""

    binding: Binding
    key: bytes
    account: bytes


def make_record(plan: Plan, messages: Messages, address: Address) -> bytes:
    """The bytes to upload, under a fresh report id."""
    binding, report_id = address.binding, secrets.token_bytes(wire.REPORT_ID)
    key = X25519PublicKey.from_public_bytes(address.key)
    sealed = sealing.seal_report(make_payload(plan, messages, binding), key, binding, report_id)
    record = wire.Record(
        binding.transport,
        key_id(address.key),
        binding.batch,
        binding.model_hash,
        report_id,
        address.account,
        sealed,
    )
    return wire.encode_records([record])


def make_payload(plan: Plan, messages: Messages, binding: Binding) -> bytes:
    """What the shuffler holds of a report."""
    if binding.transport is Transport.BITS:
        return _encode_messages(messages)
    key = X25519PublicKey.from_public_bytes(binding.inner_key)
    if binding.transport is Transport.SEALED:
        return _encode_messages(sealing.seal_rows(shapes_of(messages), messages, key, binding))
    tally = additive_release(plan, binding.batch).tally(messages)
    return _encode_messages(shares.share_report(tally, key, binding))


def _encode_messages(messages: Messages) -> bytes:
    return wire.encode_report(shapes_of(messages), messages)
