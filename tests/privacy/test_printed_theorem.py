from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from croupier.privacy.budget import Budget
from croupier.privacy.printed_theorem import VectorSumTheorem
from croupier.theory import constants


@given(epsilon=st.floats(0.01, 14.9), delta=st.floats(1e-12, 0.4))
def test_the_theorems_bits_are_worth_the_epsilon_they_were_made_for(
    epsilon: float, delta: float
) -> None:
    bits = constants.vector_sum_noise_bits(Budget(epsilon, delta), 1000, 5, 64.0)
    curve = VectorSumTheorem(math.ceil(1000 * bits), 5, 64.0)
    assert curve.epsilon(delta) == pytest.approx(epsilon, rel=1e-5)
    assert curve.epsilon(delta) <= epsilon * (1 + 1e-11)


@given(epsilon=st.floats(0.01, 0.9), delta=st.floats(1e-9, 0.4), batches=st.integers(2, 100))
def test_composed_bits_are_worth_the_epsilon_they_were_made_for(
    epsilon: float, delta: float, batches: int
) -> None:
    part = constants.composed_budget(Budget(epsilon, delta), batches)
    bits = constants.vector_sum_noise_bits(part, 1000, 5, 64.0)
    curve = VectorSumTheorem(math.ceil(1000 * bits), 5, 64.0, batches)
    assert curve.epsilon(delta) == pytest.approx(epsilon, rel=1e-5)


@given(delta=st.floats(1e-290, 0.49))
def test_a_round_trip_ends_on_the_safe_side(delta: float) -> None:
    curve = VectorSumTheorem(10**11, 5, 64.0)
    assert curve.delta(curve.epsilon(delta)) <= delta


def test_epsilon_is_rounded_up() -> None:
    log = math.log(4 * 26 / 1e-5)
    exact = math.sqrt(24e4 / 10**12) * 64 * log
    assert VectorSumTheorem(10**12, 5, 64.0).epsilon(1e-5) > exact
    part = math.sqrt(24e4 / 10**13) * 64 * math.log(4 * 26 * 4 / 1e-5)
    composed = part * 2 * math.sqrt(2 * 2 * math.log(2 / 1e-5))
    assert VectorSumTheorem(10**13, 5, 64.0, batches=2).epsilon(1e-5) > composed


def test_outside_its_range_the_theorem_promises_nothing() -> None:
    assert VectorSumTheorem(10**11, 5, 64.0).epsilon(0.5) == math.inf
    assert VectorSumTheorem(10**11, 5, 64.0).epsilon(0.49) < math.inf
    few = VectorSumTheorem(10**6, 5, 64.0)
    assert few.epsilon(1e-5) == math.inf
    assert few.delta(1.0) == 1.0
    at_most_15 = VectorSumTheorem(math.ceil(24e4 * (64 * math.log(104e5) / 15.001) ** 2), 5, 64.0)
    assert at_most_15.epsilon(1e-5) == math.inf
    just_below = VectorSumTheorem(math.ceil(24e4 * (64 * math.log(104e5) / 14.999) ** 2), 5, 64.0)
    assert just_below.epsilon(1e-5) == pytest.approx(14.999, rel=1e-6)
    composed = VectorSumTheorem(10**12, 5, 64.0, batches=100)
    assert composed.epsilon(1e-5) == math.inf
