from __future__ import annotations

import math

import pytest

from croupier.privacy.budget import Budget
from croupier.theory import constants, regularizers
from croupier.theory.scope import Scope

T, D, ALPHA, B, EPS, DELTA = 20_000, 5, 0.05, 160, 0.3, 1e-4
SCOPE, BUDGET = Scope(T, D, ALPHA), Budget(EPS, DELTA)
SPREAD = math.sqrt(D) + math.sqrt(math.log(T / (B * ALPHA)))


def same(computed: float, expected: float) -> bool:
    return math.isclose(computed, expected, rel_tol=1e-12)


def test_lambda_of_cor_subg_is_never_below_one() -> None:
    assert same(regularizers.subgaussian(SCOPE, B, 7.0), 7 * SPREAD)
    assert regularizers.subgaussian(SCOPE, B, 0.0) == 1.0
    assert regularizers.subgaussian(SCOPE, B, 1e-3) == 1.0


def test_lambda_of_thm_amp_is_computed_as_printed() -> None:
    sigma = 4 * math.sqrt(2 * math.log(2.5 * B / DELTA) * math.log(2 / DELTA))
    expected = math.sqrt(T) * sigma / (EPS * math.sqrt(B)) * SPREAD
    assert same(regularizers.amplified(SCOPE, B, BUDGET), expected)


def test_lambda_of_thm_vec_is_computed_as_printed() -> None:
    expected = math.log(D**2 / DELTA) * math.sqrt(T) / (EPS * math.sqrt(B)) * SPREAD
    assert same(regularizers.vector_sum(SCOPE, B, BUDGET), expected)


def test_lambda_of_thm_amp_return_is_that_of_thm_amp_at_the_composed_budget() -> None:
    logs = math.log(5 * T / DELTA) * math.log(2 / DELTA) * math.log(4 * (T / B) / DELTA)
    sigma = 16 * math.sqrt(T * logs) / (EPS * B)
    expected = math.sqrt(T) * sigma * SPREAD
    assert same(regularizers.amplified_returning(SCOPE, B, BUDGET), expected)


def test_lambda_of_thm_vec_return_has_its_epsilon_back() -> None:
    printed = T * math.sqrt(math.log(2 / DELTA)) * math.log(D**2 * T / (B * DELTA)) / B * SPREAD
    assert same(regularizers.vector_sum_returning(SCOPE, B, BUDGET), printed / EPS)


def test_the_missing_epsilon_is_what_the_composed_budget_gives() -> None:
    """Substituting into thm:vec leaves 2 sqrt 2 and a 2 inside the logarithm."""
    share = constants.composed_budget(BUDGET, T // B)
    derived = regularizers.vector_sum(SCOPE, B, share)
    stated = regularizers.vector_sum_returning(SCOPE, B, BUDGET)
    inner = math.log(2 * D**2 * (T / B) / DELTA) / math.log(D**2 * (T / B) / DELTA)
    assert math.isclose(derived / stated, 2 * math.sqrt(2) * inner, rel_tol=1e-9)


@pytest.mark.parametrize("scale", [0.5, 0.25])
def test_half_the_epsilon_needs_twice_the_regularizer(scale: float) -> None:
    tighter = Budget(EPS * scale, DELTA)
    for rule in (
        regularizers.amplified,
        regularizers.amplified_returning,
        regularizers.vector_sum,
        regularizers.vector_sum_returning,
    ):
        assert same(rule(SCOPE, B, tighter) * scale, rule(SCOPE, B, BUDGET))
