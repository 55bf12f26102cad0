"""Snapshots with numbers as large and names as long as they get."""

from __future__ import annotations

from typing import Any

Snapshot = dict[str, Any]

KEYS = [
    {"use": "seal", "state": "expired", "expires_seconds": 3 * 86400.0},
    {"use": "sign", "state": "expired", "expires_seconds": 3 * 86400.0},
    {"use": "seal", "state": "active", "expires_seconds": None},
    {"use": "sign", "state": "active", "expires_seconds": None},
]


def shuffler(**changes: object) -> Snapshot:
    size, filled = 10_000, 6_180
    older = [
        {"batch": batch, "state": "scrubbed", "filled": size, "size": size, "model_version": batch}
        for batch in (10, 9, 8, 7)
    ]
    newest = {"batch": 11, "state": "open", "filled": filled, "size": size, "model_version": 11}
    return {
        "role": "shuffler", "plan": "8f8c7356def6d0a53e63dcff1a059507", "transport": "bits",
        "short_policy": "pad", "participation_limit": 2, "batches_total": 34, "draining": False,
        "trouble": "", "oldest_seconds": 1500.0, "accepted": 1_116_180, "keys": KEYS,
        "refused": {"stale-batch": 1207, "batch-closed": 311, "duplicate-user": 8, "malformed": 1},
        "begun": True, "ended": False, "released": 11, **newest, "padded": 0, "dropped": 0,
        "newest_batches": [newest, *older],
        "why": f"Batch 11 is open and has {filled} of {size} reports. It is released when it is "
        f"complete, never short: {size - filled} are missing.",
    } | changes  # fmt: skip


def analyzer(**changes: object) -> Snapshot:
    means = (0.498, 0.531, 0.577, 0.602, 0.634, 0.641, 0.668, 0.679, 0.684, 0.701, 0.709)
    hashes = [f"{version * 2654435761 % 2**48:012x}" * 5 for version in range(12)]
    return {
        "role": "analyzer", "plan": "8f8c7356def6d0a53e63dcff1a059507", "transport": "bits",
        "participation_limit": 2, "batches_total": 34, "draining": False, "refused": {},
        "keys": KEYS, "epsilon": 0.99812, "epsilon_asked": 1.0, "epsilon_batch": 0.68114,
        "delta": 1e-6, "method": "certificate for shuffled bits", "learnt": 11, "repairs": 3,
        "clipped": 0, "model_version": 11, "model_hash": hashes[11], "model_seconds": 1560.0,
        "model_seen_new": True, "publications": 12, "entries": 11, "reports": 110_000,
        "ledger_head": hashes[3],
        "newest_models": [{"model_version": one, "model_hash": hashes[one]} for one in (11, 10, 9)],
        "newest_batches": [
            {"batch": one, "size": 10_000, "model_version": one + 1} for one in (10, 9, 8, 7, 6)
        ],
        "rewards": [{"batch": batch, "mean": mean} for batch, mean in enumerate(means)],
    } | changes  # fmt: skip
