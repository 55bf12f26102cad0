"""Levels of tests, cut into pieces, and the normal quantities that proofs need at each of them."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from scipy.special import log_ndtr

from croupier.privacy.gdp import mills
from croupier.privacy.shuffled_bits.binomial_tails import Floats

DEEPEST = 50.0
"""Levels up to which speeds are followed; beyond epsilon would be in the hundreds."""
PIECES = 64
"""Pieces into which the levels of tests are cut: each counts with its worse end."""
REACHES = np.array([1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 4.0, 5.0])[:, None, None]
"""How far above its level the direction of a test may be followed, 1 or more; the best counts."""


@dataclass(frozen=True)
class Levels:
    """Cuts of the levels z of a test from 0 to ``top``, and normal quantities at each of them."""

    top: float
    pieces: int = PIECES

    @cached_property
    def cuts(self) -> Floats:
        """From 0 to the top."""
        return np.linspace(0.0, self.top, self.pieces + 1)

    @property
    def ends(self) -> tuple[float, ...]:
        """Where each piece ends."""
        return tuple(self.cuts[1:].tolist())

    @cached_property
    def hazard(self) -> Floats:
        """m: density over tail."""
        return 1 / mills(self.cuts)

    @cached_property
    def gap(self) -> Floats:
        """m - z, which falls."""
        return self.hazard - self.cuts

    @cached_property
    def bend(self) -> Floats:
        """m (m - z), the slope of m, which grows."""
        return self.hazard * self.gap

    @cached_property
    def surprise(self) -> Floats:
        """-ln of the tail."""
        return np.asarray(-log_ndtr(-self.cuts))

    @cached_property
    def far(self) -> Floats:
        """How far out each piece is followed, for every reach."""
        return np.asarray(self.cuts[1:] + REACHES)

    @cached_property
    def fading(self) -> Floats:
        """The density there in units of the least on the piece."""
        return np.exp(-REACHES * (self.cuts[1:] + self.far) / 2)

    @cached_property
    def kept(self) -> Floats:
        """pi: the least share of E(g - z)+ that stays when g ends there."""
        rest = 1 - self.cuts[1:] * mills(self.far)
        return np.asarray(1 - self.fading * rest * self.hazard[1:] / self.gap[1:])
