"""What shuffler and analyzer agree on when a batch is handed on."""

from __future__ import annotations

from croupier.packing import fits, raw
from croupier.wire import PLAN_ID

SIGNATURE = "Croupier-Signature"
BATCH_TYPE = "application/vnd.croupier.batch"
SHARE_TYPE = "application/vnd.croupier.share"


def signed_share(plan_id: str, batch: int, share: bytes) -> bytes:
    """What the signature on a sum of shares is over: it is good for one batch of one plan."""
    bound = raw("plan_id", plan_id, PLAN_ID) + fits("batch", batch).to_bytes(4, "little")
    return b"share" + bound + share
