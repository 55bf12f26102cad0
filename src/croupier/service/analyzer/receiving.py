"""Released batches on their way in at the analyzer: verified, opened, learnt from."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable
from functools import lru_cache
from typing import Any, TypeVar

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from croupier import wire
from croupier.errors import SignatureError, WireError
from croupier.service.analyzer.parts import AnalyzerParts
from croupier.service.analyzer.rows import PublishedModel
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.keys.peer_keys import PeerKeys
from croupier.service.messages import shares, signed_documents
from croupier.service.messages.sealing import Binding, open_rows
from croupier.service.messages.signed_documents import signed_share
from croupier.service.messages.transports import BitsTransport
from croupier.shuffler import Batch, Messages, Shapes
from croupier.wire import BatchHeader, Transport

Answer = dict[str, Any]
Content = TypeVar("Content")


class BatchReceiver:
    """Takes the batches of one plan. Nothing of a batch is read before its signature fits."""

    def __init__(self, parts: AnalyzerParts, trust: PeerKeys) -> None:
        self._plan = parts.plan
        self._transport = parts.transport
        self._store = parts.store
        self._keyring = parts.keyring
        self._trust = trust
        self.length = lru_cache(8)(parts.transport.released_length)

    def most_bytes(self) -> int:
        """Bytes of the longest batch that may come: the next one, or the last one again."""
        following = self._store.newest_model(self._plan.id).next_batch
        last = self._plan.schedule.batches - 1
        newest = last if following is None else following
        return max(self.length(newest), self.length(max(0, newest - 1)))

    def take(self, body: bytes, signature: str) -> Answer:
        """Learn from a batch, or say which of its shares opened."""
        self._verify(body, signature)
        digest = hashlib.sha256(body).digest()
        if isinstance(self._transport, BitsTransport) and self._transport.counts:
            return self._take_counts(body, digest)
        header, messages = self._decode(body, wire.decode_batch)
        if header.transport is Transport.SHARES:
            return self._decide_opened(header, messages, digest)
        rows = messages if header.transport is Transport.BITS else self._open_rows(header, messages)
        batch = Batch(header.plan_id, header.batch, rows)
        return learnt_answer(header.batch, self._store.receive(batch, header.model_hash, digest))

    def _take_counts(self, body: bytes, digest: bytes) -> Answer:
        """Learn from the ones of every channel that closes."""
        header, counts = self._decode(body, wire.decode_counts)
        place = (header.plan_id, header.batch, header.model_hash)
        return learnt_answer(header.batch, self._store.receive_counts(counts, *place, digest))

    def share(self, index: int, share: bytes, signature: str) -> Answer:
        """Learn from the two halves of a batch."""
        self._verify(signed_share(self._plan.id, index, share), signature)
        try:
            return learnt_answer(index, self._store.settle(self._plan.id, index, share))
        except WireError as error:
            raise Refusal(Reason.of(error.reason), str(error)) from error

    def _verify(self, data: bytes, signature: str) -> None:
        try:
            signed_documents.verify_batch(data, signature, self._trust.keys)
        except SignatureError as error:
            raise Refusal(Reason.BAD_SIGNATURE) from error

    def _decode(
        self, body: bytes, decode: Callable[[Shapes, bytes], tuple[BatchHeader, Content]]
    ) -> tuple[BatchHeader, Content]:
        """The batch, if it is one of this plan by this transport."""
        try:
            header = wire.decode_batch_header(body)
            self._require_agreed(header)
            return decode(self._transport.released_shapes(header.batch), body)
        except WireError as error:
            raise Refusal(Reason.of(error.reason), str(error)) from error

    def _require_agreed(self, header: BatchHeader) -> None:
        if header.plan_id != self._plan.id:
            raise Refusal(Reason.WRONG_PLAN)
        if header.transport is not self._transport.kind:
            raise Refusal(Reason.MALFORMED, f"batches travel as {self._transport.kind.name}")
        if header.batch >= self._plan.schedule.batches:
            raise Refusal(Reason.PLAN_ENDED)
        if header.users != self._plan.users(header.batch):
            raise Refusal(Reason.WRONG_LENGTH, f"a batch of {header.users} users came")

    def _open_rows(self, header: BatchHeader, messages: Messages) -> Messages:
        """The rows behind seals; one that does not open counts as zeros."""
        key, binding = self._find_inner_key(header)
        plain = wire.batch_shapes(self._plan.shapes(header.batch), header.users)
        rows, _ = open_rows(plain, messages, key, binding)
        return rows

    def _decide_opened(self, header: BatchHeader, messages: Messages, digest: bytes) -> Answer:
        """Which shares opened, decided once for a batch."""
        key, binding = self._find_inner_key(header)
        flags, total = shares.open_shares(messages[shares.SHARE], key, binding)
        decided = self._store.decide(
            header.plan_id,
            header.batch,
            header.model_hash,
            digest,
            wire.encode_flags(flags),
            total,
        )
        return {"batch": header.batch, "opened": base64.b64encode(decided).decode()}

    def _find_inner_key(self, header: BatchHeader) -> tuple[X25519PrivateKey, Binding]:
        """The key of a batch's inner seals, and what they are bound to."""
        self._keyring.refresh()
        key = self._keyring.opener(header.key_id)
        if key is None:
            raise Refusal(Reason.UNKNOWN_KEY, f"key {header.key_id.hex()}")
        version = self._read_version(header.model_hash)
        public = key.public_key().public_bytes_raw()
        place = (header.plan_id, header.batch, version, header.model_hash)
        return key, Binding(header.transport, *place, public)

    def _read_version(self, model_hash: str) -> int:
        """Of the model that a batch's reports were made with."""
        try:
            document = json.loads(self._store.document(model_hash))
        except Refusal as error:
            raise Refusal(Reason.STALE_MODEL, f"no model {model_hash} was published") from error
        return int(document["content"]["model"]["version"])


def learnt_answer(batch: int, published: PublishedModel) -> Answer:
    """What the shuffler needs to open the next batch."""
    return {
        "batch": batch,
        "model_version": published.model.version,
        "model_hash": published.model.hash,
        "next_batch": published.next_batch,
    }
