"""The curve of shuffled Gaussian reports: round trips, order, and the noise of a budget."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from croupier.privacy import gdp
from croupier.privacy.budget import Budget
from croupier.privacy.clones import clones_delta
from croupier.privacy.guarantee import Guarantee
from croupier.privacy.shuffled_gaussian import ShuffledGaussianCurve, least_sigma, local_epsilon

SENSITIVITY = math.sqrt(4.5)

CASES = [(0.5, 1000), (2.0, 1000), (0.3, 10**5), (1.0, 20), (0.9, 10**6), (1.5, 1)]


def falls(numbers: list[float]) -> bool:
    """Never rises by more than rounding."""
    return all(later <= earlier * (1 + 1e-8) for earlier, later in pairwise(numbers))


@pytest.mark.parametrize(("mu", "users"), CASES)
@pytest.mark.parametrize("delta", [0.1, 1e-3, 1e-6, 1e-12])
def test_delta_at_the_epsilon_of_a_delta_is_within_it(mu: float, users: int, delta: float) -> None:
    curve = ShuffledGaussianCurve(mu, users)
    epsilon = curve.epsilon(delta)
    assert curve.delta(epsilon) <= delta
    if epsilon > 0:
        assert curve.delta(epsilon * (1 - 1e-6)) > delta


@pytest.mark.parametrize(("mu", "users"), CASES)
def test_the_curve_falls_and_is_never_above_the_local_one(mu: float, users: int) -> None:
    curve = ShuffledGaussianCurve(mu, users)
    deltas = [curve.delta(epsilon) for epsilon in np.linspace(0, 6, 13)]
    assert falls(deltas)
    assert all(
        delta <= gdp.delta_of(mu, epsilon)
        for delta, epsilon in zip(deltas, np.linspace(0, 6, 13), strict=True)
    )


def test_a_larger_epsilon_never_needs_more_delta_where_the_leak_outgrows_the_clones() -> None:
    curve = ShuffledGaussianCurve(0.9, 10**6)
    assert falls([curve.delta(epsilon) for epsilon in np.linspace(3.3, 4.5, 25)])


def test_one_batch_is_the_bound_of_the_lemma_at_its_best_local_epsilon() -> None:
    curve, epsilon = ShuffledGaussianCurve(0.5, 1000), 1.0
    every = (
        clones_delta(local, 1000, epsilon)
        + (math.e + 1) * (1 + math.exp(-local) / 2) * 1000 * gdp.delta_of(0.5, local)
        for local in map(local_epsilon, range(6000, 8000))
    )
    assert curve.delta(epsilon) == pytest.approx(min(every), rel=1e-6)


def test_more_users_and_fewer_batches_are_never_worse() -> None:
    assert falls([ShuffledGaussianCurve(0.5, users).delta(0.7) for users in range(1, 3000, 397)])
    by_batches = [ShuffledGaussianCurve(0.3, 1000, batches).delta(0.7) for batches in (4, 3, 2, 1)]
    assert falls(by_batches)


def test_composed_curve_round_trips_and_beats_the_local_one() -> None:
    curve = ShuffledGaussianCurve(0.3, 1000, 3)
    epsilon = curve.epsilon(1e-5)
    assert curve.delta(epsilon) <= 1e-5
    assert epsilon < 0.7 * gdp.epsilon_of(0.3 * math.sqrt(3), 1e-5)


def test_noise_of_the_table_is_met_by_clones() -> None:
    sigma = least_sigma(Budget(1.0, 1e-5), sensitivity=SENSITIVITY, users=1000)
    assert 135 < math.sqrt(1000) * sigma < 136


@pytest.mark.parametrize(
    ("epsilon", "delta", "users", "batches"),
    [
        (1.0, 1e-5, 1000, 1),
        (1.0, 1e-12, 10**6, 1),
        (0.1, 1e-6, 10**5, 1),
        (1.0, 0.1, 20, 1),
        (5.0, 1e-9, 10**5, 1),
        (1.0, 1e-5, 1000, 3),
        (30.0, 1e-3, 50, 2),
        (1e9, 1e-300, 10, 1),
    ],
)
def test_least_sigma_meets_the_budget_and_a_thousandth_less_does_not(
    epsilon: float, delta: float, users: int, batches: int
) -> None:
    budget = Budget(epsilon, delta)
    sigma = least_sigma(budget, sensitivity=SENSITIVITY, users=users, batches=batches)

    def meets(noise: float) -> bool:
        curve = ShuffledGaussianCurve(SENSITIVITY / noise, users, batches)
        return Guarantee("clones", curve).meets(budget)

    assert meets(sigma)
    assert not meets(0.999 * sigma)
    local = SENSITIVITY * math.sqrt(batches) / gdp.mu_of(epsilon, delta)
    assert sigma <= local * (1 + 1e-14)


@pytest.mark.slow
def test_a_larger_budget_never_needs_more_noise() -> None:
    def noise(epsilon: float, delta: float) -> float:
        return least_sigma(Budget(epsilon, delta), sensitivity=SENSITIVITY, users=10**4)

    assert falls([noise(epsilon, 1e-6) for epsilon in np.linspace(0.1, 6, 7)])
    assert falls([noise(0.5, 10.0**-power) for power in range(14, 0, -3)])


def test_clones_have_no_mu() -> None:
    assert Guarantee("clones", ShuffledGaussianCurve(1.0, 10)).mu is None


@pytest.mark.parametrize(
    ("arguments", "name"),
    [((0.0, 10, 1), "mu_local"), ((1.0, 0, 1), "users"), ((1.0, 10, 0), "batches")],
)
def test_bad_arguments_are_named(arguments: tuple[float, int, int], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        ShuffledGaussianCurve(*arguments)


def test_a_bad_sensitivity_is_named() -> None:
    with pytest.raises(ValueError, match="sensitivity"):
        least_sigma(Budget(1.0, 1e-5), sensitivity=0.0, users=10)
