"""What both roles can see of themselves."""

from __future__ import annotations

import time
from typing import Any

from croupier.service.http.metrics import ACCEPTED, Tally
from croupier.service.keys.keyring import Keyring

Snapshot = dict[str, Any]

NEWEST = 5
"""Rows of a table of batches or models."""


def list_keys(ring: Keyring) -> list[Snapshot]:
    """Uses and states of the keys, nothing of the keys themselves."""
    ring.refresh()
    now = time.time()
    return [
        {
            "use": key.use,
            "state": key.state,
            "expires_seconds": None if key.expires is None else max(key.expires - now, 0.0),
        }
        for key in ring.list()
    ]


def count_refused(tally: Tally) -> dict[str, int]:
    """What was refused since this process started, by reason."""
    return {code: count for code, count in tally.counts.items() if code != ACCEPTED}
