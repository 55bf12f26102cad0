"""The first batch of a plan of shares, on its way through both stores."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from croupier import wire
from croupier.service.messages import shares
from croupier.service.messages.transports import SharesTransport
from croupier.service.shuffler.rows import Basis, ReleasedBatch
from croupier.service.storage.database import Database

from .beside_the_keys import analyzer_store, shuffler_store
from .packed_reports import KEY, PUBLIC, USERS, packed, plan_of, reports, upload

Databases = Callable[[str], Database]


class Sharing:
    """Both sides of it, attempt after attempt."""

    def __init__(self, databases: Databases, protocol: str = "vector-sum", **changes: Any) -> None:
        budget = changes.pop("budget", None)
        planned = plan_of(protocol, **changes)
        self.plan = replace(planned, budget=budget) if budget else planned
        self.way = SharesTransport(self.plan)
        self.database = databases("shuffler")
        self.store = shuffler_store(self.database, transport=SharesTransport)
        self.analyzer = analyzer_store(databases("analyzer"))
        self.first = self.analyzer.open_plan(self.plan).model
        self.store.open_plan(self.plan, Basis(0, self.first.hash, PUBLIC))
        self.made = reports(self.plan, 0)

    def released(self, spoilt: int = 0) -> ReleasedBatch:
        """A full batch, of which some reports do not open."""
        state = self.store.current(self.plan.id)
        payloads = [packed(self.way, state, report.messages) for report in self.made]
        payloads[:spoilt] = [one[:-1] + bytes([one[-1] ^ 1]) for one in payloads[:spoilt]]
        sent = [upload(self.way, state, user, one) for user, one in enumerate(payloads)]
        assert self.store.take(sent) == [None] * USERS
        assert self.store.seal(self.plan.id)
        found = self.store.release(self.plan.id)
        assert found is not None
        return found

    def decided(self, found: ReleasedBatch) -> bytes:
        """The analyzer's flags."""
        state = self.store.current(self.plan.id)
        header, messages = wire.decode_batch(self.way.released_shapes(0), found.body)
        flags, tally = shares.open_shares(messages[shares.SHARE], KEY, state.binding(self.way.kind))
        digest = hashlib.sha256(found.body).digest()
        place = (self.plan.id, 0, header.model_hash)
        return self.analyzer.decide(*place, digest, wire.encode_flags(flags), tally)

    def expected(self) -> np.ndarray:
        """The sum of all reports."""
        release = self.plan.release(0)
        tally = sum(release.tally(one.messages) for one in self.made)  # type: ignore[attr-defined]
        return np.asarray(release.settle(tally, USERS))  # type: ignore[attr-defined]
