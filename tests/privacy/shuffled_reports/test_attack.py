"""The attack on shuffled Gaussian reports: below every proof, and what simulation finds."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.special import log_ndtr

from croupier.privacy import gdp
from croupier.privacy.budget import Budget
from croupier.privacy.shuffled_reports import attack
from croupier.privacy.shuffled_reports.attack import attack_delta, attack_epsilon, attack_sigma
from croupier.privacy.shuffled_reports.gaussian import ShuffledGaussianCurve

TRIALS = 40_000


def simulated(mu: float, users: int, epsilon: float) -> tuple[float, float]:
    """The larger divergence and its standard error, by simulation of the likelihood ratio."""
    rng = np.random.default_rng(20_230)
    ratio = np.exp(mu * rng.normal(size=(TRIALS, users)) - mu**2 / 2).mean(axis=1)
    gains = (np.maximum(ratio - math.exp(epsilon), 0), np.maximum(1 - math.exp(epsilon) * ratio, 0))
    best = max(gains, key=lambda gain: float(gain.mean()))
    return float(best.mean()), float(best.std()) / math.sqrt(TRIALS)


@pytest.mark.parametrize(
    ("mu", "users", "epsilon"),
    [(1.0, 10, 0.3), (1.0, 100, 0.05), (0.5, 37, 0.02), (0.7, 100, 0.1), (1.0, 7, 0.0)],
)
def test_attack_reaches_what_simulation_finds(mu: float, users: int, epsilon: float) -> None:
    mean, error = simulated(mu, users, epsilon)
    reached = attack_delta(mu, users, epsilon)
    # 5 standard errors either way: a false alarm in less than 1 of 10^5 for all cases together.
    assert reached <= mean + 5 * error
    assert reached >= 0.98 * mean - 5 * error


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.0, 3.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 3.0])
def test_alone_the_attack_is_just_below_the_exact_gaussian_curve(mu: float, epsilon: float) -> None:
    exact = gdp.delta_of(mu, epsilon)
    assert 0.98 * exact <= attack_delta(mu, 1, epsilon) <= exact


@pytest.mark.parametrize("mu", [0.1, 0.5, 1.5, 4.0])
@pytest.mark.parametrize("users", [2, 19, 1000, 10**6])
@pytest.mark.parametrize("epsilon", [0.0, 0.05, 1.0, 4.0])
def test_attack_is_below_every_certified_delta(mu: float, users: int, epsilon: float) -> None:
    assert attack_delta(mu, users, epsilon) <= ShuffledGaussianCurve(mu, users).delta(epsilon)


def test_alarm_alone_is_the_divergence_of_the_largest_value() -> None:
    level, reached = attack._best_alarm(1.5, 50, 0.5)
    rng = np.random.default_rng(7)
    values = rng.normal(size=(TRIALS, 50))
    false = (values.max(axis=1) > level).mean()
    values[:, 0] += 1.5
    rung = (values.max(axis=1) > level).mean()
    error = math.sqrt((rung + math.exp(0.5) ** 2 * false) / TRIALS)
    # 5 standard errors: a false alarm in 1 of 10^6.
    assert abs(reached - (rung - math.exp(0.5) * false)) < 5 * error


@pytest.mark.parametrize("users", [2, 3, 37, 1000])
@pytest.mark.parametrize("alarm", [4.0, math.inf])
def test_laws_lose_no_mass(users: int, alarm: float) -> None:
    laws = attack._summed(1.2, users, attack._unit(1.2, users, 0.5, alarm), alarm)
    quiet = users * log_ndtr(alarm)
    one = log_ndtr(alarm - 1.2) - log_ndtr(alarm)
    assert laws.terms == users
    assert laws.without.sum() == pytest.approx(math.exp(quiet), rel=1e-11)
    assert laws.within.sum() == pytest.approx(math.exp(quiet + one), rel=1e-11)


def test_noise_of_the_table_is_broken() -> None:
    sigma = attack_sigma(Budget(1.0, 1e-5), 2.0, 1000)
    assert 40 < math.sqrt(1000) * sigma < 41
    assert attack_delta(2.0 / sigma, 1000, 1.0) > 1e-5


@pytest.mark.parametrize(
    ("epsilon", "delta", "users"), [(1.0, 1e-5, 1000), (0.1, 1e-12, 10**5), (0.5, 1e-2, 30)]
)
def test_epsilon_and_sigma_end_where_the_attack_still_succeeds(
    epsilon: float, delta: float, users: int
) -> None:
    sigma = attack_sigma(Budget(epsilon, delta), 2.0, users)
    reached = attack_epsilon(2.0 / sigma, users, delta)
    assert attack_delta(2.0 / sigma, users, reached) > delta
    assert reached == pytest.approx(epsilon, rel=5e-3)


def test_no_epsilon_is_shown_where_the_noise_hides_everything() -> None:
    assert attack_epsilon(1e-3, 1000, 0.1) == 0


def test_attack_grows_with_mu_and_falls_with_epsilon() -> None:
    by_mu = [attack_delta(mu, 200, 0.3) for mu in (0.3, 0.6, 1.2, 2.4)]
    by_epsilon = [attack_delta(1.0, 200, epsilon) for epsilon in (0.0, 0.1, 0.4, 1.0, 600.0)]
    assert by_mu == sorted(by_mu)
    assert by_epsilon == sorted(by_epsilon, reverse=True)


def test_bad_arguments_are_named() -> None:
    with pytest.raises(ValueError, match="mu"):
        attack_delta(0.0, 10, 1.0)
    with pytest.raises(ValueError, match="users"):
        attack_delta(1.0, 0, 1.0)
    with pytest.raises(ValueError, match="epsilon"):
        attack_delta(1.0, 10, -1.0)
    with pytest.raises(ValueError, match="delta"):
        attack_epsilon(1.0, 10, 1.0)
    with pytest.raises(ValueError, match="distance"):
        attack_sigma(Budget(1.0, 1e-5), 0.0, 10)
