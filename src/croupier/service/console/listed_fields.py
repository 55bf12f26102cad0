"""The list of everything that a page may know: public facts on plans, batches, models and keys.

What is not listed is dropped, so that nothing about users gets out, whoever asks for it later.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from croupier.service.http.metrics import ACCEPTED, INTERNAL
from croupier.service.http.reasons import Reason

LONGEST = 300

FIELDS = frozenset({
    "role", "plan", "transport", "draining", "rolled_back", "trouble", "begun", "ended",
    "batches_total",
    "batch", "state", "size", "filled", "padded", "dropped", "why", "oldest_seconds",
    "released", "short_policy", "participation_limit", "accepted", "refused", "newest_batches",
    "keys", "use", "expires_seconds",
    "model_version", "model_hash", "model_seconds", "model_seen_new", "learnt", "repairs",
    "clipped", "reports", "entries", "ledger_head", "epsilon", "epsilon_asked", "epsilon_batch",
    "delta", "method", "publications", "newest_models", "rewards", "mean",
    "quarantined", "standing",
})  # fmt: skip

OUTCOMES = frozenset({ACCEPTED, INTERNAL, *(reason.code for reason in Reason)})


def keep_listed(snapshot: Mapping[str, Any]) -> dict[str, Any]:
    """The listed fields, with plain values; tables row by row."""
    return {
        name: _cleaned(value)
        for name, value in snapshot.items()
        if name in FIELDS and _allowed(name, value)
    }


def _allowed(name: str, value: Any) -> bool:
    if isinstance(value, Mapping):
        return name == "refused"
    if isinstance(value, list):
        return all(isinstance(row, Mapping) for row in value)
    if isinstance(value, str):
        return len(value) <= LONGEST
    return value is None or isinstance(value, bool | int | float)


def _cleaned(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {code: int(count) for code, count in value.items() if code in OUTCOMES}
    return [keep_listed(row) for row in value] if isinstance(value, list) else value
