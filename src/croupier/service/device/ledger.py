"""A device's own ledger: in which batches it took part, appended to and never rewritten.

A participation is on disk before the report's bytes leave the device. Lines that come later can
only be lost, never harm an earlier one, and what is lost makes the device more careful. Each names
the choice that was reported and the bytes, so that other files which a power loss or a copy took
back to before the report cannot have it made twice.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from croupier.errors import CroupierError
from croupier.protocols.base import most_draws
from croupier.service.storage.disk import flush_directory

FILE = "ledger.jsonl"

SPENT, ACCEPTED, REFUSED = "spent", "accepted", "refused"
SENT, NOT_IN = "sent", "not-in"
EXHAUSTED, OPTED_OUT = "exhausted", "opted-out"
FORK_LEFT = "fork-left"

ABOUT = ("ticket", "record", "model")
"""Which choice a line is about, the SHA-256 of the bytes that were sent, the model gone on with."""


class StateError(CroupierError):
    """What a device has on disk is damaged, or in use by another process."""


class ParticipationLedger:
    """The lines of one device, over the life of a plan and of those that succeed it."""

    def __init__(self, directory: Path) -> None:
        self._path = directory / FILE
        self._spent: dict[tuple[str, int], bool] = {}
        self._attempts: dict[tuple[str, int], int] = {}
        self._draws = 0
        self._sent: dict[str, str | None] = {}
        self._exhausted: set[str] = set()
        self.opted_out = False
        for line in self._read_lines():
            self._apply(line)

    def spent(self) -> int:
        """Participations that count, of every plan: a successor takes over what was spent."""
        return len(self._spent)

    def batches(self, plan_id: str) -> list[int]:
        """Batches of a plan in which this device counts as having taken part."""
        return sorted(batch for plan, batch in self._spent if plan == plan_id)

    def accepted(self, plan_id: str) -> list[int]:
        """Those of which the shuffler said that the report is in."""
        return [batch for batch in self.batches(plan_id) if self._spent[plan_id, batch]]

    def has(self, plan_id: str, batch: int, attempt: int = 0) -> bool:
        """Whether this device took part in the batch, in that attempt at it or a later one."""
        place = (plan_id, batch)
        return place in self._spent and self._attempts[place] >= attempt

    def remaining(self, plan_id: str, allowed: int, batch: int | None = None) -> int:
        """Reports that are left to a plan of so many participations.

        Reports that were refused do not count, but draws do: however a shuffler answers, it gets
        no more than the draws that the plan's local guarantee counts. All attempts at a batch are
        one participation, so that ``batch`` is not counted if the question is about it.
        """
        if plan_id in self._exhausted:
            return 0
        draws = most_draws(allowed) - self._draws
        others = self.spent() - ((plan_id, batch) in self._spent)
        return max(0, min(allowed - others, draws))

    def was_sent(self, ticket: str) -> bool:
        """Whether a report of that choice is in, or may be."""
        return ticket in self._sent

    def may_repeat(self, ticket: str, record: bytes) -> bool:
        """Whether these are the bytes that were last sent for the choice, and unanswered so far."""
        return bool(record) and self._sent.get(ticket) == _digest(record)

    def spend(
        self, plan_id: str, batch: int, attempt: int = 0, *, ticket: str = "", record: bytes = b""
    ) -> None:
        """Count the batch for a choice's bytes, durably; again for the same changes nothing."""
        if not self.has(plan_id, batch, attempt):
            self._append_sent(SPENT, plan_id, batch, attempt, ticket, record)
        elif not self.may_repeat(ticket, record):
            self._append_sent(SENT, plan_id, batch, attempt, ticket, record)

    def accept(self, plan_id: str, batch: int, ticket: str = "") -> None:
        """The shuffler has the report."""
        self._append_line(ACCEPTED, plan_id, batch, ticket=ticket)

    def refund(self, plan_id: str, batch: int, ticket: str = "") -> None:
        """The shuffler has said that it does not have the report, and nothing was unanswered."""
        self._append_line(REFUSED, plan_id, batch, ticket=ticket)

    def take_back(self, plan_id: str, batch: int, ticket: str) -> None:
        """The same, but the batch stays counted; the choice may be reported in other bytes."""
        self._append_line(NOT_IN, plan_id, batch, ticket=ticket)

    def exhaust(self, plan_id: str) -> None:
        """The shuffler has counted all that the account may do, elsewhere or before."""
        self._append_line(EXHAUSTED, plan_id, 0, durable=True)

    def leave_fork(self, plan_id: str, version: int, model_hash: str) -> None:
        """The app has decided to go on with a model that does not descend from the one before."""
        self._append_line(FORK_LEFT, plan_id, version, model=model_hash, durable=True)

    def opt_out(self) -> None:
        """Nothing is reported from here on."""
        self._append_line(OPTED_OUT, "", 0, durable=True)

    def _append_sent(
        self, event: str, plan_id: str, batch: int, attempt: int, ticket: str, record: bytes
    ) -> None:
        about = {"ticket": ticket, "record": _digest(record)} if record else {}
        self._append_line(event, plan_id, batch, attempt, durable=True, **about)

    def _append_line(
        self,
        event: str,
        plan_id: str,
        batch: int,
        attempt: int = 0,
        *,
        durable: bool = False,
        **about: str,
    ) -> None:
        line = {"event": event, "plan": plan_id, "batch": batch, "attempt": attempt, **about}
        fresh = not self._path.exists()
        with self._path.open("ab") as file:
            file.write(json.dumps(line).encode() + b"\n")
            file.flush()
            if durable:
                os.fsync(file.fileno())
        if fresh:
            flush_directory(self._path.parent)
        self._apply(line)

    def _apply(self, line: dict[str, Any]) -> None:
        event, place = line["event"], (line["plan"], line["batch"])
        self._apply_to_choice(event, line.get("ticket", ""), line.get("record", ""))
        if event == SPENT:
            self._spent[place] = False
            self._attempts[place] = line["attempt"]
            self._draws += 1
        elif event == ACCEPTED:
            self._spent[place] = True
        elif event == REFUSED and not self._attempts.get(place):
            # A later attempt that was refused gives nothing back: an earlier one was accepted.
            self._spent.pop(place, None)
        elif event in (REFUSED, SENT, NOT_IN, FORK_LEFT):
            pass
        elif event == EXHAUSTED:
            self._exhausted.add(place[0])
        elif event == OPTED_OUT:
            self.opted_out = True
        else:
            raise StateError(f"{self._path} has an event {event!r} that this version does not know")

    def _apply_to_choice(self, event: str, ticket: str, record: str) -> None:
        """What a line says of the choice that it is about."""
        if not ticket:
            return
        if event in (SPENT, SENT):
            self._sent[ticket] = record
        elif event == ACCEPTED:
            self._sent[ticket] = None
        elif event in (REFUSED, NOT_IN):
            self._sent.pop(ticket, None)

    def _read_lines(self) -> Iterator[dict[str, Any]]:
        if not self._path.exists():
            return
        text = self._path.read_bytes()
        whole = text[: text.rfind(b"\n") + 1]
        if len(whole) < len(text):
            # What a crash left of a line: its report was never sent, or its news can be lost.
            os.truncate(self._path, len(whole))
        for line in whole.splitlines():
            yield self._parse_line(line)

    def _parse_line(self, line: bytes) -> dict[str, Any]:
        try:
            told = json.loads(line)
            place = {"plan": str(told["plan"]), "batch": int(told["batch"])}
            about = {name: str(told[name]) for name in ABOUT if name in told}
            attempt = int(told.get("attempt", 0))
            return {"event": told["event"], **place, "attempt": attempt, **about}
        except (ValueError, TypeError, KeyError) as error:
            raise StateError(f"{self._path} is damaged: {line[:80]!r}") from error


def _digest(record: bytes) -> str:
    return hashlib.sha256(record).hexdigest()
