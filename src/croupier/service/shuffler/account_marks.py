"""Marks that stand for an account in the database, which never has the account itself."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

from cryptography.hazmat.primitives.hashes import SHA256
from cryptography.hazmat.primitives.hmac import HMAC

Marker = Callable[[bytes], bytes]

MARK = 32


class AccountMarks(NamedTuple):
    """What stands for an account: one mark that ends with the batch, one with the plan."""

    user: bytes
    account: bytes


def mark_accounts(
    plan_key: bytes, user: Marker, accounts: Sequence[bytes]
) -> dict[bytes, AccountMarks]:
    """Every account's HMACs under the keys of batch and plan."""
    account = make_marker(plan_key)
    return {one: AccountMarks(user(one), account(one)) for one in accounts}


def make_marker(key: bytes) -> Marker:
    """HMAC-SHA256 under one key, which is set up once: that is most of what a short one costs."""
    keyed = HMAC(key, SHA256())

    def mark(account: bytes) -> bytes:
        made = keyed.copy()
        made.update(account)
        return made.finalize()

    return mark
