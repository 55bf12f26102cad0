"""Models whose signature was checked: they stay believed when the key that signed them retires."""

from __future__ import annotations

from collections import OrderedDict

from croupier.service.messages.signed_documents import SignedModel, Trusted, verify_model

MOST = 8
"""The newest model and a few before it; larger ones take megabytes."""


class VerifiedModels:
    """The last few documents, byte for byte.

    A key that is retired signs nothing new, but the model of the open batch may be one of its
    last, and the next model comes only after that batch.
    """

    def __init__(self, most: int = MOST) -> None:
        self._most = most
        self._found: OrderedDict[bytes, SignedModel] = OrderedDict()

    def verify(self, text: bytes, trusted: Trusted) -> SignedModel:
        """The model of a document that a trusted key has signed, or had when we first saw it."""
        found = self._found.get(text) or verify_model(text, trusted)
        self._found[text] = found
        self._found.move_to_end(text)
        if len(self._found) > self._most:
            self._found.popitem(last=False)
        return found
