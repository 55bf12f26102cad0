"""The curve of shuffled Gaussian reports: round trips, order, and the noise of a budget."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from croupier.privacy import gdp
from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import Guarantee, WorstCurve
from croupier.privacy.shuffled_reports import clones, gaussian
from croupier.privacy.shuffled_reports.clones import clones_delta, composed_delta
from croupier.privacy.shuffled_reports.gaussian import (
    ShuffledGaussianCurve,
    WorstShuffledCurve,
    least_sigma,
    local_epsilon,
)

SENSITIVITY = math.sqrt(4.5)

CASES = [(0.5, 1000), (2.0, 1000), (0.3, 10**5), (1.0, 20), (0.9, 10**6), (1.5, 1)]


FLAT = [
    (20152, 3, 4.309133580323569, 8.716910506686957e-11),
    (1012682, 1, 3.0749923352663675, 2.678606129364432e-11),
    (2055175, 10, 6.606802370874474, 1.4417463730138403e-12),
    (123360, 3, 3.509468480067295, 6.314043563699288e-08),
    (54129, 3, 8.261545633683708, 2.3247154898204872e-4),
]
"""Few clones are left where these are at their best, so delta has several valleys."""


def forget() -> None:
    """Clear what earlier searches have kept."""
    for module in (clones, gaussian):
        for kept in vars(module).values():
            if hasattr(kept, "cache_clear"):
                kept.cache_clear()


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


def test_several_batches_are_at_their_best_local_epsilon() -> None:
    curve, epsilon = ShuffledGaussianCurve(0.25, 300, 3), 1.0
    every = (
        composed_delta(local, 300, 3, epsilon)
        + (math.e + 1) * (1 + math.exp(-local) / 2) * 900 * gdp.delta_of(0.25, local)
        for local in map(local_epsilon, range(6200, 6700, 4))
    )
    assert curve.delta(epsilon) == pytest.approx(min(every), rel=2e-3)
    assert curve.delta(epsilon) < gdp.delta_of(0.25 * math.sqrt(3), epsilon)


@pytest.mark.parametrize(("users", "batches", "epsilon", "delta"), FLAT)
def test_a_larger_epsilon_never_needs_more_delta_where_there_are_several_valleys(
    users: int, batches: int, epsilon: float, delta: float
) -> None:
    sigma = least_sigma(Budget(epsilon, delta), sensitivity=1.0, users=users, batches=batches)
    curve = ShuffledGaussianCurve(1 / sigma, users, batches)
    deltas = [curve.delta(epsilon * factor) for factor in np.geomspace(0.5, 4, 7)]
    assert all(later <= earlier * (1 + 1e-6) for earlier, later in pairwise(deltas))


@pytest.mark.parametrize(
    ("users", "batches", "epsilon", "delta"), [*FLAT, (1000, 20, 1.0, 1e-5), (264, 1, 1.0, 1e-5)]
)
def test_the_epsilon_of_calibrated_noise_is_not_above_the_budget(
    users: int, batches: int, epsilon: float, delta: float
) -> None:
    sigma = least_sigma(Budget(epsilon, delta), sensitivity=1.0, users=users, batches=batches)
    curve = ShuffledGaussianCurve(1 / sigma, users, batches)
    assert curve.epsilon(delta) <= epsilon * (1 + 1e-8)
    assert curve.delta(curve.epsilon(delta)) <= delta


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


def test_noise_does_not_depend_on_earlier_questions() -> None:
    forget()
    first = least_sigma(Budget(1.0, 1e-5), sensitivity=SENSITIVITY, users=300, batches=2)
    forget()
    least_sigma(Budget(2.0, 1e-7), sensitivity=SENSITIVITY, users=300, batches=2)
    ShuffledGaussianCurve(0.1, 300, 2).epsilon(1e-5)
    again = least_sigma(Budget(1.0, 1e-5), sensitivity=SENSITIVITY, users=300, batches=2)
    assert first == again


@pytest.mark.parametrize(
    ("users", "batches", "delta", "most"),
    [(1000, 20, 1e-5, 20), (10**6, 10, 1e-5, 25), (1000, 5, 1e-300, 120)],
)
def test_a_calibration_composes_few_losses(
    users: int, batches: int, delta: float, most: int
) -> None:
    forget()
    least_sigma(Budget(1.0, delta), sensitivity=SENSITIVITY, users=users, batches=batches)
    assert 0 < clones.composed_losses.cache_info().misses <= most


@pytest.mark.parametrize(("users", "delta"), [(264, 1e-5), (1000, 1e-5), (10**6, 1e-12)])
def test_a_calibration_for_one_time_users_asks_clones_seldom(users: int, delta: float) -> None:
    forget()
    least_sigma(Budget(1.0, delta), sensitivity=SENSITIVITY, users=users)
    assert 0 < gaussian._amplified.cache_info().misses <= 300


def calibrated(users: int) -> ShuffledGaussianCurve:
    sigma = least_sigma(Budget(1.0, 1e-5), sensitivity=SENSITIVITY, users=users)
    return ShuffledGaussianCurve(SENSITIVITY / sigma, users)


def test_the_worst_of_several_batch_sizes_is_the_largest() -> None:
    curves = (ShuffledGaussianCurve(0.5, 1000), calibrated(500), ShuffledGaussianCurve(0.7, 800))
    quick, slow = WorstShuffledCurve(curves), WorstCurve(curves)
    assert quick.epsilon(1e-5) == slow.epsilon(1e-5) == curves[2].epsilon(1e-5)
    assert quick.delta(1.0) == slow.delta(1.0)
    assert WorstShuffledCurve((ShuffledGaussianCurve(0.01, 1000),)).epsilon(0.1) == 0
    assert WorstShuffledCurve((ShuffledGaussianCurve(1e200, 9), *curves)).epsilon(1e-5) == math.inf


def test_batches_calibrated_alike_are_seldom_asked_for_their_epsilon(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int] = []
    epsilon = ShuffledGaussianCurve.epsilon

    def counted(curve: ShuffledGaussianCurve, delta: float) -> float:
        asked.append(curve.users)
        return epsilon(curve, delta)

    curves = tuple(map(calibrated, range(200, 2200, 100)))
    monkeypatch.setattr(ShuffledGaussianCurve, "epsilon", counted)
    worst = WorstShuffledCurve(curves).epsilon(1e-5)
    assert len(asked) <= 8
    assert all(curve.delta(worst) <= 1e-5 for curve in curves)
    assert worst == pytest.approx(1, rel=1e-8)


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
