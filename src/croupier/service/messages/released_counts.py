"""Which counts of bits or of shares are released with a batch, and of which batches."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from croupier.errors import RefusedError
from croupier.plan import Plan
from croupier.protocols.base import AdditiveRelease, require_protocol

Counts = NDArray[np.int64]


def additive_release(plan: Plan, index: int) -> AdditiveRelease:
    """The release of batch ``index``, if its reports can be split into shares."""
    release = require_protocol(plan.mechanism).release(index)
    if not isinstance(release, AdditiveRelease):
        raise RefusedError(f"reports of {plan.protocol} are not counted")
    return release


def largest_counts(plan: Plan, index: int) -> Counts:
    """The counts of a report of ones."""
    shapes = plan.shapes(index)
    ones = {channel: np.ones(shape, kind) for channel, (shape, kind) in shapes.items()}
    return additive_release(plan, index).tally(ones)


def closing_channels(plan: Plan, index: int) -> list[str]:
    """The channels whose counts are released with batch ``index``, in the order of counts."""
    return [name for name in additive_release(plan, index).counted if _closes(plan, index, name)]


def open_batches(plan: Plan, index: int, channel: str) -> range:
    """The batches up to ``index`` that a channel has been open in."""
    first = index
    while first and not _closes(plan, first - 1, channel):
        first -= 1
    return range(first, index + 1)


def node_batches(plan: Plan, index: int, channel: str) -> range:
    """All batches that a channel is open in together with batch ``index``."""
    last = index
    while not _closes(plan, last, channel) and last + 1 < plan.schedule.batches:
        last += 1
    return open_batches(plan, last, channel)


def settle(plan: Plan, index: int, ones: Mapping[str, int]) -> NDArray[np.float64]:
    """The sums that are released with batch ``index``, from the ones of its channels."""
    closing = closing_channels(plan, index)
    users = [sum(map(plan.users, open_batches(plan, index, name))) for name in closing]
    tally = np.array([ones[name] for name in closing])
    return np.asarray(additive_release(plan, index).settle(tally, np.array(users)))


def _closes(plan: Plan, index: int, channel: str) -> bool:
    closed = plan.closing(index)
    return closed is None or channel in closed
