"""Discrete privacy losses: splitting keeps both laws, composition is exact, cuts are paid for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croupier.privacy import gdp
from croupier.privacy.shuffled_reports import loss_distribution
from croupier.privacy.shuffled_reports.loss_distribution import (
    Losses,
    composed,
    dominating,
    dominating_above,
    mirrored,
    split,
    together,
)

RESPONSE = np.array([math.exp(1.0), 1.0]) / (math.exp(1.0) + 1)
"""Randomised response with epsilon 1, and its two losses."""

EDGES = np.array([1.0, -1.0])


def response_delta(times: int, epsilon: float) -> float:
    """The exact delta of ``times`` randomised responses, by the number of truths."""
    truths = np.arange(times + 1)
    ways = np.array([math.comb(times, int(count)) for count in truths], float)
    masses = ways * RESPONSE[0] ** truths * RESPONSE[1] ** (times - truths)
    return float(masses @ np.maximum(0, -np.expm1(epsilon - (2 * truths - times))))


@given(st.lists(st.floats(-3, 3), min_size=1, max_size=8), st.floats(0.01, 1.0))
@settings(max_examples=100, deadline=None)
def test_splitting_keeps_both_masses_and_never_lowers_delta(
    places: list[float], step: float
) -> None:
    where = np.array(places)
    masses = np.full(where.size, 1 / where.size)
    made = split(where, masses, step)
    grid = (made.lowest + np.arange(made.masses.size)) * step
    assert made.masses.sum() == pytest.approx(1, rel=1e-12)
    assert made.masses @ np.exp(-grid) == pytest.approx(masses @ np.exp(-where), rel=1e-9)
    for epsilon in (-1.0, 0.0, 0.3, 2.0):
        exact = float(masses @ np.maximum(0, -np.expm1(epsilon - where)))
        assert made.delta(epsilon) >= exact * (1 - 1e-12)


@pytest.mark.parametrize("times", [1, 2, 3, 7, 40])
@pytest.mark.parametrize("epsilon", [0.0, 0.5, 1.0, 2.5])
def test_composition_on_the_grid_is_exact(times: int, epsilon: float) -> None:
    made = composed(split(EDGES, RESPONSE, 0.5), times)
    assert made.delta(epsilon) == pytest.approx(response_delta(times, epsilon), rel=1e-8)


def test_the_far_tail_keeps_its_relative_precision() -> None:
    exact = response_delta(40, 38.0)
    rare = composed(split(EDGES, RESPONSE[::-1].copy(), 0.5), 40)
    assert composed(split(EDGES, RESPONSE, 0.5), 40).delta(38.0) == pytest.approx(
        exact, rel=1e-8, abs=0
    )
    upper = RESPONSE[1] ** 40 * -math.expm1(39.0 - 40.0)
    assert upper < 1e-20
    assert rare.delta(39.0) == pytest.approx(upper, rel=1e-6, abs=0)


def test_mass_that_is_cut_off_is_paid_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(loss_distribution, "NEGLIGIBLE", 0.01)
    cut = composed(split(EDGES, RESPONSE, 0.5), 20)
    assert cut.infinite > 0
    assert cut.infinite + cut.masses.sum() == pytest.approx(1, rel=1e-12)
    for epsilon in (0.0, 5.0, 10.0, 19.0):
        assert cut.delta(epsilon) >= response_delta(20, epsilon)


@pytest.mark.parametrize("times", [40, 63, 200])
@pytest.mark.parametrize("epsilon", [0.0, 5.0, 30.0])
def test_a_coarser_grid_for_wide_sums_costs_little_and_is_on_the_safe_side(
    times: int, epsilon: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_distribution, "MOST_CELLS", 256)
    made = composed(split(EDGES, RESPONSE, 0.25), times)
    assert made.masses.size <= 256
    assert made.step > 0.25
    exact = response_delta(times, epsilon)
    assert exact <= made.delta(epsilon) <= 1.05 * exact + 1e-12


def test_a_mirrored_half_has_both_laws_of_the_whole() -> None:
    whole = split(EDGES, RESPONSE, 0.5)
    half = mirrored(split(EDGES[:1], RESPONSE[:1], 0.5, 1e-9))
    assert half.infinite == 1e-9
    assert half.masses.sum() == pytest.approx(1)
    for epsilon in (-2.0, 0.0, 0.3, 1.5):
        assert half.delta(epsilon) == pytest.approx(whole.delta(epsilon) + 1e-9, rel=1e-9, abs=0)


def test_infinite_losses_add_up_over_compositions() -> None:
    made = composed(Losses(1.0, 0, np.array([1.0]), 1e-6), 5)
    assert made.delta(0.0) == pytest.approx(5e-6)


def test_the_slope_is_the_derivative_of_delta_in_the_exponential() -> None:
    made = composed(split(EDGES, RESPONSE, 0.5), 3)
    rise = made.delta(0.21) - made.delta(0.2)
    assert rise / (math.exp(0.21) - math.exp(0.2)) == pytest.approx(-made.slope(0.2), rel=1e-6)


# A pair for a curve.


def tabled(mu: float, step: float, cells: int) -> np.ndarray:
    return np.array([gdp.delta_of(mu, step * cell) for cell in range(cells + 1)])


@pytest.mark.parametrize("mu", [0.01, 0.7, 3.0])
def test_a_pair_has_its_curve_on_the_grid_and_is_no_better_in_between(mu: float) -> None:
    step = mu / 16
    made = dominating(tabled(mu, step, 16 * 12), step)
    assert made is not None
    assert made.masses.sum() + made.infinite == pytest.approx(1, abs=1e-12)
    assert made.masses @ np.exp(-made.grid) + made.infinite == pytest.approx(1, abs=1e-12)
    for cell in (0, 1, 5, 40, 100):
        assert made.delta(step * cell) == pytest.approx(
            gdp.delta_of(mu, step * cell), rel=1e-7, abs=0
        )
        assert made.delta(step * (cell + 0.5)) > gdp.delta_of(mu, step * (cell + 0.5))


@pytest.mark.parametrize("mu", [1e-8, 1e-6, 0.01, 3.0])
def test_a_pair_keeps_the_digits_of_its_curve_even_where_ratios_are_next_to_one(
    mu: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_distribution, "ROUNDING", 0.0)
    table = tabled(mu, mu / 32, 32 * 12)
    made = dominating(table, mu / 32)
    assert made is not None
    for cell in range(0, 32 * 11, 5):
        assert made.delta(mu / 32 * cell) == pytest.approx(table[cell], rel=1e-12, abs=0)


@pytest.mark.parametrize("mu", [0.01, 0.7, 3.0])
def test_pairs_of_curves_compose_as_the_curves_do(mu: float) -> None:
    first = dominating(tabled(mu, mu / 32, 32 * 14), mu / 32)
    second = dominating(tabled(mu / 3, mu / 64, 64 * 6), mu / 64)
    assert first is not None
    assert second is not None
    for made, true in (
        (composed(first, 9), 3 * mu),
        (together(first, second), math.hypot(mu, mu / 3)),
        (together(second, first), math.hypot(mu, mu / 3)),
    ):
        for level in (0.1, 0.5, 2.0, 4.0):
            epsilon = true * level
            needed = gdp.mu_of(epsilon, made.delta(epsilon))
            assert true <= needed <= true * (1 + 5e-4)


def test_what_is_above_the_lower_hull_of_a_curve_does_not_count() -> None:
    clean = tabled(1.0, 0.1, 120)
    bent = clean.copy()
    bent[35] *= 1.5
    made, bumped = dominating(clean, 0.1), dominating(bent, 0.1)
    assert made is not None
    assert bumped is not None
    for cell in (0, 20, 34, 36, 60):
        assert bumped.delta(0.1 * cell) == pytest.approx(made.delta(0.1 * cell), rel=1e-7, abs=0)
    low, high, place = (math.exp(0.1 * cell) for cell in (34, 36, 35))
    chord = (clean[34] * (high - place) + clean[36] * (place - low)) / (high - low)
    assert bumped.delta(3.5) == pytest.approx(chord, rel=1e-7)
    assert bumped.delta(3.5) > made.delta(3.5)


def test_a_curve_of_nothing_that_an_exchange_turns_round_has_no_pair() -> None:
    assert dominating(np.array([0.9, 0.0, 0.0]), 0.1) is None
    assert dominating(np.array([math.nan, 0.1]), 0.1) is None


# A pair in one order only, for epsilons of any size.


def far_table(
    mu: float, per_mu: int, lowest: float, highest: float
) -> tuple[np.ndarray, float, int]:
    """Deltas from so many standard deviations below the mean loss on, the step, the first cell."""
    step = mu / per_mu
    first, last = (math.floor((mu / 2 + level) * mu / step) for level in (lowest, highest))
    return gdp.deltas_of(mu, np.arange(first, last + 1) * np.float64(step)), step, first


@pytest.mark.parametrize("mu", [0.7, 3.0, 40.0, 2000.0])
def test_a_pair_in_one_order_has_its_curve_from_the_first_cell_on(
    mu: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(loss_distribution, "ROUNDING", 0.0)
    table, step, first = far_table(mu, 16, -9.0, 12.0)
    made = dominating_above(table, step, first)
    assert made.masses.sum() + made.infinite == pytest.approx(1, abs=1e-12)
    assert np.all(made.masses >= 0)
    for cell in (0, 1, 40, 150, 200, 300):
        epsilon = step * (first + cell)
        assert made.delta(epsilon) == pytest.approx(table[cell], rel=1e-9, abs=0)
        middle = epsilon + step / 2
        between = made.delta(middle) * (1 + 1e-12)
        assert gdp.delta_of(mu, middle) <= between <= table[cell] * (1 + 2e-12)
    # Below the first cell losses count as if they were there.
    below = step * (first - 5)
    assert gdp.delta_of(mu, below) <= made.delta(below) * (1 + 1e-12) <= 1 + 2e-12


@pytest.mark.parametrize("mu", [3.0, 40.0])
def test_pairs_in_one_order_compose_as_their_curves_do(mu: float) -> None:
    one = dominating_above(*far_table(mu, 32, -10.0, 12.0))
    for times in (2, 3, 20):
        true = mu * math.sqrt(times)
        made = composed(one, times)
        for level in (-2.0, 0.0, 2.0, 5.0):
            epsilon = true * (true / 2 + level)
            assert true <= gdp.mu_of(epsilon, made.delta(epsilon)) <= true * (1 + 1e-3)


def test_a_table_that_starts_late_is_only_worse() -> None:
    late, full = (dominating_above(*far_table(5.0, 16, low, 12.0)) for low in (-1.0, -10.0))
    for level in (-3.0, -1.0, 0.0, 3.0):
        epsilon = 5 * (2.5 + level)
        assert late.delta(epsilon) >= full.delta(epsilon) * (1 - 1e-9)
        assert composed(late, 3).delta(3 * epsilon) > composed(full, 3).delta(3 * epsilon)


def test_what_is_above_the_hull_of_a_curve_in_one_order_does_not_count_either() -> None:
    table, step, first = far_table(5.0, 16, -8.0, 10.0)
    bent = table.copy()
    bent[[0, 100, 180]] = 1.0, 1.0, bent[180] * 1.7
    clean, bumped = (dominating_above(one, step, first) for one in (table, bent))
    for cell in (0, 50, 99, 100, 101, 180, 200):
        epsilon = step * (first + cell)
        assert clean.delta(epsilon) <= bumped.delta(epsilon) * (1 + 1e-9)
        assert bumped.delta(epsilon) <= bent[cell] * (1 + 1e-9)
    assert bumped.delta(step * (first + 100)) < 1.02 * clean.delta(step * (first + 100))


def test_a_curve_that_says_nothing_is_an_infinite_loss() -> None:
    made = dominating_above(np.ones(5), 0.5, 7)
    assert made.infinite == 1.0
    assert made.masses.sum() == 0
    half = dominating_above(np.full(5, 0.25), 0.5, 7)
    assert half.infinite == 0.25
    assert half.delta(3.4) == pytest.approx(0.25 + 0.75 * -math.expm1(3.4 - 3.5))
    assert half.delta(3.5) == pytest.approx(0.25)


@pytest.mark.parametrize("deltas", [[0.4, 0.1, 0.02], [0.5, 0.35, 0.25, 0.2]])
def test_a_pair_has_all_of_its_mass_however_much_the_last_cell_falls(deltas: list[float]) -> None:
    table = np.array(deltas)
    for made in (dominating(table, 0.7), dominating_above(table, 0.7, -1)):
        assert made is not None
        assert made.infinite == deltas[-1]
        assert made.masses.min() >= 0
        assert made.masses.sum() + made.infinite == pytest.approx(1, abs=1e-14)
