"""The noise that each theorem of the paper asks for, before ceilings, with the theorem's range."""

from __future__ import annotations

import math
from dataclasses import dataclass

from croupier.errors import GuaranteeError
from croupier.privacy.budget import Budget

VECTOR_SUM_BIAS = 0.25


@dataclass(frozen=True)
class Condition:
    """``left <= right`` (or ``<`` if strict), which a theorem needs."""

    theorem: str
    text: str
    left: float
    right: float
    strict: bool = False

    @property
    def holds(self) -> bool:
        """Whether the condition is met."""
        return self.left < self.right if self.strict else self.left <= self.right

    def __str__(self) -> str:
        """The condition with both numbers."""
        sign = ">=" if self.strict else ">"
        return f"{self.theorem} needs {self.text}, but {self.left:.6g} {sign} {self.right:.6g}"


def require(*conditions: Condition) -> None:
    """Refuse, with both numbers of each failed condition."""
    failed = [str(condition) for condition in conditions if not condition.holds]
    if failed:
        raise GuaranteeError("; ".join(failed))


def composed_budget(budget: Budget, participations: int) -> Budget:
    """The budget of one batch so that ``participations`` of them stay within ``budget``.

    Advanced composition (``thm:composition``) with delta' = delta/2; one batch needs none.
    """
    if participations == 1:
        return budget
    shrink = 2 * math.sqrt(2 * participations * math.log(2 / budget.delta))
    return Budget(budget.epsilon / shrink, budget.delta / (2 * participations))


def composition_range(budget: Budget, participations: int) -> tuple[Condition, ...]:
    """Advanced composition is stated for epsilon below 1."""
    if participations == 1:
        return ()
    return (Condition("thm:composition", "epsilon < 1", budget.epsilon, 1.0, strict=True),)


def amplified_sigma(budget: Budget, users: int) -> float:
    """``thm:amp-main``: sigma = 4 sqrt(2 ln(2.5B/delta) ln(2/delta)) / (epsilon sqrt B)."""
    logs = math.log(2.5 * users / budget.delta) * math.log(2 / budget.delta)
    return 4 * math.sqrt(2 * logs) / (budget.epsilon * math.sqrt(users))


def amplified_range(budget: Budget, users: int) -> tuple[Condition, ...]:
    """``thm:amp-main`` and the lemma ``lem:shuffle_amp`` that it rests on (MATH 5)."""
    log = math.log(2 / budget.delta)
    local = budget.epsilon * math.sqrt(users / log)
    most = math.log(users / (16 * math.log(4 / budget.delta)))
    return (
        Condition(
            "thm:amp-main",
            "epsilon <= sqrt(ln(2/delta)/B)",
            budget.epsilon,
            math.sqrt(log / users),
        ),
        Condition(
            "lem:shuffle_amp", "epsilon sqrt(B/ln(2/delta)) <= ln(B/(16 ln(4/delta)))", local, most
        ),
    )


def vector_sum_grid(users: int, dim: int) -> float:
    """``thm:vec``: g = max(2 sqrt B, d, 4)."""
    return max(2 * math.sqrt(users), float(dim), 4.0)


def vector_sum_noise_bits(budget: Budget, users: int, dim: int, grid: float) -> float:
    """``thm:vec``: b = 24e4 g^2 ln(4(d^2+1)/delta)^2 / (epsilon^2 B)."""
    log = math.log(4 * (dim**2 + 1) / budget.delta)
    return 24e4 * grid**2 * log**2 / (budget.epsilon**2 * users)


def vector_sum_range(budget: Budget) -> tuple[Condition, ...]:
    """``thm:vec``: epsilon at most 15, delta below 1/2."""
    return (
        Condition("thm:vec", "epsilon <= 15", budget.epsilon, 15.0),
        Condition("thm:vec", "delta < 1/2", budget.delta, 0.5, strict=True),
    )


def local_sigma(budget: Budget) -> float:
    """Zheng et al. 2020, ``cor:amp_priv``: sigma = 4 sqrt(2 ln(2.5/delta)) / epsilon."""
    return 4 * math.sqrt(2 * math.log(2.5 / budget.delta)) / budget.epsilon


def local_range(budget: Budget) -> tuple[Condition, ...]:
    """The Gaussian mechanism's classical analysis stops at epsilon 1."""
    return (Condition("Zheng et al. 2020", "epsilon <= 1", budget.epsilon, 1.0),)


def central_sigma(budget: Budget, steps: int, participations: int = 1) -> float:
    """Shariff and Sheffet 2018: node noise 8 sqrt(m) ln(4/delta)/epsilon, m = 1 + ceil(log2 T).

    For user-level privacy it grows with the number of rounds of a user (``prop:JDP-return``).
    """
    depth = 1 + math.ceil(math.log2(steps))
    node = 4 * math.sqrt(depth) * 2 * math.log(4 / budget.delta) / budget.epsilon
    return participations * node


def central_range(budget: Budget) -> tuple[Condition, ...]:
    """Shariff and Sheffet state their noise for epsilon up to 1."""
    return (Condition("Shariff and Sheffet 2018", "epsilon <= 1", budget.epsilon, 1.0),)
