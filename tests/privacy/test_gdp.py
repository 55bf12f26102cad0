"""The Gaussian curve against the numbers of MATH 3 and against 150-digit arithmetic."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croupier.privacy import gdp

SENSITIVITY = math.sqrt(4.5)


def upper_tail(point: Decimal) -> Decimal:
    """P[N(0,1) > point] by the Taylor series of the integral, in many digits."""
    term = total = point
    for index in range(1, 4000):
        term *= point * point / (2 * index + 1)
        total += term
        if abs(term) < Decimal(10) ** -110 * abs(total):
            break
    pi = Decimal(
        "3.14159265358979323846264338327950288419716939937510582097494459230781640628620899862803"
        "482534211706798214808651328230664709384460955058223172535940812848111745"
    )
    density = (-point * point / 2).exp() / (2 * pi).sqrt()
    return Decimal("0.5") - density * total


def exact_delta(mu: float, epsilon: float) -> Decimal:
    size, loss = Decimal(mu), Decimal(epsilon)
    kept = upper_tail(loss / size - size / 2)
    lost = upper_tail(loss / size + size / 2)
    return kept - loss.exp() * lost


@pytest.mark.parametrize(
    ("mu", "epsilon"), [(0.268, 1.0), (1.0, 0.0), (1.0, 0.5), (3.0, 10.0), (0.05, 0.2), (0.3, 3.0)]
)
def test_delta_agrees_with_exact_arithmetic_to_twelve_digits(mu: float, epsilon: float) -> None:
    with localcontext(prec=150):
        exact = float(exact_delta(mu, epsilon))
    assert math.isclose(gdp.delta_of(mu, epsilon), exact, rel_tol=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"),
    [(1.0, 1e-5, 7.9139), (1.0, 0.1, 2.3035), (0.2, 0.1, 4.8770), (10.0, 0.1, 0.5978)],
)
def test_noise_of_the_check_table(epsilon: float, delta: float, sigma: float) -> None:
    assert SENSITIVITY / gdp.mu_of(epsilon, delta) == pytest.approx(sigma, abs=0.51e-4)


@pytest.mark.parametrize("power", [50, 150, 250, 300])
def test_deltas_far_in_the_tail_are_computed_and_not_rounded_to_zero(power: int) -> None:
    delta = 10.0**-power
    epsilon = gdp.epsilon_of(1.0, delta)
    computed = gdp.delta_of(1.0, epsilon)
    assert 0 < computed <= delta
    # Far out delta is the density at x = epsilon - 1/2 times 1/x^2 up to a known bracket.
    point = epsilon - 0.5
    density = math.exp(-point * point / 2) / math.sqrt(2 * math.pi)
    below = 1 / point - 1 / point**3 - 1 / (point + 1)
    above = 1 / point - (1 / (point + 1) - 1 / (point + 1) ** 3)
    assert density * below <= computed <= density * above
    assert math.isclose(computed, delta, rel_tol=1e-9)


def test_a_curve_without_noise_on_one_side_is_perfect_privacy() -> None:
    assert gdp.delta_of(0.0, 0.0) == 0.0
    assert gdp.delta_of(0.0, 1.0) == 0.0
    assert gdp.epsilon_of(0.0, 0.1) == 0.0


def test_delta_at_zero_is_the_total_variation() -> None:
    for mu in (0.1, 1.0, 4.0):
        assert math.isclose(gdp.delta_of(mu, 0.0), math.erf(mu / 2 / math.sqrt(2)), rel_tol=1e-12)


MUS = st.floats(1e-3, 20.0)
DELTAS = st.floats(-250.0, -0.01).map(lambda power: 10.0**power)


@settings(deadline=None)
@given(MUS, DELTAS)
def test_a_round_trip_through_epsilon_ends_on_the_safe_side(mu: float, delta: float) -> None:
    epsilon = gdp.epsilon_of(mu, delta)
    assert gdp.delta_of(mu, epsilon) <= delta
    if epsilon > 0:
        assert gdp.delta_of(mu, epsilon * (1 - 1e-9)) >= delta * (1 - 1e-6)


@settings(deadline=None)
@given(st.floats(0.01, 20.0), DELTAS)
def test_a_round_trip_through_mu_ends_on_the_safe_side(epsilon: float, delta: float) -> None:
    mu = gdp.mu_of(epsilon, delta)
    assert gdp.delta_of(mu, epsilon) <= delta
    assert gdp.delta_of(mu * (1 + 1e-6), epsilon) > delta


@given(MUS, st.floats(0.0, 20.0), st.floats(0.0, 5.0))
def test_delta_falls_with_epsilon(mu: float, epsilon: float, more: float) -> None:
    first, second = gdp.delta_of(mu, epsilon), gdp.delta_of(mu, epsilon + more)
    assert second <= first * (1 + 1e-9) + 1e-15


@pytest.mark.parametrize("delta", [0.0, 1.0, -0.1, math.nan])
def test_a_delta_outside_the_open_unit_interval_is_refused(delta: float) -> None:
    with pytest.raises(ValueError, match="delta must be between 0 and 1"):
        gdp.epsilon_of(1.0, delta)
    with pytest.raises(ValueError, match="delta must be between 0 and 1"):
        gdp.mu_of(1.0, delta)


def test_epsilons_that_are_no_numbers_are_refused() -> None:
    with pytest.raises(ValueError, match="epsilon must be above 0, got 0"):
        gdp.mu_of(0.0, 0.1)
    with pytest.raises(ValueError, match="epsilon must be a finite number, got nan"):
        gdp.delta_of(1.0, math.nan)


def test_composition_adds_squares() -> None:
    assert gdp.compose([3.0, 4.0]) == 5.0
    assert gdp.compose([]) == 0.0
    assert math.isclose(gdp.compose([0.1] * 400), 2.0, rel_tol=1e-12)
