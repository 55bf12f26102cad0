"""Names that both sides of a request use: what a body is, and where its signature stands."""

from __future__ import annotations

RECORDS_TYPE = "application/vnd.croupier.records"
BATCH_TYPE = "application/vnd.croupier.batch"
SHARE_TYPE = "application/vnd.croupier.share"
SIGNATURE = "Croupier-Signature"
ACCOUNT_TOKEN = "Croupier-Account-Token"  # noqa: S105 - a header's name
