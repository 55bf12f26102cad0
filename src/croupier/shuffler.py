"""The shuffler: moves opaque rows inside public channels, releases them once, forgets them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from croupier.coins import Coins, SystemCoins
from croupier.errors import RefusedError

Messages = Mapping[str, NDArray[Any]]
"""Channel to rows ``(count, width)``; a row is the unit that is permuted."""


Shapes = dict[str, tuple[tuple[int, ...], str]]
"""Channel to the shape and type of one report's rows."""


def shapes_of(messages: Messages) -> Shapes:
    """The public part of a report: channels, row counts and widths, types."""
    return {channel: (rows.shape, rows.dtype.str) for channel, rows in messages.items()}


def shuffle(messages: Messages, coins: Coins) -> Messages:
    """Permute the rows of every channel, each by its own uniform permutation (Algorithm 1, S)."""
    return {
        channel: rows[coins.permutation(len(rows))] for channel, rows in sorted(messages.items())
    }


def gather(reports: Sequence[Messages]) -> Messages:
    """The messages of many users, channel by channel."""
    return {
        channel: np.concatenate([report[channel] for report in reports]) for channel in reports[0]
    }


class OpenChannels:
    """Messages of complete batches, kept until their channel closes and then forgotten."""

    def __init__(self) -> None:
        self._rows: dict[str, list[NDArray[Any]]] = {}

    def add(self, messages: Messages, closing: frozenset[str] | None) -> Messages:
        """Take the messages of a batch; all rows of the channels that close, None for all."""
        for channel, rows in messages.items():
            self._rows.setdefault(channel, []).append(rows)
        closed = [name for name in self._rows if closing is None or name in closing]
        return {channel: np.concatenate(self._rows.pop(channel)) for channel in closed}


@dataclass(frozen=True, eq=False)
class Report:
    """What a device sends: messages, and the public batch that they are for. No identity."""

    plan_id: str
    batch: int
    messages: Messages


@dataclass(frozen=True, eq=False)
class Batch:
    """What the analyzer receives when a batch is complete: the channels that close with it."""

    plan_id: str
    index: int
    messages: Messages


class Sizes(Protocol):
    """The part of a plan that a shuffler needs."""

    @property
    def id(self) -> str:
        """The plan's content id."""

    def users(self, index: int) -> int:
        """Reports that batch ``index`` waits for."""

    def shapes(self, index: int) -> Shapes:
        """What every report of batch ``index`` looks like."""

    def closing(self, index: int) -> frozenset[str] | None:
        """Channels that are released when batch ``index`` is complete; None for all of them."""


class Shuffler:
    """Collects the reports of one batch after the other; never releases one short or twice.

    A channel that stays open over several batches is permuted over all of their rows.
    """

    def __init__(self, plan: Sizes) -> None:
        self._plan = plan
        self._coins: Coins = SystemCoins()
        self._reports: list[Messages] = []
        self._open = OpenChannels()
        self._index = 0

    @property
    def waiting(self) -> int:
        """Reports in the open batch."""
        return len(self._reports)

    def collect(self, report: Report) -> Batch | None:
        """Take one report; the batch if this one completes it, else None."""
        if report.plan_id != self._plan.id:
            raise RefusedError(f"report is for plan {report.plan_id}, this is {self._plan.id}")
        if report.batch != self._index:
            raise RefusedError(f"report is for batch {report.batch}, batch {self._index} is open")
        self._check(report.messages)
        self._reports.append(report.messages)
        if len(self._reports) < self._plan.users(self._index):
            return None
        return self._release()

    def _check(self, messages: Messages) -> None:
        """A report that looks unlike the others could be told apart, or stop a batch."""
        wanted = self._plan.shapes(self._index)
        if shapes_of(messages) != wanted:
            raise RefusedError(f"report has shape {shapes_of(messages)}, the plan says {wanted}")

    def _release(self) -> Batch:
        closed = self._open.add(gather(self._reports), self._plan.closing(self._index))
        batch = Batch(self._plan.id, self._index, shuffle(closed, self._coins))
        self._reports = []
        self._index += 1
        return batch
