"""Which counts of a batch of shares are released with it, and of which batches they are sums."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from croupier.errors import RefusedError
from croupier.plan import Plan
from croupier.protocols.base import AdditiveRelease, require_protocol


def additive_release(plan: Plan, index: int) -> AdditiveRelease:
    """The release of batch ``index``, if its reports can be split into shares."""
    release = require_protocol(plan.mechanism).release(index)
    if not isinstance(release, AdditiveRelease):
        raise RefusedError(f"reports of {plan.protocol} cannot be split into shares")
    return release


def largest_counts(plan: Plan, index: int) -> NDArray[np.int64]:
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


def _closes(plan: Plan, index: int, channel: str) -> bool:
    closed = plan.closing(index)
    return closed is None or channel in closed
