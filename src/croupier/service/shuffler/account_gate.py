"""Who may report for which account: what a request shows before its records are looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from croupier.errors import DocumentError
from croupier.service.http import guards
from croupier.service.http.media_types import ACCOUNT_TOKEN
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages.account_tokens import verify_token
from croupier.service.messages.signed_documents import Trusted
from croupier.wire import Record

HEADER = ACCOUNT_TOKEN.lower().encode()


@dataclass(frozen=True)
class AccountGate:
    """Checks account tokens for one plan; without ``issuers`` whoever is let in speaks for all."""

    plan_id: str
    issuers: Trusted | None = None

    def read_account(self, scope: Any) -> bytes | None:
        """The only account that a request may report for; None if it may for any."""
        if self.issuers is None:
            return None
        token = guards.header(scope, HEADER)
        if token is None:
            raise Refusal(Reason.ACCOUNT_TOKEN, f"send the header {ACCOUNT_TOKEN}")
        try:
            return verify_token(token, self.plan_id, self.issuers)
        except DocumentError as error:
            raise Refusal(Reason.ACCOUNT_TOKEN) from error


def require_account(records: Sequence[Record], account: bytes | None) -> None:
    """Refuse an upload as a whole that has a record of another account than its token's."""
    if account is not None and any(record.account != account for record in records):
        raise Refusal(Reason.ACCOUNT_TOKEN, "a record is of another account")
