"""The Gaussian curve against the numbers of MATH 3 and against arithmetic in 500 digits."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from croupier.privacy import gdp

SENSITIVITY = math.sqrt(4.5)

# mu, epsilon and Phi(mu/2 - epsilon/mu) - e^epsilon Phi(-mu/2 - epsilon/mu) of just these floats.
EXACT = [
    (1e-09, 0.0, 3.98942280401432703e-10),
    (1e-09, 5e-19, 3.98942280151432703e-10),
    (1e-09, 1.3e-09, 4.55279621161071041e-11),
    (1e-09, 6e-09, 1.56356980066168e-19),
    (1e-09, 2e-08, 1.37001250842972782e-99),
    (1e-09, 3.6e-08, 1.16005395425377694e-294),
    (3e-07, 0.0, 1.19682684120429349e-7),
    (3e-07, 4.5e-14, 1.19682661620433388e-7),
    (3e-07, 3.9e-07, 1.3658391289340108e-8),
    (3e-07, 1.8e-06, 4.69071360955319764e-17),
    (3e-07, 6e-06, 4.11004981431952477e-97),
    (3e-07, 1.08e-05, 3.48018059304214376e-292),
    (0.0001, 0.0, 0.0000398942280235206747),
    (0.0001, 5e-09, 0.0000398917281731177801),
    (0.0001, 0.00013, 4.55309214608826061e-6),
    (0.0001, 0.0006, 1.56403893541425275e-14),
    (0.0001, 0.002, 1.37138319075316015e-94),
    (0.0001, 0.0036, 1.16214390941781922e-289),
    (0.02, 0.0, 0.00797871262926320757),
    (0.02, 0.0002, 0.0078798995385555742),
    (0.02, 0.0262, 0.000903092240575152188),
    (0.02, 0.1202, 3.11747973716964042e-12),
    (0.02, 0.4002, 2.73730785419327707e-92),
    (0.02, 0.7202, 2.31882259746449887e-287),
    (0.3, 0.0, 0.119235384740485032),
    (0.3, 0.045, 0.100324702656744853),
    (0.3, 0.435, 0.0121376032530945263),
    (0.3, 1.845, 4.48219752172455888e-11),
    (0.3, 6.045, 4.04973709290416717e-91),
    (0.3, 10.84, 6.29389601310952851e-286),
    (0.75, 0.0, 0.292339533345447589),
    (0.75, 0.2812, 0.199782549572774455),
    (0.75, 1.256, 0.0259337106875702665),
    (0.75, 4.781, 1.05256949902879919e-10),
    (0.75, 15.28, 1.02437392034082652e-90),
    (0.75, 27.28, 9.05110597846371226e-286),
    (0.999, 0.0, 0.382572813224100624),
    (0.999, 0.499, 0.23828441287196998),
    (0.999, 1.798, 0.0318818087807290177),
    (0.999, 6.493, 1.35214362855250054e-10),
    (0.999, 20.48, 1.27802340945137001e-90),
    (0.999, 36.46, 1.25664004319115013e-285),
    (1.0, 0.0, 0.382924922548026207),
    (1.0, 0.5, 0.238421708134876628),
    (1.0, 1.8, 0.0319233995848938299),
    (1.0, 6.5, 1.3533103960681484e-10),
    (1.0, 20.5, 1.30522490677341101e-90),
    (1.0, 36.5, 1.12877073699973089e-285),
    (1.5, 0.0, 0.546745295246263601),
    (1.5, 1.125, 0.294219333022605309),
    (1.5, 3.075, 0.0414822146633228036),
    (1.5, 10.12, 1.94187897323250848e-10),
    (1.5, 31.12, 2.04510210197933598e-90),
    (1.5, 55.12, 1.88396015497601518e-285),
    (4.0, 0.0, 0.954499736103641586),
    (4.0, 8.0, 0.405589358698031063),
    (4.0, 13.2, 0.0655126304140563578),
    (4.0, 32.0, 3.8490149409303144e-10),
    (4.0, 88.0, 4.57202086951625875e-90),
    (4.0, 152.0, 4.17712409343767601e-285),
    (12.0, 0.0, 0.99999999802682471),
    (12.0, 36.0, 0.998163541374424241),
    (12.0, 72.0, 0.466981028922785465),
    (12.0, 87.6, 0.0839872673500303905),
    (12.0, 144.0, 6.50070915144223249e-10),
    (12.0, 312.0, 1.03000770298726543e-89),
    (12.0, 504.0, 1.04460004728770767e-284),
    (35.0, 507.5, 0.998511741560460512),
    (35.0, 612.5, 0.488610931212881244),
    (35.0, 658.0, 0.0920831613145552299),
    (35.0, 822.5, 8.38483380750753509e-10),
    (35.0, 1312.0, 2.3309634375862698e-89),
    (35.0, 1872.0, 3.44801725159880037e-284),
    (100.0, 4700.0, 0.998604417663836048),
    (100.0, 5000.0, 0.49601097601864319),
    (100.0, 5130.0, 0.0951089554929493614),
    (100.0, 5600.0, 9.29273095577995338e-10),
    (100.0, 7000.0, 2.29357703170497892e-89),
    (100.0, 8600.0, 3.07466578718939176e-284),
    (141.0, 10000.0, 0.3339371871351722),
    (130.0, 10000.0, 4.10708956575648784e-33),
    (1000.0, 10000.0, 1.0),
    (1.0, -2.0, 0.86749642294357747),
    (0.05, -0.01, 0.02521640315720151),
    (1e-09, -1e-09, 1.08331547004602863e-9),
    (20.0, -30.0, 1.0),
]


@pytest.mark.parametrize(("mu", "epsilon", "delta"), EXACT)
def test_delta_agrees_with_exact_arithmetic_to_twelve_digits(
    mu: float, epsilon: float, delta: float
) -> None:
    assert math.isclose(gdp.delta_of(mu, epsilon), delta, rel_tol=1e-12)


def test_the_reference_values_reach_from_one_end_of_the_range_to_the_other() -> None:
    mus, epsilons, deltas = zip(*EXACT, strict=True)
    assert (min(mus), max(mus)) == (1e-9, 1e3)
    assert max(epsilons) == 1e4
    assert min(deltas) < 1e-290
    assert max(deltas) == 1.0


@pytest.mark.parametrize(("mu", "epsilon", "delta"), EXACT)
def test_both_inverses_return_to_the_exact_values(mu: float, epsilon: float, delta: float) -> None:
    if delta == 1 or epsilon < 0:
        return
    # Near 0 an epsilon is known as well as the edge epsilon/mu - mu/2 that it moves.
    assert math.isclose(gdp.epsilon_of(mu, delta), epsilon, rel_tol=1e-12, abs_tol=1e-12 * mu)
    if epsilon > 0:
        assert math.isclose(gdp.mu_of(epsilon, delta), mu, rel_tol=1e-12)


def test_the_two_ways_to_compute_agree_where_they_meet() -> None:
    below = math.nextafter(1.0, 0.0)
    for epsilon in np.linspace(0.0, 37.0, 100):
        first, second = gdp.delta_of(below, float(epsilon)), gdp.delta_of(1.0, float(epsilon))
        assert math.isclose(first, second, rel_tol=1e-12)


@pytest.mark.parametrize(
    ("epsilon", "delta", "sigma"),
    [(1.0, 1e-5, 7.9139), (1.0, 0.1, 2.3035), (0.2, 0.1, 4.8770), (10.0, 0.1, 0.5978)],
)
def test_noise_of_the_check_table(epsilon: float, delta: float, sigma: float) -> None:
    assert gdp.sigma_of(SENSITIVITY, epsilon, delta) == pytest.approx(sigma, abs=0.51e-4)


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
    assert math.isclose(computed, delta, rel_tol=1e-12)


def test_a_curve_without_noise_on_one_side_is_perfect_privacy() -> None:
    assert gdp.delta_of(0.0, 0.0) == 0.0
    assert gdp.delta_of(0.0, 1.0) == 0.0
    assert gdp.delta_of(0.0, -1.0) == -math.expm1(-1.0)
    assert gdp.epsilon_of(0.0, 0.1) == 0.0


def test_an_infinite_mu_promises_nothing() -> None:
    assert gdp.delta_of(math.inf, 0.0) == gdp.delta_of(math.inf, 1e300) == 1.0
    assert gdp.epsilon_of(math.inf, 0.5) == math.inf
    # Its epsilon is about mu^2/2, which is no float any more.
    assert gdp.epsilon_of(1e200, 0.5) == math.inf


def test_mus_at_the_end_of_floating_point_are_answered_without_a_warning() -> None:
    assert gdp.delta_of(5e-324, 1e9) == 0.0
    assert gdp.delta_of(float(np.float64(1e-308)), 1e4) == 0.0
    assert gdp.delta_of(np.float64(1e-308), np.float64(1e4)) == 0.0
    assert gdp.delta_of(1e300, 1e-300) == 1.0


def test_delta_at_zero_is_the_total_variation() -> None:
    for mu in (1e-9, 0.1, 1.0, 4.0):
        assert math.isclose(gdp.delta_of(mu, 0.0), math.erf(mu / 2 / math.sqrt(2)), rel_tol=1e-14)


MUS = st.floats(-9.0, 3.0).map(lambda power: 10.0**power)
EPSILONS = st.floats(-9.0, 4.0).map(lambda power: 10.0**power)
DELTAS = st.floats(-300.0, -0.01).map(lambda power: 10.0**power)


@settings(deadline=None)
@given(MUS, DELTAS)
@example(1e-9, 1e-300)
@example(1e3, 0.9)
def test_a_round_trip_through_epsilon_ends_on_the_safe_side(mu: float, delta: float) -> None:
    epsilon = gdp.epsilon_of(mu, delta)
    assert gdp.delta_of(mu, epsilon) <= delta
    # One step of 1e-12 less is too little, counted in what the curve can tell apart near 0.
    assert epsilon == 0 or gdp.delta_of(mu, epsilon - 1e-12 * (epsilon + mu)) > delta


@settings(deadline=None)
@given(EPSILONS, DELTAS)
@example(1e-9, 1e-300)
@example(1e4, 1e-300)
def test_a_round_trip_through_mu_ends_on_the_safe_side(epsilon: float, delta: float) -> None:
    mu = gdp.mu_of(epsilon, delta)
    assert gdp.delta_of(mu, epsilon) <= delta
    assert gdp.delta_of(mu * (1 + 1e-12), epsilon) > delta


@settings(deadline=None)
@given(st.floats(1e-3, 1e6), EPSILONS, DELTAS)
def test_noise_for_a_budget_meets_it_to_the_last_digit(
    sensitivity: float, epsilon: float, delta: float
) -> None:
    sigma = gdp.sigma_of(sensitivity, epsilon, delta)
    assert gdp.delta_of(sensitivity / sigma, epsilon) <= delta
    assert gdp.delta_of(sensitivity / (sigma * (1 - 1e-12)), epsilon) > delta


@given(MUS, EPSILONS, st.floats(1e-9, 1.0))
def test_delta_falls_with_epsilon_and_rises_with_mu(mu: float, epsilon: float, more: float) -> None:
    delta = gdp.delta_of(mu, epsilon)
    assert gdp.delta_of(mu, epsilon * (1 + more)) <= delta * (1 + 1e-12)
    assert gdp.delta_of(mu * (1 + more), epsilon) >= delta * (1 - 1e-12)


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


@pytest.mark.parametrize("mu", [-1e-9, -math.inf, math.nan])
def test_a_mu_that_is_no_size_is_refused(mu: float) -> None:
    with pytest.raises(ValueError, match=f"mu must be at least 0, got {mu!r}"):
        gdp.delta_of(mu, 1.0)
    with pytest.raises(ValueError, match=f"mu must be at least 0, got {mu!r}"):
        gdp.epsilon_of(mu, 0.1)
    with pytest.raises(ValueError, match=f"mu must be at least 0, got {mu!r}"):
        gdp.compose([1.0, mu])


@pytest.mark.parametrize("sensitivity", [0.0, -1.0, math.inf])
def test_a_sensitivity_that_is_no_size_is_refused(sensitivity: float) -> None:
    with pytest.raises(ValueError, match=f"sensitivity must be .*, got {sensitivity!r}"):
        gdp.sigma_of(sensitivity, 1.0, 0.1)


def test_composition_adds_squares() -> None:
    assert gdp.compose([3.0, 4.0]) == 5.0
    assert gdp.compose([]) == 0.0
    assert math.isclose(gdp.compose([0.1] * 400), 2.0, rel_tol=1e-12)
