"""The privacy that is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from croupier.arguments import positive

LEAST_EPSILON = 1e-9
MOST_EPSILON = 1e9
LEAST_DELTA = 1e-300
"""Beyond these the formulas leave the range of floating point."""


@dataclass(frozen=True)
class Budget:
    """``(epsilon, delta)`` with epsilon above 0 and delta strictly between 0 and 1."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        """Refuse a budget that promises nothing or cannot be met."""
        if not LEAST_EPSILON <= positive("epsilon", self.epsilon) <= MOST_EPSILON:
            between = f"{LEAST_EPSILON:g} and {MOST_EPSILON:g}"
            raise ValueError(f"epsilon must be between {between}, got {self.epsilon!r}")
        if positive("delta", self.delta) >= 1:
            raise ValueError(f"delta must be below 1, got {self.delta!r}")
        if self.delta < LEAST_DELTA:
            raise ValueError(f"delta must be at least {LEAST_DELTA:g}, got {self.delta!r}")
