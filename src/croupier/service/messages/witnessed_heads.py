"""What a witness signs: the model and the end of the ledger that it has seen both services show."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from croupier.errors import DocumentError
from croupier.packing import raw
from croupier.service.messages.signed_documents import (
    Signer,
    Trusted,
    sign_document,
    verify_document,
)
from croupier.wire import MODEL_HASH, PLAN_ID

HEAD = "head"
MOST = 2**53


@dataclass(frozen=True)
class WitnessedHead:
    """The newest model of a plan, and the ledger's last entry with the number of all of them.

    ``ledger`` is empty while there are no ``entries``.
    """

    plan: str
    version: int
    model: str
    entries: int
    ledger: str

    @property
    def content(self) -> dict[str, Any]:
        """Plain values, for a document."""
        return asdict(self)

    def sign(self, signer: Signer) -> str:
        """The published document."""
        return sign_document(HEAD, self.content, [signer])

    @classmethod
    def verify(cls, text: str | bytes, trusted: Trusted) -> WitnessedHead:
        """The head of a document that a trusted witness has signed."""
        return cls.from_content(verify_document(HEAD, text, trusted))

    @classmethod
    def from_content(cls, content: Mapping[str, Any]) -> WitnessedHead:
        """Read a head; every field is held to its type and range."""
        try:
            made = cls(**content)
            raw("plan", made.plan, PLAN_ID)
            raw("model", made.model, MODEL_HASH)
            if made.ledger or made.entries:
                raw("ledger", made.ledger, MODEL_HASH)
            for name in ("version", "entries"):
                _require_count(name, content[name])
        except (TypeError, ValueError) as error:
            raise DocumentError(f"not a witness's head: {error}") from error
        return made


def _require_count(name: str, found: object) -> None:
    if type(found) is not int or not 0 <= found < MOST:
        raise ValueError(f"{name} must be a whole number from 0, got {found!r}")
