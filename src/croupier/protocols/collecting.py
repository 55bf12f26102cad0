"""From the contributions of one batch after the other to what is released of them.

A :class:`Collector` takes the shortcuts of simulations, :class:`Devices` the real path. Both have
the same law.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from croupier.coins import Coins
from croupier.shuffler import OpenChannels, gather, shuffle

if TYPE_CHECKING:
    from croupier.protocols.base import Mechanism, Protocol

Floats = NDArray[np.float64]


class Collector:
    """The default: every batch is released when it is complete, and alone."""

    def __init__(self, mechanism: Mechanism, rng: np.random.Generator) -> None:
        self._mechanism = mechanism
        self._rng = rng

    def add(self, index: int, contributions: Floats) -> Floats:
        """Sums ``(..., k * size)`` released with batch ``index``, one for each that it completes.

        ``contributions (..., users, size)`` are those of the batch; batches come in order.
        """
        return self._mechanism.release(index).sample_sum(contributions, self._rng)


class Devices:
    """Devices, shuffler and analyzer, batch after batch."""

    def __init__(self, protocol: Protocol, coins: Coins) -> None:
        self._protocol = protocol
        self._coins = coins
        self._open = OpenChannels()

    def add(self, index: int, contributions: Floats) -> Floats:
        """Sums ``(k * size,)`` released with batch ``index`` of contributions ``(users, size)``."""
        release = self._protocol.release(index)
        sent = gather([release.randomize(row, self._coins) for row in contributions])
        closed = self._open.add(sent, self._protocol.closing(index))
        return release.analyze(shuffle(closed, self._coins))
