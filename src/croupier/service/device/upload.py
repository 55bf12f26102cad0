"""Sending a device's report: counted before it leaves, drawn once for a batch, never twice in.

A report that may have arrived without an answer is never made again: the shuffler tells equal
bytes apart from others only while it still has them.
"""

from __future__ import annotations

from dataclasses import replace
from enum import Enum

from croupier import wire
from croupier.plan import Plan
from croupier.service.device.announced_keys import AnnouncedKeys
from croupier.service.device.http import WAIT, BatchOffer, LaterRefusal, ShufflerClient
from croupier.service.device.settings import DeviceSettings
from croupier.service.device.store import DeviceFiles, PreparedReport
from croupier.service.device.verification import VerifiedDocuments
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages.records import Address, make_record
from croupier.service.messages.sealing import NO_PUBLIC_KEY, Binding
from croupier.shuffler import Messages, shapes_of
from croupier.wire import Transport

AGAIN = {
    Reason.STALE_BATCH,
    Reason.STALE_MODEL,
    Reason.ID_CONFLICT,
    Reason.UNKNOWN_KEY,
    Reason.UNDECRYPTABLE,
}
"""These bytes were not taken. Others may be: for the same batch the same report, sealed again."""

OVER = {Reason.PARTICIPATION_LIMIT, Reason.PLAN_ENDED}
"""Nothing that is queued can be sent any more."""


class UploadOutcome(Enum):
    """What became of the queued report."""

    NOTHING = "nothing was queued"
    ACCEPTED = "the shuffler has it, durably"
    WAITING = "it stays queued; flush again later"
    LOST = "nobody knows whether it was counted; it counts as spent and is not sent again"
    ENDED = "the plan has ended or the allowance is spent; nothing is reported any more"


class Uploader:
    """Takes the queued report of one device to the shuffler, a try at a time."""

    def __init__(
        self,
        settings: DeviceSettings,
        account: bytes,
        files: DeviceFiles,
        services: ShufflerClient,
        announced: AnnouncedKeys,
        documents: VerifiedDocuments,
    ) -> None:
        self._settings = settings
        self._account = account
        self._files = files
        self._services = services
        self._keys = announced
        self._documents = documents
        self.trouble = ""

    @property
    def _plan(self) -> Plan:
        return self._documents.plan

    @property
    def remaining(self) -> int:
        """Reports that the plan still allows."""
        return self._files.ledger.remaining(self._plan.id, self._plan.participations)

    def require_allowance(self, batch: int | None = None) -> None:
        """Refuse where no report is left for a batch, or for any that may be open."""
        newest = self._files.state.batch if batch is None else batch
        # Shares only: the newest batch may have been begun again, and then it is not spent.
        again = newest if self._settings.transport is Transport.SHARES else None
        allowed = self._plan.participations
        if self._files.ledger.remaining(self._plan.id, allowed, again) == 0:
            raise Refusal(Reason.PARTICIPATION_LIMIT, f"the plan allows {allowed}")

    def send(self) -> UploadOutcome | None:
        """Try once; None if it is worth another try."""
        try:
            return self._try_upload()
        except Refusal as refusal:
            if refusal.reason not in OVER:
                raise
            self.trouble = refusal.reason.code
            self._files.write(self._files.state.done())
            return UploadOutcome.ENDED

    def _try_upload(self) -> UploadOutcome | None:
        prepared = self._prepare()
        if prepared is None:
            return UploadOutcome.WAITING
        self._keep_prepared(prepared)
        place, ticket, ledger = (self._plan.id, prepared.batch), self._ticket, self._files.ledger
        uncertain = ledger.was_sent(ticket)
        ledger.spend(*place, prepared.attempt, ticket=ticket, record=prepared.record)
        try:
            self._services.upload(prepared.record)
        except LaterRefusal:
            if not uncertain:
                ledger.take_back(*place, ticket)
            raise
        except Refusal as refusal:
            self.trouble = refusal.reason.code
            return self._handle_refusal(prepared, refusal, uncertain)
        ledger.accept(*place, ticket)
        self._files.write(self._files.state.done())
        self.trouble = ""
        return UploadOutcome.ACCEPTED

    # Refusals

    def _handle_refusal(
        self, prepared: PreparedReport, refusal: Refusal, uncertain: bool
    ) -> UploadOutcome | None:
        """These bytes are not in; the same bytes sent before may be, if that is uncertain."""
        reason = refusal.reason
        if reason is Reason.DUPLICATE_USER:
            # Another device of this account is in the batch, so that it is rightly spent.
            self._files.ledger.take_back(self._plan.id, prepared.batch, self._ticket)
            self._keep_prepared(None)
            return UploadOutcome.WAITING
        if reason is Reason.PARTICIPATION_LIMIT:
            self._files.ledger.exhaust(self._plan.id)
            raise refusal
        if reason in AGAIN:
            return self._seal_again(prepared, uncertain)
        if not uncertain:
            self._give_up(prepared)
        raise refusal

    def _seal_again(self, prepared: PreparedReport, uncertain: bool) -> UploadOutcome | None:
        """What was drawn is sealed again, unless its first bytes may be in after all."""
        if uncertain:
            self._files.write(self._files.state.done())
            return UploadOutcome.LOST
        self._files.ledger.take_back(self._plan.id, prepared.batch, self._ticket)
        self._keep_prepared(replace(prepared, record=b""))
        return None

    def _give_up(self, prepared: PreparedReport) -> None:
        """The report for this batch is in nobody's hands."""
        self._files.ledger.refund(self._plan.id, prepared.batch, self._ticket)
        self._keep_prepared(None)

    @property
    def _ticket(self) -> str:
        """Of the choice whose report is queued."""
        queued = self._files.state.queued
        return "" if queued is None else queued.ticket

    def _keep_prepared(self, prepared: PreparedReport | None) -> None:
        self._files.write(replace(self._files.state, prepared=prepared))

    # Preparing

    def _prepare(self) -> PreparedReport | None:
        """The report as it was made before, or one for the open batch; None if that has ours."""
        kept = self._files.state.prepared
        if kept is not None and kept.record:
            return kept
        offer = self._require_offer()
        if kept is not None and kept.batch == offer.index:
            drawn = wire.decode_report(self._plan.shapes(kept.batch), kept.messages)
            return self._package(offer, drawn)
        if kept is not None:
            self._give_up(kept)
        if self._has_reported(offer):
            self.trouble = Reason.DUPLICATE_USER.code
            return None
        return self._package(offer, self._randomize(offer))

    def _has_reported(self, offer: BatchOffer) -> bool:
        """Whether the open batch has a report of ours.

        Shares that were dropped are gone unread, so that another attempt may have a new report.
        """
        again = self._settings.transport is Transport.SHARES
        attempt = offer.attempt if again else 0
        return self._files.ledger.has(self._plan.id, offer.index, attempt)

    def _randomize(self, offer: BatchOffer) -> Messages:
        self.require_allowance(offer.index)
        queued = self._files.state.queued
        if queued is None:
            raise ValueError("queued must be a report, got None")
        client = self._documents.client
        try:
            client.update(self._documents.model, offer.index)
            return client.report(queued.feature, queued.reward).messages
        finally:
            self._documents.end_client()

    def _package(self, offer: BatchOffer, messages: Messages) -> PreparedReport:
        model = self._documents.model
        place = (self._plan.id, offer.index, model.version, model.hash)
        binding = Binding(self._settings.transport, *place, self._inner_key(offer))
        key = self._keys.require("shuffler", offer.key)
        record = make_record(self._plan, messages, Address(binding, key, self._account))
        drawn = wire.encode_report(shapes_of(messages), messages)
        return PreparedReport(offer.index, model.hash, drawn, record, offer.attempt)

    def _inner_key(self, offer: BatchOffer) -> bytes:
        if self._settings.transport is Transport.BITS:
            return NO_PUBLIC_KEY
        return self._keys.require("analyzer", offer.inner_key)

    # The open batch

    def _require_offer(self) -> BatchOffer:
        """The open batch, once we have the model that reports for it are made with."""
        offer = self._services.batch()
        self._require_agreed(offer)
        if not offer.is_open:
            raise LaterRefusal(Reason.BATCH_CLOSED, WAIT)
        self._documents.adopt(offer.model_hash)
        self._require_order(offer)
        return offer

    def _require_agreed(self, offer: BatchOffer) -> None:
        """Nothing that the shuffler says may change what was agreed on."""
        if offer.transport is not self._settings.transport:
            raise Refusal(Reason.MALFORMED, f"reports are to travel as {offer.transport.name}")
        if not 0 <= offer.index < self._plan.schedule.batches:
            raise Refusal(Reason.PLAN_ENDED, f"batch {offer.index}")
        if offer.index < self._files.state.batch:
            raise Refusal(Reason.ROLLBACK, f"batch {offer.index} after {self._files.state.batch}")

    def _require_order(self, offer: BatchOffer) -> None:
        """A batch has the model of its time, since its noise is that of its index."""
        version = self._documents.model.version
        later = self._plan.publication.name != "every" and offer.index > version
        if offer.index != version and not later:
            raise Refusal(Reason.STALE_MODEL, f"model {version} for batch {offer.index}")
        if offer.index > self._files.state.batch:
            self._files.write(replace(self._files.state, batch=offer.index))
