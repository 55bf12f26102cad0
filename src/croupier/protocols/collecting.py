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
        # Noise and roundings have streams of their own, so that noise can be drawn ahead.
        self._roundings = rng.spawn(1)[0]
        self._added: Floats | None = None
        self._whole: list[Floats] = []

    def add(self, index: int, contributions: Floats) -> Floats:
        """Sums ``(..., k * size)`` released with batch ``index``, one for each that it completes.

        ``contributions (..., users, size)`` are those of the batch; batches come in order.
        """
        sums = self._mechanism.release(index).sample_sum(contributions, self._rng)
        return self.gathered(index, sums)

    def gathered(self, index: int, sums: Floats) -> Floats:
        """What is released when batch ``index`` has added ``sums``: these."""
        return sums

    def take(self, index: int, contributions: Floats) -> None:
        """Some users ``(..., any, size)`` of batch ``index``, kept only if they must be."""
        part = self._mechanism.release(index).partial(contributions, self._roundings)
        if part is None:
            self._whole.append(contributions)
        else:
            self._added = part if self._added is None else self._added + part

    def close(self, index: int) -> Floats:
        """What is released with batch ``index``, all of whose users were taken."""
        release, added, whole = self._mechanism.release(index), self._added, self._whole
        self._added, self._whole = None, []
        if added is not None:
            return self.gathered(index, release.finish(added, self._rng))
        return self.add(index, np.concatenate(whole, axis=-2))


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
