"""The table ``[accounts]``: who may report to a shuffler, which has to be said."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from pathlib import Path


class AccountPolicy(Enum):
    """By whose word an upload is of an account: the issuer's, a gateway's, or anybody's."""

    SIGNED = "signed"
    GATEWAY = "gateway"
    ANYONE = "anyone"


OPEN_TO_ALL = "anybody can fill a batch and read the one honest report in it; for tests only"
"""What the policy ``anyone`` comes to."""

POLICIES = (
    'accounts.policy must be said: "signed" (every upload shows a token of your issuer for its '
    'account), "gateway" (only your gateway may upload, and writes the accounts) or "anyone" '
    f"({OPEN_TO_ALL})"
)


@dataclass(frozen=True)
class AccountSettings:
    """Who may report. ``issuer_key`` is the issuer's raw public key in hex.

    ``issuer_key_file`` has one or, around a rotation, more of them, one to a line.
    ``new_per_batch`` is how many accounts a batch may take that the plan has never counted,
    its very first one excepted.
    """

    policy: AccountPolicy
    issuer_key: str | None = None
    issuer_key_file: Path | None = None
    new_per_batch: int | None = None

    def __post_init__(self) -> None:
        """An issuer is known exactly where tokens are checked."""
        told = [key for key in (self.issuer_key, self.issuer_key_file) if key is not None]
        if self.policy is AccountPolicy.SIGNED and len(told) != 1:
            raise ValueError("accounts needs one of issuer_key and issuer_key_file")
        if self.policy is not AccountPolicy.SIGNED and told:
            raise ValueError(
                f"accounts.issuer_key is for the policy signed, got {self.policy.value!r}"
            )
        if self.new_per_batch is not None and self.new_per_batch < 1:
            raise ValueError(f"accounts.new_per_batch must be at least 1, got {self.new_per_batch}")
