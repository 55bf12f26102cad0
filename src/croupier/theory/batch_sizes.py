"""Batch sizes that the corollaries choose, for the best regret or for a local budget.

Constants hidden in O are 1, logarithms hidden in O-tilde are dropped.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from croupier.arguments import whole
from croupier.privacy.budget import Budget
from croupier.theory import promises
from croupier.theory.promises import Promise


@dataclass(frozen=True)
class Targets:
    """A corollary's batch size, its regret and what holds at the same time.

    ``exact`` is the real number of the formula, ``batch_size`` that number rounded into [1, T].
    ``regret`` is the corollary's, at ``exact``; the promises are those at ``batch_size``, None
    where the paper states none.
    """

    batch_size: int
    exact: float
    regret: float
    shuffle: Promise | None = None
    joint: Promise | None = None
    local: Promise | None = None


def amplified_fixed(horizon: int, dim: int, budget: Budget) -> Targets:
    """``cor:best_reg_amp``: B = T^(3/5), whatever the budget.

    The paper's T^(3/5) log^(1/2)(T/delta)/sqrt(epsilon) hides d; put back from ``thm:amp-main``
    it is T^(3/5) (d + d^(3/4) log^(1/2)(T/delta)/sqrt(epsilon)).
    """
    return _amplified(horizon, budget, horizon**0.6, _fixed(horizon, dim, budget, horizon))


def amplified_for_utility(horizon: int, dim: int, budget: Budget) -> Targets:
    """``cor:amp_util``: B = d^(-1/5) epsilon^(-2/5) T^(3/5) (log(T/delta) log(2/delta))^(1/5)."""
    logs = math.log(horizon / budget.delta) * math.log(2 / budget.delta)
    exact = _balanced(horizon, dim, budget, logs**0.5)
    return _amplified(horizon, budget, exact, dim * exact)


def amplified_for_privacy(horizon: int, dim: int, local: Budget) -> Targets:
    """``cor:amp_priv``: B = d^(-1/4) T^(3/4) epsilon_0^(-1/2) log^(1/4)(1/delta_0).

    The shuffle pair has delta = delta_0 B and is empty unless delta_0 < 1/B.
    """
    exact = _locally_balanced(horizon, dim, local, math.sqrt(math.log(1 / local.delta)))
    size = rounded(exact, horizon)
    shuffle = promises.amplified_shuffle(local, size)
    return _locally(size, exact, dim * exact, shuffle, local)


def vector_sum_fixed(horizon: int, dim: int, budget: Budget) -> Targets:
    """The remark to ``thm:vec-main``: B = T^(3/5), log(d^2/delta) in place of log(T/delta)."""
    return _vector_sum(horizon, budget, horizon**0.6, _fixed(horizon, dim, budget, dim**2))


def vector_sum_for_utility(horizon: int, dim: int, budget: Budget) -> Targets:
    """``cor:vec_util``: B = d^(-1/5) epsilon^(-2/5) T^(3/5) log^(2/5)(d^2/delta)."""
    exact = _balanced(horizon, dim, budget, math.log(dim**2 / budget.delta))
    return _vector_sum(horizon, budget, exact, dim * exact)


def vector_sum_for_privacy(horizon: int, dim: int, local: Budget) -> Targets:
    """``cor:vec_priv``: B = d^(-1/4) T^(3/4) epsilon_0^(-1/2) log^(1/2)(d^2/delta_0).

    The paper's shuffle epsilon has epsilon^(5/4) where epsilon_0^(5/4) is meant (MATH 1).
    """
    exact = _locally_balanced(horizon, dim, local, math.log(dim**2 / local.delta))
    size = rounded(exact, horizon)
    shuffle = promises.vector_sum_shuffle(local, size)
    return _locally(size, exact, dim * exact, shuffle, local)


def amplified_returning(horizon: int, dim: int, budget: Budget) -> Targets:
    """``cor:amp_util_return``: B = d^(-1/6) epsilon^(-1/3) T^(2/3) log^(1/2)(T/delta)."""
    return _returning(horizon, dim, budget, math.log(horizon / budget.delta))


def vector_sum_returning(horizon: int, dim: int, budget: Budget) -> Targets:
    """The corollary to ``thm:vec_return``: log(d^2 T/delta) in place of log(T/delta)."""
    return _returning(horizon, dim, budget, math.log(dim**2 * horizon / budget.delta))


def batched_local(horizon: int, dim: int, local: Budget) -> Targets:
    """Batched-Local-LinUCB: B = T^(3/4) (remark in ``sec:batched``).

    T^(3/4) (d + d^(3/4) log^(1/4)(1/delta)/sqrt(epsilon)): the sequential rate in T, but with d
    instead of d^(3/4).
    """
    noise = dim**0.75 * math.log(1 / local.delta) ** 0.25 / math.sqrt(local.epsilon)
    exact = horizon**0.75
    stated = Promise(local.epsilon, local.delta)
    return Targets(rounded(exact, horizon), exact, exact * (dim + noise), local=stated)


def batched_central(horizon: int, dim: int, budget: Budget) -> Targets:
    """Batched-Central-LinUCB: B = sqrt(T) (remark in ``sec:batched``).

    sqrt(T) (d + d^(3/4) log^(1/4)(1/delta)/sqrt(epsilon)).
    """
    noise = dim**0.75 * math.log(1 / budget.delta) ** 0.25 / math.sqrt(budget.epsilon)
    exact = math.sqrt(horizon)
    stated = Promise(budget.epsilon, budget.delta)
    return Targets(rounded(exact, horizon), exact, exact * (dim + noise), joint=stated)


def rounded(exact: float, horizon: int) -> int:
    """The nearest whole number, at least 1 and at most the horizon."""
    return max(1, min(round(exact), whole("horizon", horizon, 1)))


def _balanced(horizon: int, dim: int, budget: Budget, logs: float) -> float:
    """B with d B = sqrt(logs/epsilon) B^(-1/4) d^(3/4) T^(3/4)."""
    return float((logs / budget.epsilon) ** 0.4 * dim**-0.2 * horizon**0.6)


def _locally_balanced(horizon: int, dim: int, local: Budget, logs: float) -> float:
    """B with d B = sqrt(logs/epsilon_0) d^(3/4) T^(3/4)."""
    return float(math.sqrt(logs / local.epsilon) * dim**-0.25 * horizon**0.75)


def _fixed(horizon: int, dim: int, budget: Budget, inside: int) -> float:
    """Regret at B = T^(3/5), with log(inside/delta)."""
    logs = math.log(inside / budget.delta)
    return float(horizon**0.6 * (dim + dim**0.75 * math.sqrt(logs / budget.epsilon)))


def _amplified(horizon: int, budget: Budget, exact: float, regret: float) -> Targets:
    size = rounded(exact, horizon)
    return _shuffled(size, exact, regret, budget, promises.amplified_local(budget, size))


def _vector_sum(horizon: int, budget: Budget, exact: float, regret: float) -> Targets:
    size = rounded(exact, horizon)
    return _shuffled(size, exact, regret, budget, promises.vector_sum_local(budget, size))


def _shuffled(size: int, exact: float, regret: float, budget: Budget, local: Promise) -> Targets:
    """The budget is for the shuffle model; other users see no more."""
    stated = Promise(budget.epsilon, budget.delta)
    return Targets(size, exact, regret, stated, promises.joint(stated), local)


def _locally(size: int, exact: float, regret: float, shuffle: Promise, local: Budget) -> Targets:
    """The budget is for one report; shuffling adds to it."""
    stated = Promise(local.epsilon, local.delta)
    return Targets(size, exact, regret, shuffle, promises.joint(shuffle), stated)


def _returning(horizon: int, dim: int, budget: Budget, log: float) -> Targets:
    """d B = sqrt(M T/epsilon) d^(3/4) log^(3/4) for users who may be in every batch."""
    exact = math.sqrt(log) * horizon ** (2 / 3) / (dim ** (1 / 6) * budget.epsilon ** (1 / 3))
    stated = Promise(budget.epsilon, budget.delta)
    return Targets(rounded(exact, horizon), exact, dim * exact, shuffle=stated)
