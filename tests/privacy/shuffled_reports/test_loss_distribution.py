"""Discrete privacy losses: splitting keeps both laws, composition is exact, cuts are paid for."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croupier.privacy.shuffled_reports import loss_distribution
from croupier.privacy.shuffled_reports.loss_distribution import (
    Losses,
    composed,
    mirrored,
    split,
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


# A pair in one order only, for epsilons of any size.
