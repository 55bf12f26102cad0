from __future__ import annotations

import dataclasses
import math

import pytest

from croupier.privacy.budget import Budget


@pytest.mark.parametrize("epsilon", [0.0, -1.0, math.inf, math.nan, True, "1"])
def test_an_epsilon_that_promises_nothing_is_refused(epsilon: float) -> None:
    with pytest.raises(ValueError, match=f"epsilon must be .*, got {epsilon!r}"):
        Budget(epsilon, 0.1)


@pytest.mark.parametrize("delta", [0.0, -1e-9, 1.0, 1.5, math.nan])
def test_a_delta_outside_the_open_unit_interval_is_refused(delta: float) -> None:
    with pytest.raises(ValueError, match=f"delta must be .*, got {delta!r}"):
        Budget(1.0, delta)


def test_a_budget_keeps_its_numbers_and_cannot_be_changed() -> None:
    budget = Budget(0.5, 1e-300)
    assert (budget.epsilon, budget.delta) == (0.5, 1e-300)
    with pytest.raises(dataclasses.FrozenInstanceError):
        budget.epsilon = 2.0  # type: ignore[misc]
