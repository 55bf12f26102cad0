"""A device of real files that go back to any earlier moment, beside a shuffler's real machine."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from croupier import wire
from croupier.plan import Plan
from croupier.service.device.http import BatchOffer, LaterRefusal, UnreachableError
from croupier.service.device.ledger import FILE
from croupier.service.device.store import STATE, DeviceFiles, OpenChoice, QueuedReport
from croupier.service.device.upload import Uploader
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages.sealing import NO_PUBLIC_KEY
from croupier.service.messages.unsealing import open_seal
from croupier.service.shuffler.acceptance import Upload
from croupier.service.shuffler.rows import BatchRow
from croupier.shuffler import Messages
from croupier.wire import Transport


class Answered(Enum):
    """How an upload is answered."""

    AS_IT_IS = "by its verdict"
    BUSY = "it is to come later"
    NOT = "it is taken, and the answer lost"


KEY = X25519PrivateKey.from_private_bytes(bytes(range(1, 33)))

Take = Callable[[Upload, int], Reason | None]
"""Hands in an upload, which counts that coordinate; the shuffler's verdict."""


class RolledBackDevice:
    """Each choice counts 1 in a coordinate of its own, so that a 2 is a choice that counts twice.

    Nothing is in memory between two calls, as if the device were killed after each.
    """

    def __init__(self, home: Path, plan: Plan, account: bytes, coordinates: range) -> None:
        self._home = home
        self._plan = plan
        self._account = account
        self._left = list(coordinates)
        self._past: list[tuple[bytes, int]] = []
        self.forgot_its_ledger = False

    def take_part(self, batch: BatchRow, take: Take, answered: Answered) -> None:
        """Choose if no choice is open, and try to report."""
        files = DeviceFiles(self._home, self._plan.id)
        try:
            self._remember(files)
            services = _Services(self._plan, batch, take, files, answered)
            uploader = self._uploader(files, services)
            with suppress(Refusal, UnreachableError):
                if files.state.queued is None:
                    self._queue(files, uploader)
                if files.state.queued is not None and uploader.send() is None:
                    uploader.send()
        finally:
            files.close()

    def go_back(self, chosen: int, with_ledger: bool) -> None:
        """To how its files were at some moment; the ledger with them, as by an old copy of all."""
        if not self._past:
            return
        state, length = self._past[chosen % len(self._past)]
        (self._home / STATE).write_bytes(state)
        ledger = self._home / FILE
        if with_ledger and ledger.exists() and ledger.stat().st_size > length:
            with ledger.open("r+b") as file:
                file.truncate(length)
            self.forgot_its_ledger = True

    def _remember(self, files: DeviceFiles) -> None:
        write = files.write_text

        def write_and_remember(name: str, text: str) -> None:
            write(name, text)
            ledger = self._home / FILE
            length = ledger.stat().st_size if ledger.exists() else 0
            self._past.append((text.encode(), length))

        files.write_text = write_and_remember  # type: ignore[method-assign]

    def _queue(self, files: DeviceFiles, uploader: Uploader) -> None:
        if not files.state.choices and self._left:
            coordinate = self._left.pop(0)
            choice = OpenChoice(f"choice {coordinate}", (float(coordinate),))
            files.write(files.state.with_choice(choice, 64))
        if not files.state.choices:
            return
        uploader.require_allowance()
        first = files.state.choices[0]
        queued = QueuedReport(first.feature, 1.0, first.ticket)
        files.write(replace(files.state.without_choice(first.ticket), queued=queued))

    def _uploader(self, files: DeviceFiles, services: _Services) -> Uploader:
        settings: Any = SimpleNamespace(transport=Transport.BITS)
        keys: Any = SimpleNamespace(require=lambda _, key: key)
        documents: Any = _Documents(self._plan, services.offer)
        shuffler: Any = services
        return Uploader(settings, self._account, files, shuffler, keys, documents)


class _Services:
    """The shuffler as a device's client sees it: what was opened in it is handed in at once."""

    def __init__(
        self, plan: Plan, batch: BatchRow, take: Take, files: DeviceFiles, answered: Answered
    ) -> None:
        self._plan, self._batch, self._take = plan, batch, take
        self._files, self._answered = files, answered
        key = KEY.public_key().public_bytes_raw()
        place = batch.index, batch.is_open, Transport.BITS, batch.model_hash
        self.offer = BatchOffer(*place, key, NO_PUBLIC_KEY, batch.attempt)

    def batch(self) -> BatchOffer:
        return self.offer

    def upload(self, record: bytes) -> None:
        if self._answered is Answered.BUSY:
            raise LaterRefusal(Reason.QUEUE_FULL, 1.0)
        (found,) = wire.decode_records(record, len(record) - wire.record_length(0))
        verdict = self._take(self._opened(found), self._coordinate)
        if self._answered is Answered.NOT:
            raise UnreachableError("lost")
        if verdict is not None:
            raise LaterRefusal(verdict, 1.0) if verdict.retry else Refusal(verdict)

    def _opened(self, found: wire.Record) -> Upload:
        binding = replace(
            self._batch.binding(Transport.BITS),
            batch=found.batch,
            model_version=found.batch,
            model_hash=found.model_hash,
        )
        payload = open_seal(found.sealed, KEY, binding.outer_prefix + found.report_id)
        assert payload is not None
        return Upload.of(self._plan.id, found, payload)

    @property
    def _coordinate(self) -> int:
        queued = self._files.state.queued
        assert queued is not None
        return int(queued.feature[0])


class _Documents:
    """The model of the newest batch; a contribution is 1 in the choice's coordinate."""

    def __init__(self, plan: Plan, offer: BatchOffer) -> None:
        self.plan = plan
        self.model = SimpleNamespace(version=offer.index, hash=offer.model_hash)
        self.client = self

    def adopt(self, model_hash: str) -> None:
        assert model_hash == self.model.hash

    def update(self, model: object, batch: int) -> None:
        pass

    def end_client(self) -> None:
        pass

    def report(self, feature: tuple[float, ...], _reward: float) -> Any:
        row = np.zeros((1, self.plan.layout.size))
        row[0, int(feature[0])] = 1.0
        messages: Messages = {"report": row}
        return SimpleNamespace(messages=messages)
