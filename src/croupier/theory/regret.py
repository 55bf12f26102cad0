"""The paper's regret bounds; constants hidden in O are 1, logarithms hidden in O-tilde dropped."""

from __future__ import annotations

import math

from croupier.arguments import whole
from croupier.privacy.budget import Budget
from croupier.theory import confidence
from croupier.theory.scope import Scope, fitting


def slow_rounds(scope: Scope, batch_size: float, lowest: float) -> float:
    """``clm:dif``: rounds whose width is over twice the sequential one, with lambda_min lowest."""
    information = math.log1p(scope.horizon / (scope.dim * lowest))
    return scope.dim * fitting(batch_size, scope.horizon) * information / (2 * math.log(2))


def general(
    scope: Scope, batch_size: float, *, lowest: float, highest: float, drift: float
) -> float:
    """``thm:general`` with lambda_min, lambda_max and nu (``drift``); no constant is hidden.

    It holds with probability 1 - 2 alpha: ``ass:reg`` and the rewards fail with alpha each.
    Its first term is printed twice as large as its proof gives (``clm:dif``); it is kept.
    """
    information = math.log1p(scope.horizon / (scope.dim * lowest))
    radius = confidence.radius(
        scope.horizon,
        scope.dim,
        lowest=lowest,
        highest=highest,
        drift=drift,
        confidence=scope.confidence,
    )
    learnt = math.sqrt(scope.dim * scope.horizon * information)
    return 2 * slow_rounds(scope, batch_size, lowest) + 8 * float(radius) * learnt


def subgaussian(scope: Scope, batch_size: float, sigma: float) -> float:
    """``cor:subG``: d B log T + d sqrt(T) log(T/alpha) + sqrt(sigma T) d^(3/4) log T log(T/alpha).

    ``sigma`` is the noise of a prefix sum per entry; 0 is the batched algorithm without privacy.
    """
    batched = _delay(scope, batch_size) * scope.log_horizon
    learnt = scope.dim * math.sqrt(scope.horizon) * scope.log_failure
    return batched + learnt + _noise(scope, sigma) * scope.log_horizon * scope.log_failure


def subgaussian_rate(scope: Scope, batch_size: float, sigma: float) -> float:
    """``lem:subG-main``: d B + d sqrt(T) + sqrt(sigma T) d^(3/4); O-tilde hides all logarithms."""
    learnt = scope.dim * math.sqrt(scope.horizon)
    return _delay(scope, batch_size) + learnt + _noise(scope, sigma)


def amplified(scope: Scope, batch_size: float, budget: Budget) -> float:
    """``thm:amp``: d B log T + (log(B/delta) log(2/delta))^(1/4) times the rate and logarithms."""
    logs = math.log(batch_size / budget.delta) * math.log(2 / budget.delta)
    return _fresh(scope, batch_size, budget, math.sqrt(logs))


def amplified_main(scope: Scope, batch_size: float, budget: Budget) -> float:
    """``thm:amp-main``: log^(1/2)(B/delta) and log^2(T/alpha), looser than ``thm:amp`` from B = 2.

    At B = 1 it is the smaller one, by (log(1/delta)/log(2/delta))^(1/4).
    """
    private = _private(scope, batch_size, budget, math.log(batch_size / budget.delta))
    return _delay(scope, batch_size) * scope.log_horizon + private * scope.log_failure**2


def vector_sum(scope: Scope, batch_size: float, budget: Budget) -> float:
    """``thm:vec``: d B log T + log^(1/2)(d^2/delta) times the rate and logarithms."""
    return _fresh(scope, batch_size, budget, math.log(scope.dim**2 / budget.delta))


def vector_sum_main(scope: Scope, batch_size: float, budget: Budget) -> float:
    """``thm:vec-main``: the same with log^2(T/alpha) instead of log T log(T/alpha)."""
    private = _private(scope, batch_size, budget, math.log(scope.dim**2 / budget.delta))
    return _delay(scope, batch_size) * scope.log_horizon + private * scope.log_failure**2


def amplified_returning(scope: Scope, batch_size: float, budget: Budget) -> float:
    """``thm:amp_return``, ``thm:return-main`` (i), by substitution into ``thm:amp`` (MATH 1).

    The logarithms are (log(T/delta) log(4M/delta) log(2/delta))^(1/4); the paper prints
    log(2/delta) where the substitution gives log(4M/delta).
    """
    several = math.log(4 * scope.batches(batch_size) / budget.delta)
    logs = math.log(scope.horizon / budget.delta) * several * math.log(2 / budget.delta)
    return _returning(scope, batch_size, budget, logs**0.25)


def vector_sum_returning(scope: Scope, batch_size: float, budget: Budget) -> float:
    """``thm:vec_return``, ``thm:return-main`` (ii): the factor is log^(3/4)(d^2 M/delta)."""
    log = math.log(scope.dim**2 * scope.batches(batch_size) / budget.delta)
    return _returning(scope, batch_size, budget, log**0.75)


def central_returning(scope: Scope, participations: int, budget: Budget) -> float:
    """``prop:JDP-return``: d sqrt(T) + sqrt(M_0 T/epsilon) d^(3/4) log^(1/4)(1/delta).

    O-tilde hides log T, log(T/alpha) and the depth of the tree.
    """
    sigma = whole("participations", participations, 1) * _sigma(budget)
    return scope.dim * math.sqrt(scope.horizon) + _noise(scope, sigma)


def batched_local(scope: Scope, batch_size: float, local: Budget) -> float:
    """Batched-Local-LinUCB: d B + T^(3/4) d^(3/4) log^(1/4)(1/delta) log(T/alpha)/sqrt(epsilon).

    Section ``sec:batched``, first proposition; it prints epsilon, delta for epsilon_0, delta_0.
    O-tilde hides log T.
    """
    noise = _noise(scope, math.sqrt(scope.horizon) * _sigma(local))
    return _delay(scope, batch_size) + noise * scope.log_failure


def batched_central(scope: Scope, batch_size: float, budget: Budget) -> float:
    """Batched-Central-LinUCB: d B + (d sqrt(T) + the private term) log(T/alpha).

    Section ``sec:batched``, second proposition; the private term is the local one with sqrt(T)
    for T^(3/4). The d sqrt(T) log(T/alpha) of ``cor:subG`` is lost in print; it is the largest
    where B < sqrt(T) and d > log(1/delta)/epsilon^2. O-tilde hides log T and the tree's depth.
    """
    learnt = scope.dim * math.sqrt(scope.horizon)
    noisy = learnt + _noise(scope, _sigma(budget))
    return _delay(scope, batch_size) + noisy * scope.log_failure


def sequential_local(horizon: int, local: Budget) -> float:
    """The local model's T^(3/4) log^(1/4)(1/delta)/sqrt(epsilon) (remark to ``lem:subG-main``).

    Zheng et al. 2020; O-tilde hides d and the other logarithms.
    """
    return float(horizon**0.75 * math.sqrt(_sigma(local)))


def sequential_central(horizon: int, budget: Budget) -> float:
    """The central model's T^(1/2) log^(1/4)(1/delta)/sqrt(epsilon) (remark to ``lem:subG-main``).

    Shariff and Sheffet 2018; O-tilde hides d and the other logarithms.
    """
    return math.sqrt(horizon * _sigma(budget))


def _delay(scope: Scope, batch_size: float) -> float:
    """d B: the price of batches."""
    return scope.dim * fitting(batch_size, scope.horizon)


def _noise(scope: Scope, sigma: float) -> float:
    """sqrt(sigma T) d^(3/4): the price of noise."""
    return float(math.sqrt(sigma * scope.horizon) * scope.dim**0.75)


def _sigma(budget: Budget) -> float:
    """sqrt(log(1/delta))/epsilon: Gaussian noise of unit sensitivity."""
    return math.sqrt(math.log(1 / budget.delta)) / budget.epsilon


def _private(scope: Scope, batch_size: float, budget: Budget, logs: float) -> float:
    """sqrt(logs/epsilon) B^(-1/4) d^(3/4) T^(3/4)."""
    return _noise(scope, logs * math.sqrt(scope.batches(batch_size)) / budget.epsilon)


def _fresh(scope: Scope, batch_size: float, budget: Budget, logs: float) -> float:
    private = _private(scope, batch_size, budget, logs) * scope.log_failure
    return (_delay(scope, batch_size) + private) * scope.log_horizon


def _returning(scope: Scope, batch_size: float, budget: Budget, logs: float) -> float:
    private = _noise(scope, scope.batches(batch_size) / budget.epsilon) * logs * scope.log_failure
    return (_delay(scope, batch_size) + private) * scope.log_horizon
