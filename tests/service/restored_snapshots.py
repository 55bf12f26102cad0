"""Databases that are set back to what they were, on SQLite and PostgreSQL alike."""

from __future__ import annotations

from typing import Any

from croupier.service.storage.database import Database, Row

SHUFFLER = (
    "plans", "batches", "reports", "participations", "held", "ledger", "drops", "present", "masks",
)  # fmt: skip
ANALYZER = ("plans", "models", "batches", "ledger", "drops")

Snapshot = dict[str, list[Row]]


def snapshot(database: Database, tables: tuple[str, ...] = SHUFFLER) -> Snapshot:
    """Every row as it is now."""
    with database.reading() as transaction:
        return {table: transaction.all(f"SELECT * FROM {table}") for table in tables}


def restore(database: Database, kept: Snapshot) -> None:
    """Every row as it was then."""
    with database.transaction() as transaction:
        for table in reversed(kept):
            transaction.execute(f"DELETE FROM {table}")
        for table, rows in kept.items():
            _insert(transaction, table, rows)


def _insert(transaction: Any, table: str, rows: list[Row]) -> None:
    marks = ", ".join("?" * len(rows[0])) if rows else ""
    transaction.many(f"INSERT INTO {table} VALUES ({marks})", rows)
