"""The constants of the authors' released script; nothing is proved for them (MATH 8)."""

from __future__ import annotations

import math
from dataclasses import dataclass

from croupier.privacy.budget import Budget


@dataclass(frozen=True)
class Scale:
    """G of MATH 8 and the regulariser that goes with it."""

    scale: float
    regularizer: float


NOT_PRIVATE = Scale(scale=1.0, regularizer=1e-4)


def private_scale(scale: float) -> Scale:
    """Private algorithms regularise with 2G."""
    return Scale(scale, 2 * scale)


def radius(scale: float, dim: int, horizon: int, feature_norm: float) -> float:
    """The constant radius sqrt(G d) + 0.5 sqrt(d ln((1 + T L^2/G)/alpha)), alpha = 1/T."""
    log = math.log((1 + horizon * feature_norm**2 / scale) * horizon)
    return math.sqrt(scale * dim) + 0.5 * math.sqrt(dim * log)


def local_sigma(budget: Budget) -> float:
    """LDP noise per entry: sqrt(ln(2.5/delta)) / epsilon."""
    return math.sqrt(math.log(2.5 / budget.delta)) / budget.epsilon


def central_sigma(budget: Budget, horizon: int) -> float:
    """JDP noise per node: sqrt(ln T) ln(2.5/delta) / epsilon."""
    return math.sqrt(math.log(horizon)) * math.log(2.5 / budget.delta) / budget.epsilon


def amplified_sigma(budget: Budget, users: int) -> float:
    """P_Amp noise per user: sqrt(ln(2.5B/delta)) / (epsilon sqrt B)."""
    return math.sqrt(math.log(2.5 * users / budget.delta)) / (budget.epsilon * math.sqrt(users))


def vector_sum_noise_bits(budget: Budget, users: int, dim: int, grid: float) -> float:
    """P_Vec bits s g^2 ln(d/delta)^2 / (epsilon^2 B); s is 1 at epsilon 0.2, else 10, by hand."""
    by_hand = 1.0 if math.isclose(budget.epsilon, 0.2) else 10.0
    return by_hand * (grid * math.log(dim / budget.delta) / budget.epsilon) ** 2 / users


def vector_sum_scale(budget: Budget, users: int, dim: int) -> float:
    """P_Vec noise per batch that enters G: ln(d/delta) / (4 epsilon sqrt B)."""
    return math.log(dim / budget.delta) / (4 * budget.epsilon * math.sqrt(users))
