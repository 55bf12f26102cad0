"""The regularisers lambda that the paper's theorems ask for, with constant 1 for Theta.

The regulariser that runs is 2 S_M of ``confidence`` (MATH 1, 6.3); these are its orders.
"""

from __future__ import annotations

import math

from croupier.privacy.budget import Budget
from croupier.theory import constants
from croupier.theory.scope import Scope


def spread(scope: Scope, batch_size: int) -> float:
    """sqrt(d) + sqrt(log(T/(B alpha))), the norm of a noise matrix of unit entries."""
    failure = scope.batches(batch_size) / scope.confidence
    return math.sqrt(scope.dim) + math.sqrt(math.log(failure))


def subgaussian(scope: Scope, batch_size: int, sigma: float) -> float:
    """``cor:subG``: lambda = max(1, sigma (sqrt d + sqrt(log(T/(B alpha)))))."""
    return max(1.0, sigma * spread(scope, batch_size))


def amplified(scope: Scope, batch_size: int, budget: Budget) -> float:
    """``thm:amp``, ``thm:amp-main``: lambda = sqrt(T) sigma_1 (sqrt d + sqrt(log(T/(B alpha))))."""
    sigma = constants.amplified_sigma(budget, batch_size)
    return math.sqrt(scope.horizon) * sigma * spread(scope, batch_size)


def amplified_returning(scope: Scope, batch_size: int, budget: Budget) -> float:
    """``thm:amp_return``: that of ``thm:amp`` with one batch's share of the budget (MATH 1)."""
    return amplified(scope, batch_size, _share(scope, batch_size, budget))


def vector_sum(scope: Scope, batch_size: int, budget: Budget) -> float:
    """``thm:vec``, ``thm:vec-main``: log(d^2/delta) sqrt(T/B)/epsilon times the spread."""
    log = math.log(scope.dim**2 / budget.delta)
    sigma = log * math.sqrt(scope.batches(batch_size)) / budget.epsilon
    return sigma * spread(scope, batch_size)


def vector_sum_returning(scope: Scope, batch_size: int, budget: Budget) -> float:
    """``thm:vec_return`` with the 1/epsilon that it lacks put back (MATH 1).

    (T/B) sqrt(log(2/delta)) log(d^2 T/(B delta)) / epsilon times the spread.
    """
    batches = scope.batches(batch_size)
    log = math.log(scope.dim**2 * batches / budget.delta)
    sigma = batches * math.sqrt(math.log(2 / budget.delta)) * log / budget.epsilon
    return sigma * spread(scope, batch_size)


def _share(scope: Scope, batch_size: int, budget: Budget) -> Budget:
    """What each of the M batches of a returning user may spend."""
    return constants.composed_budget(budget, int(scope.batches(batch_size)))
