"""Where bounds are met: to the last digit, and never before."""

from __future__ import annotations

import math

import pytest

from croupier.privacy.budget import LEAST_DELTA
from croupier.privacy.search import MOST_DELTA, confirmed, first_delta, first_epsilon


@pytest.mark.parametrize("value", [1e-290, 3e-17, 1e-6, 0.3, 0.999])
def test_a_bound_that_does_not_depend_on_its_tails_is_the_delta(value: float) -> None:
    assert first_delta(lambda _: value) == value


@pytest.mark.parametrize("power", [-0.3, -0.01, 0.01, 0.3])
def test_the_delta_is_the_first_that_is_no_less_than_its_bound(power: float) -> None:
    """The fixed point of c delta^p is c^(1/(1-p)); tails that grow with delta help or hurt."""
    factor = 1e-5

    def bound(delta: float) -> float:
        return float(factor * delta**power)

    found = first_delta(bound)
    assert found == pytest.approx(factor ** (1 / (1 - power)), rel=1e-12, abs=0)
    assert bound(found) <= found
    below = math.nextafter(found, 0.0)
    assert bound(below) > below


def test_a_bound_may_jump() -> None:
    """As it does where a tail is too small for a window."""
    assert first_delta(lambda delta: 1.0 if delta < 3e-4 else 1e-9) == 3e-4
    assert first_delta(lambda delta: 1.0 if delta < 3e-9 else 1e-12) == 3e-9


def test_deltas_have_limits() -> None:
    assert first_delta(lambda _: 1.0) == 1.0
    assert first_delta(lambda _: 0.0) == LEAST_DELTA
    assert first_delta(lambda _: MOST_DELTA) == MOST_DELTA
    assert first_delta(lambda _: math.nan) == 1.0


@pytest.mark.parametrize("value", [0.0, 1e-310, 0.5, 1.0, 2.0])
def test_only_deltas_are_asked_for(value: float) -> None:
    asked = []

    def bound(delta: float) -> float:
        asked.append(delta)
        return value

    first_delta(bound)
    assert LEAST_DELTA <= min(asked) <= max(asked) < 1


@pytest.mark.parametrize("edge", [0.0, 1e-9, 0.7, 1.0, 12345.678])
def test_an_epsilon_is_the_first_float_at_which_it_holds(edge: float) -> None:
    assert first_epsilon(lambda epsilon: epsilon >= edge) == edge


def test_an_epsilon_is_raised_until_the_way_back_confirms_it() -> None:
    asked = []

    def curve(epsilon: float) -> float:
        asked.append(epsilon)
        return 1e-5 if epsilon >= 1 + 1e-12 else 2e-5

    found = confirmed(curve, 1.0, 1e-5)
    assert 1 + 1e-12 <= found < 1 + 1e-11
    assert asked == sorted(asked)
    assert confirmed(curve, 2.0, 1e-5) == 2.0
