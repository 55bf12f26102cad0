"""What a mechanism promises, as a curve that can be asked at any epsilon or delta."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Protocol

from croupier.privacy import gdp
from croupier.privacy.budget import Budget

USUAL_DELTA = 1e-6

TAIL_SHARE = 1e-3
"""The part of delta that a curve may spend on tails outside of its Gaussian-DP parameter."""

SWAP = "swap: one user's data replaced by any other"


class Curve(Protocol):
    """The trade-off between epsilon and delta."""

    def mu_at(self, delta: float) -> float | None:
        """The Gaussian-DP parameter that answers at ``delta`` rest on, where there is one.

        It holds but for an event of probability ``TAIL_SHARE * delta``.
        """

    def epsilon(self, delta: float) -> float:
        """The smallest proved epsilon at ``delta``."""

    def delta(self, epsilon: float) -> float:
        """The smallest proved delta at ``epsilon``."""


@dataclass(frozen=True)
class GaussianCurve:
    """Exactly mu-GDP."""

    mu: float

    def mu_at(self, delta: float) -> float:
        """The same for every delta."""
        return self.mu

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon at ``delta``."""
        return gdp.epsilon_of(self.mu, delta)

    def delta(self, epsilon: float) -> float:
        """The smallest delta at ``epsilon``."""
        return gdp.delta_of(self.mu, epsilon)


@dataclass(frozen=True)
class PureCurve:
    """(epsilon, 0)-DP, for mechanisms with bounded likelihood ratio."""

    bound: float

    def mu_at(self, delta: float) -> None:
        """Pure privacy is not stated as a mu."""
        return

    def epsilon(self, delta: float) -> float:
        """The bound, whatever delta."""
        return self.bound

    def delta(self, epsilon: float) -> float:
        """0 from the bound on; below it the total variation of randomised response."""
        if epsilon >= self.bound:
            return 0.0
        return -math.expm1(epsilon - self.bound) / (1 + math.exp(-self.bound))


@dataclass(frozen=True)
class WorstCurve:
    """What holds whichever of several curves applies: a user is in one batch of many."""

    curves: tuple[Curve, ...]

    def mu_at(self, delta: float) -> float | None:
        """The largest, None where one has none."""
        found = [curve.mu_at(delta) for curve in self.curves]
        known = [mu for mu in found if mu is not None]
        return max(known) if len(known) == len(found) else None

    def epsilon(self, delta: float) -> float:
        """The largest."""
        return max(curve.epsilon(delta) for curve in self.curves)

    def delta(self, epsilon: float) -> float:
        """The largest."""
        return max(curve.delta(epsilon) for curve in self.curves)


@dataclass(frozen=True)
class Guarantee:
    """A proved curve with its method and assumptions, or none with the reason.

    ``curve`` is None where nothing is proved: epsilon is then infinite and delta is 1.
    """

    method: str
    curve: Curve | None = None
    adjacency: str = SWAP
    assumptions: tuple[str, ...] = ()
    reason: str = ""

    @property
    def proved(self) -> bool:
        """Whether any finite promise is made."""
        return self.curve is not None

    @property
    def mu(self) -> float | None:
        """The Gaussian-DP parameter at the usual delta, None where there is none."""
        return self.mu_at(USUAL_DELTA)

    def mu_at(self, delta: float) -> float | None:
        """The Gaussian-DP parameter behind answers at ``delta``, None where there is none."""
        return None if self.curve is None else self.curve.mu_at(delta)

    def epsilon(self, delta: float) -> float:
        """The smallest proved epsilon at ``delta``; infinite where nothing is proved."""
        return math.inf if self.curve is None else self.curve.epsilon(delta)

    def delta(self, epsilon: float) -> float:
        """The smallest proved delta at ``epsilon``; 1 where nothing is proved."""
        return 1.0 if self.curve is None else self.curve.delta(epsilon)

    def meets(self, budget: Budget) -> bool:
        """Whether the proved delta at the budget's epsilon is within the budget."""
        return self.delta(budget.epsilon) <= budget.delta

    def assuming(self, *assumptions: str) -> Guarantee:
        """The same guarantee with further assumptions named."""
        return replace(self, assumptions=self.assumptions + assumptions)


def gaussian(mu: float, method: str, *assumptions: str) -> Guarantee:
    """An exact mu-GDP guarantee."""
    return Guarantee(method=method, curve=GaussianCurve(mu), assumptions=assumptions)


def unproved(reason: str) -> Guarantee:
    """No guarantee, and why."""
    return Guarantee(method="not proved", reason=reason)
