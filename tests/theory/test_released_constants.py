"""The authors' constants against the numbers that their script prints (MATH 8)."""

from __future__ import annotations

import math

import pytest

from croupier.plan import Plan
from croupier.policies.ucb import Ucb
from croupier.privacy.budget import Budget
from croupier.theory import constants, released

HORIZON, USERS, DELTA, NORM = 20_000, 20, 0.1, math.sqrt(2)

# name, dim, epsilon, regularizer, radius, noise
GAUSSIAN = [
    ("central", 5, 0.2, 712.82, 46.49, 50.6487),
    ("amplified-gaussian", 5, 0.2, 1762.75, 70.53, 2.7872),
    ("local", 5, 0.2, 5673.51, 123.07, 8.9706),
    ("central", 5, 1, 142.56, 23.38, 10.1297),
    ("amplified-gaussian", 5, 1, 352.55, 34.07, 0.5574),
    ("local", 5, 1, 1134.7, 57.47, 1.7941),
    ("central", 5, 10, 14.26, 10.78, 1.013),
    ("amplified-gaussian", 5, 10, 35.26, 14.08, 0.0557),
    ("local", 5, 10, 113.47, 21.38, 0.1794),
    ("central", 10, 0.2, 1008.07, 76.97, 50.6487),
    ("amplified-gaussian", 10, 0.2, 2492.91, 117.43, 2.7872),
    ("local", 10, 0.2, 8023.56, 205.84, 8.9706),
    ("central", 10, 1, 201.61, 38.05, 10.1297),
    ("amplified-gaussian", 10, 1, 498.58, 56.05, 0.5574),
    ("local", 10, 1, 1604.71, 95.45, 1.7941),
    ("central", 10, 10, 20.16, 16.78, 1.013),
    ("amplified-gaussian", 10, 10, 49.86, 22.36, 0.0557),
    ("local", 10, 10, 160.47, 34.67, 0.1794),
    ("central", 15, 0.2, 1234.63, 103.5, 50.6487),
    ("amplified-gaussian", 15, 0.2, 3053.18, 158.36, 2.7872),
    ("local", 15, 0.2, 9826.81, 278.22, 8.9706),
    ("central", 15, 1, 246.93, 50.7, 10.1297),
    ("amplified-gaussian", 15, 1, 610.64, 75.12, 0.5574),
    ("local", 15, 1, 1965.36, 128.56, 1.7941),
    ("central", 15, 10, 24.69, 21.82, 1.013),
    ("amplified-gaussian", 15, 10, 61.06, 29.4, 0.0557),
    ("local", 15, 10, 196.54, 46.12, 0.1794),
]

# dim, epsilon, regularizer, radius, noise on the batch sum, noise bits
VECTOR_SUM = [
    (5, 0.2, 691.55, 45.86, 8.4724, 1530),
    (5, 1, 138.31, 23.1, 5.3619, 612),
    (5, 10, 13.83, 10.7, 0.5863, 6),
    (10, 0.2, 1151.29, 81.82, 9.9712, 2650),
    (10, 1, 230.26, 40.21, 6.3087, 1060),
    (10, 10, 23.03, 17.45, 0.6519, 10),
    (15, 0.2, 1534.19, 114.48, 10.8492, 7061),
    (15, 1, 306.84, 55.59, 6.8621, 2824),
    (15, 10, 30.68, 23.33, 0.6992, 28),
]


def prints(computed: float | None, value: float, places: int) -> bool:
    """Within half a unit of the last printed digit, and a little for rounding itself."""
    return computed is not None and abs(computed - value) <= 0.51 * 10**-places


def noise(name: str, budget: Budget) -> float:
    if name == "central":
        return released.central_sigma(budget, HORIZON)
    if name == "local":
        return released.local_sigma(budget)
    return released.amplified_sigma(budget, USERS)


def plan(name: str, dim: int, epsilon: float) -> Plan:
    return Plan.calibrate(
        name,
        dim=dim,
        batch_size=USERS,
        horizon=HORIZON,
        calibration="released",
        epsilon=epsilon,
        delta=DELTA,
        feature_norm=NORM,
    )


@pytest.mark.parametrize(("name", "dim", "epsilon", "regularizer", "radius", "sigma"), GAUSSIAN)
def test_gaussian_rows_print_as_in_the_authors_script(
    name: str, dim: int, epsilon: float, regularizer: float, radius: float, sigma: float
) -> None:
    per_entry = noise(name, Budget(epsilon, DELTA))
    grown = math.log(HORIZON) if name == "central" else HORIZON
    scale = released.private_scale(per_entry * math.sqrt(grown * dim))
    assert prints(per_entry, sigma, 4)
    assert prints(scale.regularizer, regularizer, 2)
    assert prints(released.radius(scale.scale, dim, HORIZON, NORM), radius, 2)


@pytest.mark.parametrize(("name", "dim", "epsilon", "regularizer", "radius", "sigma"), GAUSSIAN)
def test_released_plans_of_gaussian_rows_carry_those_numbers(
    name: str, dim: int, epsilon: float, regularizer: float, radius: float, sigma: float
) -> None:
    made = plan(name, dim, epsilon)
    assert isinstance(made.policy, Ucb)
    assert prints(made.release(0).parameters["sigma"], sigma, 4)
    assert prints(made.policy.regularizer, regularizer, 2)
    assert prints(made.policy.radius, radius, 2)


@pytest.mark.parametrize(("dim", "epsilon", "regularizer", "radius", "std", "bits"), VECTOR_SUM)
def test_vector_sum_rows_print_as_in_the_authors_script(
    dim: int, epsilon: float, regularizer: float, radius: float, std: float, bits: int
) -> None:
    budget = Budget(epsilon, DELTA)
    grid = constants.vector_sum_grid(USERS, dim)
    whole = math.floor(released.vector_sum_noise_bits(budget, USERS, dim, grid))
    entering = released.vector_sum_scale(budget, USERS, dim) * math.sqrt(HORIZON * dim)
    assert whole == bits
    assert prints(released.private_scale(entering).regularizer, regularizer, 2)
    assert prints(released.radius(entering, dim, HORIZON, NORM), radius, 2)
    made = plan("vector-sum", dim, epsilon)
    assert made.release(0).parameters["noise_bits"] == bits
    assert prints(made.release(0).noise_std, std, 4)
    assert isinstance(made.policy, Ucb)
    assert prints(made.policy.radius, radius, 2)


@pytest.mark.parametrize(("dim", "radius"), [(5, 7.3), (10, 10.32), (15, 12.64)])
def test_without_privacy_the_scale_is_one_and_the_regularizer_tiny(dim: int, radius: float) -> None:
    assert released.NOT_PRIVATE.regularizer == 1e-4
    assert prints(released.radius(released.NOT_PRIVATE.scale, dim, HORIZON, NORM), radius, 2)
