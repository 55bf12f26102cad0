"""The proved privacy of shuffled reports with a bounded likelihood ratio (MATH 5).

Whole reports of an epsilon0-DP randomiser, permuted, are no easier to tell apart than the clones
of Feldman, McMillan and Talwar 2021; without any other user they are epsilon0-DP. What can be
computed from permuted reports, as the counts of their bits, is covered too.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from croupier.arguments import positive, whole
from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import PureCurve
from croupier.privacy.shuffled_reports.clones import composed_delta

BEYOND = 50.0
"""How far a report's epsilon can exceed what the budget allows it alone: -ln(1 - delta) < 40."""

CLOSE = 1e-13
"""Relative width at which a search ends."""


@dataclass(frozen=True)
class ShuffledLocalCurve:
    """The better of pure privacy and clones.

    ``local_epsilon``: of one report. ``users``: honest reports in a batch, the user's own
    included. ``batches``: how many batches the user is in, each seen before the next.
    """

    local_epsilon: float
    users: int
    batches: int = 1

    def __post_init__(self) -> None:
        """Refuse what is not a shuffled report."""
        positive("local_epsilon", self.local_epsilon)
        whole("users", self.users, 1)
        whole("batches", self.batches, 1)

    def mu_at(self, delta: float) -> None:
        """Clones are not stated as a mu."""
        return

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon at ``delta``; ``self.delta`` there is at most ``delta``."""
        if self.delta(0.0) <= delta:
            return 0.0
        alone = self.batches * self.local_epsilon
        return _edge(alone, 0.0, lambda epsilon: self.delta(epsilon) <= delta)

    def delta(self, epsilon: float) -> float:
        """The smallest delta at ``epsilon``."""
        alone = PureCurve(self.batches * self.local_epsilon).delta(epsilon)
        if alone == 0 or self.local_epsilon > _cloned(self.users):
            return alone
        return min(alone, composed_delta(self.local_epsilon, self.users, self.batches, epsilon))


def most_local_epsilon(budget: Budget, *, users: int, batches: int = 1) -> float:
    """The largest epsilon of one report with which the curve meets ``budget``."""
    alone = math.nextafter(budget.epsilon / whole("batches", batches, 1), 0.0)

    def meets(local: float) -> bool:
        return ShuffledLocalCurve(local, users, batches).delta(budget.epsilon) <= budget.delta

    return _edge(alone, max(alone, _cloned(users)) + BEYOND, meets)


def _cloned(users: int) -> float:
    """Beyond ln(users) + 2 fewer than one clone in seven batches is left."""
    return math.log(users) + 2


def _edge(inside: float, outside: float, holds: Callable[[float], bool]) -> float:
    """The last point that holds on the way from ``inside``, which does, to ``outside``."""
    if holds(outside):
        return outside
    while abs(outside - inside) > CLOSE * abs(inside):
        middle = (inside + outside) / 2
        inside, outside = (middle, outside) if holds(middle) else (inside, middle)
    return inside
