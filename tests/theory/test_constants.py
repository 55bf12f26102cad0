"""The theorems' noise, recomputed with 40 digits from the printed formulas."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from croupier.errors import GuaranteeError
from croupier.privacy.budget import Budget
from croupier.theory import constants

CASES = [(0.05, 1e-5, 1000, 5), (0.2, 0.1, 20, 5), (1.0, 1e-6, 10_000, 10), (10.0, 0.01, 7, 40)]


def ln(value: Decimal) -> Decimal:
    return value.ln()


def agrees(computed: float, exact: Decimal) -> bool:
    return math.isclose(computed, float(exact), rel_tol=1e-12)


@pytest.mark.parametrize(("epsilon", "delta", "users", "dim"), CASES)
def test_amplified_sigma_is_that_of_thm_amp_main(
    epsilon: float, delta: float, users: int, dim: int
) -> None:
    with localcontext(prec=40):
        eps, dlt, size = Decimal(epsilon), Decimal(delta), Decimal(users)
        logs = 2 * ln(Decimal("2.5") * size / dlt) * ln(2 / dlt)
        exact = 4 * logs.sqrt() / (eps * size.sqrt())
    assert agrees(constants.amplified_sigma(Budget(epsilon, delta), users), exact)


@pytest.mark.parametrize(("epsilon", "delta", "users", "dim"), CASES)
def test_grid_and_noise_bits_are_those_of_thm_vec(
    epsilon: float, delta: float, users: int, dim: int
) -> None:
    with localcontext(prec=40):
        eps, dlt, size = Decimal(epsilon), Decimal(delta), Decimal(users)
        grid = max(2 * size.sqrt(), Decimal(dim), Decimal(4))
        bits = 24 * 10**4 * grid**2 * ln(4 * (dim**2 + 1) / dlt) ** 2 / (eps**2 * size)
    computed = constants.vector_sum_grid(users, dim)
    budget = Budget(epsilon, delta)
    assert agrees(computed, grid)
    assert agrees(constants.vector_sum_noise_bits(budget, users, dim, computed), bits)


def test_each_term_of_the_grid_can_be_the_largest() -> None:
    assert constants.vector_sum_grid(25, 3) == 10
    assert constants.vector_sum_grid(25, 13) == 13
    assert constants.vector_sum_grid(1, 2) == 4


@pytest.mark.parametrize(("epsilon", "delta", "users", "dim"), CASES)
def test_local_sigma_is_that_of_cor_amp_priv(
    epsilon: float, delta: float, users: int, dim: int
) -> None:
    with localcontext(prec=40):
        exact = 4 * (2 * ln(Decimal("2.5") / Decimal(delta))).sqrt() / Decimal(epsilon)
    assert agrees(constants.local_sigma(Budget(epsilon, delta)), exact)


def test_amplified_sigma_is_the_local_one_at_the_amplified_local_budget() -> None:
    epsilon, delta, users = 0.01, 1e-6, 5000
    local = Budget(epsilon * math.sqrt(users / math.log(2 / delta)), delta / users)
    amplified = constants.amplified_sigma(Budget(epsilon, delta), users)
    assert math.isclose(constants.local_sigma(local), amplified, rel_tol=1e-12)


@pytest.mark.parametrize(("steps", "depth"), [(1, 1), (2, 2), (3, 3), (1024, 11), (1025, 12)])
def test_central_sigma_grows_with_the_depth_of_the_tree(steps: int, depth: int) -> None:
    with localcontext(prec=40):
        exact = 8 * Decimal(depth).sqrt() * ln(4 / Decimal("0.1")) / Decimal("0.5")
    assert agrees(constants.central_sigma(Budget(0.5, 0.1), steps), exact)


def test_a_user_of_three_rounds_needs_three_times_the_node_noise() -> None:
    once = constants.central_sigma(Budget(0.5, 0.1), 100)
    assert math.isclose(constants.central_sigma(Budget(0.5, 0.1), 100, 3), 3 * once, rel_tol=1e-15)


def test_one_participation_keeps_the_whole_budget() -> None:
    budget = Budget(0.3, 0.01)
    assert constants.composed_budget(budget, 1) is budget
    assert constants.composition_range(Budget(7.0, 0.01), 1) == ()


@given(
    st.floats(0.01, 0.99),
    st.floats(1e-9, 0.5),
    st.integers(2, 10_000),
)
def test_shares_of_the_budget_meet_thm_composition(
    epsilon: float, delta: float, batches: int
) -> None:
    share = constants.composed_budget(Budget(epsilon, delta), batches)
    spent_delta = batches * share.delta + delta / 2
    needed = epsilon / (2 * math.sqrt(2 * batches * math.log(1 / (delta / 2))))
    assert math.isclose(spent_delta, delta, rel_tol=1e-12)
    assert math.isclose(share.epsilon, needed, rel_tol=1e-12)


def test_returning_sigma_is_the_substitution_and_not_the_printed_logarithm() -> None:
    epsilon, delta, horizon, users = 0.1, 1e-4, 20_000, 20
    batches = horizon // users
    share = constants.composed_budget(Budget(epsilon, delta), batches)
    sigma = constants.amplified_sigma(share, users)
    common = 16 * math.sqrt(horizon * math.log(5 * horizon / delta)) / (epsilon * users)
    logs = math.sqrt(math.log(2 / delta) * math.log(4 * batches / delta))
    assert math.isclose(sigma, common * logs, rel_tol=1e-12)
    assert sigma > common * math.log(2 / delta)


def test_returning_noise_bits_are_the_substitution_below_the_printed_ten_million() -> None:
    epsilon, delta, horizon, users, dim = 0.5, 1e-4, 20_000, 100, 5
    share = constants.composed_budget(Budget(epsilon, delta), horizon // users)
    grid = constants.vector_sum_grid(users, dim)
    bits = constants.vector_sum_noise_bits(share, users, dim, grid)
    inner = 8 * horizon * (dim**2 + 1) / (users * delta)
    rest = math.log(2 / delta) * grid**2 * horizon * math.log(inner) ** 2 / (epsilon * users) ** 2
    assert math.isclose(bits, 1.92e6 * rest, rel_tol=1e-12)
    assert bits < 1e7 * rest


def test_thm_amp_refuses_every_panel_of_the_papers_figure_with_both_numbers() -> None:
    for epsilon in (0.2, 1.0, 10.0):
        with pytest.raises(GuaranteeError) as refusal:
            constants.require(*constants.amplified_range(Budget(epsilon, 0.1), 20))
        assert "lem:shuffle_amp" in str(refusal.value)
    most = math.sqrt(math.log(20) / 20)
    assert f"thm:amp-main needs epsilon <= sqrt(ln(2/delta)/B), but 10 > {most:.6g}" in str(
        refusal.value
    )


def test_thm_amp_accepts_a_small_budget_and_a_large_batch() -> None:
    constants.require(*constants.amplified_range(Budget(0.01, 1e-5), 10_000))


def test_lem_shuffle_amp_is_read_at_half_of_delta() -> None:
    condition = constants.amplified_range(Budget(0.01, 1e-5), 10_000)[1]
    slack = 1e-5 / 2
    assert math.isclose(condition.right, math.log(10_000 / (16 * math.log(2 / slack))))


@pytest.mark.parametrize(
    ("conditions", "text"),
    [
        (constants.vector_sum_range(Budget(15.5, 0.1)), "epsilon <= 15, but 15.5 > 15"),
        (constants.vector_sum_range(Budget(1.0, 0.5)), "delta < 1/2, but 0.5 >= 0.5"),
        (constants.local_range(Budget(1.25, 0.1)), "epsilon <= 1, but 1.25 > 1"),
        (constants.central_range(Budget(1.25, 0.1)), "epsilon <= 1, but 1.25 > 1"),
        (constants.composition_range(Budget(1.0, 0.1), 2), "epsilon < 1, but 1 >= 1"),
    ],
)
def test_a_range_refuses_with_both_numbers(
    conditions: tuple[constants.Condition, ...], text: str
) -> None:
    with pytest.raises(GuaranteeError) as refusal:
        constants.require(*conditions)
    assert text in str(refusal.value)


def test_the_edge_of_a_closed_range_is_inside() -> None:
    constants.require(
        *constants.vector_sum_range(Budget(15.0, 0.499)),
        *constants.local_range(Budget(1.0, 0.1)),
        *constants.central_range(Budget(1.0, 0.1)),
    )


def test_every_failed_condition_is_named() -> None:
    with pytest.raises(GuaranteeError, match=r"epsilon <= 15.*; thm:vec needs delta < 1/2"):
        constants.require(*constants.vector_sum_range(Budget(20.0, 0.9)))


@pytest.mark.parametrize(("delta", "none", "whole"), [(0.1, 59, 161), (1e-6, 243, 662)])
def test_small_batches_are_outside_the_lemma_that_thm_amp_rests_on(
    delta: float, none: int, whole: int
) -> None:
    def covered(users: int, share: float) -> bool:
        """The lemma, at a share of the largest epsilon that the theorem allows."""
        epsilon = share * math.sqrt(math.log(2 / delta) / users)
        return constants.amplified_range(Budget(epsilon, delta), users)[1].holds

    assert not covered(none, 1e-6)
    assert covered(none + 1, 1e-6)
    assert not covered(whole - 1, 1.0)
    assert covered(whole, 1.0)
