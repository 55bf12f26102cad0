"""The paper's theorem for shuffled bits read backwards: its epsilon for given bits.

It is cited, not checked: croupier prints it only for constants beyond the reach of the certificate.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

UP = 1 + 1e-12
"""Rounds an epsilon up, far beyond what the formulas lose."""

MOST_EPSILON = 15.0
MOST_DELTA = 0.5


@dataclass(frozen=True)
class VectorSumTheorem:
    """``thm:vec`` for ``coins`` per label; ``thm:composition`` for a user in several batches."""

    coins: int
    dim: int
    grid: float
    batches: int = 1

    def mu_at(self, delta: float) -> None:
        """The theorem has none."""
        return

    def epsilon(self, delta: float) -> float:
        """The epsilon that the printed number of bits stands for, infinite outside the range."""
        if delta >= MOST_DELTA:
            return math.inf
        if self.batches == 1:
            return self._one(delta)
        one = self._one(delta / (2 * self.batches))
        total = one * 2 * math.sqrt(2 * self.batches * math.log(2 / delta)) * UP
        return total if total < 1 else math.inf

    def _one(self, delta: float) -> float:
        """b = 24e4 g^2 ln(4(d^2+1)/delta)^2 / (epsilon^2 B), solved for epsilon."""
        log = math.log(4 * (self.dim**2 + 1) / delta)
        epsilon = math.sqrt(24e4 / self.coins) * self.grid * log * UP
        return epsilon if epsilon <= MOST_EPSILON else math.inf

    def delta(self, epsilon: float) -> float:
        """The smallest delta whose epsilon is at most this one; 1 where there is none."""
        low, high = 1e-300, math.nextafter(MOST_DELTA, 0.0)
        if self.epsilon(high) > epsilon:
            return 1.0
        while low < (middle := math.sqrt(low) * math.sqrt(high)) < high:
            low, high = (low, middle) if self.epsilon(middle) <= epsilon else (middle, high)
        # Rounded square roots stop a few floats early.
        while self.epsilon(below := math.nextafter(high, 0.0)) <= epsilon and below > low:
            high = below
        return high
