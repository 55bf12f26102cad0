"""The device: chooses with the published model and reports, over HTTP, in the user's interest.

Choosing and randomising are ``croupier.client``'s. The modules beside this one fetch and verify
(``verification``), keep what must survive (``ledger``, ``store``) and send (``upload``).
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Self

import httpx
import numpy as np
from numpy.typing import ArrayLike

from croupier import wire
from croupier.contribution import checked_features
from croupier.model import Model
from croupier.packing import sized
from croupier.plan import Plan
from croupier.service.device.announced_keys import AnnouncedKeys
from croupier.service.device.backoff import PATIENCE, Backoff, random_moment
from croupier.service.device.http import LaterRefusal, ShufflerClient, UnreachableError
from croupier.service.device.settings import DeviceSettings
from croupier.service.device.store import DeviceFiles, Fork, OpenChoice, QueuedReport
from croupier.service.device.upload import Uploader, UploadOutcome
from croupier.service.device.verification import VerifiedDocuments
from croupier.service.http.reasons import Reason, Refusal


@dataclass(frozen=True)
class Ticket:
    """The arm to play, and the name under which its reward is told later."""

    id: str
    arm: int


class Device:
    """One user's device. Its directory is its memory; ``account`` is 32 opaque bytes.

    Everything that is refused raises ``Refusal`` with a ``reason`` of the closed list; where a
    service is out of reach, ``choose`` and ``reward`` go on with what is on disk. ``account_token``
    is what the deployer's sign-in gave, where the shuffler wants it; it goes with reports and with
    nothing else. ``http`` may be shared between devices and is then left open; it keeps no cookies
    from then on. ``sleep`` waits before a report and between tries.
    """

    def __init__(
        self,
        settings: DeviceSettings,
        account: bytes,
        directory: str | Path,
        *,
        account_token: str | None = None,
        http: httpx.Client | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._settings = settings
        sized("account", account, wire.ACCOUNT)
        self._files = DeviceFiles(directory, settings.plan_id)
        self._own_http = http is None
        self._http = httpx.Client(follow_redirects=False) if http is None else http
        services = ShufflerClient(settings, self._http, account_token)
        announced = AnnouncedKeys(settings, services, self._files)
        self._documents = VerifiedDocuments(settings, services, self._files, announced)
        self._uploader = Uploader(
            settings, account, self._files, services, announced, self._documents
        )
        self._sleep = sleep

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the directory and the connections."""
        self._files.close()
        if self._own_http:
            self._http.close()

    # What is known

    @property
    def plan(self) -> Plan:
        """The plan that the app pinned, its guarantee computed again."""
        self._require_in()
        return self._documents.plan

    @property
    def model(self) -> Model:
        """The newest model that this device has taken, with which it chooses."""
        self._require_in()
        return self._documents.model

    @property
    def remaining(self) -> int:
        """Reports that the plan still allows this user."""
        self._require_in()
        return self._uploader.remaining

    @property
    def participations(self) -> list[int]:
        """Batches of this plan in which the user counts as having taken part."""
        return self._files.ledger.batches(self._settings.plan_id)

    @property
    def accepted(self) -> list[int]:
        """Those of which the shuffler said that it has the report."""
        return self._files.ledger.accepted(self._settings.plan_id)

    @property
    def waiting(self) -> bool:
        """Whether a report is queued."""
        return self._files.state.queued is not None

    @property
    def trouble(self) -> str:
        """Why the last report is still queued or was lost; empty where all is well."""
        return self._uploader.trouble

    @property
    def fork(self) -> Fork | None:
        """What the shuffler names now and what was seen before, if they are not in one chain.

        The device goes on choosing with what it has seen and reports nothing, until the shuffler
        names a model of that chain again or the app calls ``leave_fork``.
        """
        return self._files.state.fork

    @property
    def opted_out(self) -> bool:
        """Whether the user has left for good."""
        return self._files.ledger.opted_out

    # What the app calls

    def refresh(self) -> Model:
        """Fetch and verify the model that the shuffler names to everybody.

        A model that goes back or branches off is refused as a ``fork``.
        """
        self._require_in()
        return self._documents.refresh()

    def leave_fork(self) -> Model:
        """Go on with the model that the shuffler names now, by the app's decision.

        For when somebody has found out which chain is everybody's: after an attack on this device,
        or an operator's mistake. It is noted in the ledger. Without a fork this is ``refresh``.
        """
        self._require_in()
        return self._documents.leave_fork()

    def choose(self, features: ArrayLike, mask: ArrayLike | None = None) -> Ticket:
        """The arm for features ``(arms, dim)``, by the newest model seen; works offline.

        ``mask`` marks the arms that are available. The choice stays open until its reward comes.
        """
        self._require_in()
        client = self._documents.client
        client.update(self._documents.model)
        arm = int(client.choose(features, mask).arm)
        chosen = np.asarray(features, dtype=np.float64)[arm]
        choice = OpenChoice(secrets.token_hex(8), tuple(chosen.tolist()))
        self._files.write(self._files.state.with_choice(choice, self._settings.open_choices))
        return Ticket(choice.ticket, arm)

    def reward(self, ticket: Ticket | str, value: float) -> None:
        """Queue a report of an open choice. Refused while one is queued or none is left.

        A choice whose reward is refused stays open, so that the next batch may have it.
        """
        self._require_in()
        state = self._files.state
        choice = state.find(ticket if isinstance(ticket, str) else ticket.id)
        self._require_reportable(choice, value)
        if state.queued is not None:
            raise Refusal(Reason.DUPLICATE_USER, "a report is queued already")
        self._uploader.require_allowance()
        queued = QueuedReport(choice.feature, float(value), choice.ticket)
        self._files.write(replace(state.without_choice(choice.ticket), queued=queued))

    def flush(self, patience: float = PATIENCE) -> UploadOutcome:
        """Send the queued report, waiting no more than ``patience`` seconds between tries in all.

        Before that it waits once, up to ``report_delay`` seconds of the settings, whatever the
        patience: a report that left when its reward came would tell the shuffler that moment.
        ``ENDED`` where the plan has ended or the user's allowance is spent for good: what was
        queued is gone. What only the app can mend raises ``Refusal``, and the report stays queued.
        """
        self._require_in()
        backoff = Backoff(patience, self._sleep)
        if self.waiting and self._settings.report_delay:
            self._sleep(random_moment(self._settings.report_delay))
        while self._files.state.queued is not None:
            try:
                outcome = self._uploader.send()
                if outcome is not None:
                    return outcome
                more = backoff.retry()
            except LaterRefusal as later:
                self._uploader.trouble = later.reason.code
                more = backoff.wait_at_least(later.seconds)
            except UnreachableError as error:
                self._uploader.trouble = str(error)
                more = backoff.wait_longer()
            if not more:
                return UploadOutcome.WAITING
        return UploadOutcome.NOTHING

    def opt_out(self) -> None:
        """Leave at once and for good: what is queued is deleted, nothing is sent any more."""
        self._files.ledger.opt_out()
        self._files.forget()
        self._documents.forget()

    def _require_reportable(self, choice: OpenChoice, value: float) -> None:
        """What the client would refuse is refused while the choice is still open."""
        layout = self.plan.layout
        checked_features(layout, choice.feature, "feature")
        layout.unit_reward(value)

    def _require_in(self) -> None:
        if self.opted_out:
            raise Refusal(Reason.OPTED_OUT)
