"""What a device keeps besides its ledger: open choices, the queued report, the last model.

Every file is replaced whole. None of it is needed to stay within the user's allowance, so that a
damaged one is forgotten, not repaired.
"""

from __future__ import annotations

import fcntl
import json
import os
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

from croupier.service.device.ledger import ParticipationLedger, StateError
from croupier.service.storage.disk import flush_directory

PLAN, MODEL, STATE, LOCK = "plan.json", "model.json", "state.json", "lock"

Read = TypeVar("Read")


@dataclass(frozen=True)
class OpenChoice:
    """An arm that was played and whose reward has not come yet."""

    ticket: str
    feature: tuple[float, ...]


@dataclass(frozen=True)
class QueuedReport:
    """What is to be reported, as the user's device alone may know it."""

    feature: tuple[float, ...]
    reward: float
    ticket: str


@dataclass(frozen=True)
class PreparedReport:
    """A report made for one batch. ``messages`` are randomised once, ``record`` is what is sent.

    Whether the record may be in already is for the ledger to say: this may be an older copy.
    """

    batch: int
    model_hash: str
    messages: bytes
    record: bytes
    attempt: int = 0


@dataclass(frozen=True)
class KnownKeys:
    """Signing keys of a role that are trusted by way of those that the app pinned."""

    pinned: tuple[str, ...]
    trusted: tuple[str, ...]
    sequence: int = 0


@dataclass(frozen=True)
class Fork:
    """Two models that are not in one chain: the one that was seen before, and the one now named."""

    seen_version: int
    seen_hash: str
    named_version: int
    named_hash: str


@dataclass(frozen=True)
class DeviceState:
    """``batch`` is the newest that was ever seen open; it only goes back if a fork is left.

    ``witnessed`` is the model that a witness was last seen to have signed, then the keys of those
    witnesses that the app pinned: with other ones it is to be seen again.
    """

    plan: str
    batch: int = 0
    choices: tuple[OpenChoice, ...] = ()
    queued: QueuedReport | None = None
    prepared: PreparedReport | None = None
    keys: dict[str, KnownKeys] = field(default_factory=dict)
    fork: Fork | None = None
    witnessed: tuple[str, ...] = ()

    def with_choice(self, choice: OpenChoice, most: int) -> DeviceState:
        """One more open choice; of more than ``most`` the oldest are forgotten."""
        return replace(self, choices=(*self.choices, choice)[-most:])

    def without_choice(self, ticket: str) -> DeviceState:
        """The choice's reward has come."""
        return replace(self, choices=tuple(one for one in self.choices if one.ticket != ticket))

    def find(self, ticket: str) -> OpenChoice:
        """An open choice."""
        for choice in self.choices:
            if choice.ticket == ticket:
                return choice
        raise ValueError(f"ticket must be that of an open choice, got {ticket!r}")

    def done(self) -> DeviceState:
        """Nothing is queued any more."""
        return replace(self, queued=None, prepared=None)

    def without_sent(self, ledger: ParticipationLedger) -> DeviceState:
        """Choices that the ledger says were reported are gone, however old this state is.

        What may be repeated are exactly the bytes that were sent last and not answered.
        """
        choices = tuple(one for one in self.choices if not ledger.was_sent(one.ticket))
        left = replace(self, choices=choices)
        if self.queued is None or not ledger.was_sent(self.queued.ticket):
            return left
        record = b"" if self.prepared is None else self.prepared.record
        return left if ledger.may_repeat(self.queued.ticket, record) else left.done()


class DeviceFiles:
    """The directory of one user's device, used by one process at a time."""

    def __init__(self, directory: str | Path, plan_id: str) -> None:
        self.directory = Path(directory)
        self.directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._lock = _lock_directory(self.directory / LOCK)
        try:
            self.ledger = ParticipationLedger(self.directory)
        except BaseException:
            self.close()
            raise
        if self.ledger.opted_out:
            self.erase()
        self._state = self._read(STATE, _read_state) or DeviceState(plan_id)
        if self._state.plan != plan_id:
            self.erase()
            self._state = DeviceState(plan_id)
        self._state = self._state.without_sent(self.ledger)

    @property
    def state(self) -> DeviceState:
        """As it was last written."""
        return self._state

    def write(self, state: DeviceState) -> None:
        """Replace the state."""
        self.write_text(STATE, json.dumps(_state_content(state)))
        self._state = state

    def read_text(self, name: str) -> str | None:
        """A file's text, None if it is not there or not text."""
        try:
            return (self.directory / name).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError):
            return None

    def write_text(self, name: str, text: str) -> None:
        """A file that is there whole, or as it was before; on disk when this returns."""
        draft = self.directory / f"{name}.draft"
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with open(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        draft.replace(self.directory / name)
        flush_directory(self.directory)

    def erase(self) -> None:
        """Delete everything but the ledger."""
        for name in (STATE, MODEL, PLAN):
            for path in (self.directory / name, self.directory / f"{name}.draft"):
                path.unlink(missing_ok=True)

    def forget(self) -> None:
        """Delete everything but the ledger, and hold nothing in memory."""
        self.erase()
        self._state = DeviceState(self._state.plan)

    def close(self) -> None:
        """Let another process use the directory."""
        if self._lock >= 0:
            os.close(self._lock)
            self._lock = -1

    def _read(self, name: str, parse: Callable[[dict[str, Any]], Read]) -> Read | None:
        text = self.read_text(name)
        try:
            return None if text is None else parse(json.loads(text))
        except (ValueError, TypeError, KeyError, AttributeError):
            return None


def _lock_directory(path: Path) -> int:
    """An open descriptor that holds the lock."""
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(descriptor)
        raise StateError(f"{path.parent} is in use by another process") from error
    return descriptor


def _state_content(state: DeviceState) -> dict[str, Any]:
    content = asdict(state)
    if state.prepared is not None:
        for name in ("messages", "record"):
            content["prepared"][name] = getattr(state.prepared, name).hex()
    return content


def _read_state(told: dict[str, Any]) -> DeviceState:
    queued, prepared = told["queued"], told["prepared"]
    return DeviceState(
        str(told["plan"]),
        int(told["batch"]),
        tuple(OpenChoice(one["ticket"], tuple(one["feature"])) for one in told["choices"]),
        None if queued is None else _read_queued(queued),
        None if prepared is None else _read_prepared(prepared),
        {role: _read_known_keys(keys) for role, keys in told["keys"].items()},
        None if told["fork"] is None else Fork(**told["fork"]),
        tuple(str(one) for one in told["witnessed"]),
    )


def _read_queued(told: dict[str, Any]) -> QueuedReport:
    return QueuedReport(tuple(told["feature"]), float(told["reward"]), str(told["ticket"]))


def _read_prepared(told: dict[str, Any]) -> PreparedReport:
    messages, record = (bytes.fromhex(told[name]) for name in ("messages", "record"))
    place = int(told["batch"]), told["model_hash"]
    attempt = int(told.get("attempt", 0))
    return PreparedReport(*place, messages, record, attempt)


def _read_known_keys(told: dict[str, Any]) -> KnownKeys:
    return KnownKeys(tuple(told["pinned"]), tuple(told["trusted"]), int(told["sequence"]))
