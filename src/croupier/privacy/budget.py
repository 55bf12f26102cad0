"""The privacy that is asked for."""

from __future__ import annotations

from dataclasses import dataclass

from croupier.arguments import positive


@dataclass(frozen=True)
class Budget:
    """``(epsilon, delta)`` with epsilon above 0 and delta strictly between 0 and 1."""

    epsilon: float
    delta: float

    def __post_init__(self) -> None:
        """Refuse a budget that promises nothing or cannot be met."""
        positive("epsilon", self.epsilon)
        if positive("delta", self.delta) >= 1:
            raise ValueError(f"delta must be below 1, got {self.delta!r}")
