from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from croupier.errors import GuaranteeError
from croupier.privacy.budget import Budget
from croupier.theory import constants, promises
from croupier.theory.promises import Promise


def test_one_amplified_report_is_worth_what_the_remark_says() -> None:
    local = promises.amplified_local(Budget(0.01, 1e-4), 400)
    assert math.isclose(local.epsilon, 0.01 * 20 / math.sqrt(math.log(2e4)), rel_tol=1e-12)
    assert math.isclose(local.delta, 2.5e-7, rel_tol=1e-12)


def test_one_vector_sum_report_is_worth_what_the_remark_says() -> None:
    assert promises.vector_sum_local(Budget(0.5, 1e-4), 400) == Promise(10.0, 1e-4)


@given(st.floats(0.01, 15.0), st.floats(1e-9, 0.49), st.integers(1, 10**6))
def test_vector_sum_promises_lead_back_to_each_other(
    epsilon: float, delta: float, users: int
) -> None:
    local = promises.vector_sum_local(Budget(epsilon, delta), users)
    back = promises.vector_sum_shuffle(Budget(local.epsilon, local.delta), users)
    assert math.isclose(back.epsilon, epsilon, rel_tol=1e-12)
    assert back.delta == delta


@given(st.floats(0.01, 1.0), st.floats(1e-12, 1e-8), st.integers(2, 10**6))
def test_the_shuffle_promise_of_cor_amp_priv_covers_its_proof(
    epsilon: float, delta: float, users: int
) -> None:
    shuffle = promises.amplified_shuffle(Budget(epsilon, delta), users)
    proof = epsilon * math.sqrt(math.log(2 / (delta * users)) / users)
    assert math.isclose(shuffle.delta, delta * users, rel_tol=1e-12)
    assert shuffle.epsilon >= proof * (1 - 1e-12)


def test_a_delta_of_one_or_more_says_nothing() -> None:
    assert promises.amplified_shuffle(Budget(0.5, 0.1), 20).empty
    assert not promises.amplified_shuffle(Budget(0.5, 0.01), 20).empty


def test_the_local_promise_of_vector_sum_is_the_noise_of_one_user_alone() -> None:
    """At B = 1 the bits per squared grid step are the same, which is the proof of cor:vec_util."""
    budget, users, dim = Budget(0.2, 1e-4), 900, 5
    local = promises.vector_sum_local(budget, users)
    batch, alone = constants.vector_sum_grid(users, dim), constants.vector_sum_grid(1, dim)
    bits = constants.vector_sum_noise_bits(budget, users, dim, batch)
    lonely = constants.vector_sum_noise_bits(Budget(local.epsilon, local.delta), 1, dim, alone)
    assert math.isclose(bits / batch**2, lonely / alone**2, rel_tol=1e-12)


def test_the_local_promise_of_vector_sum_soon_leaves_the_range_of_its_proof() -> None:
    local = promises.vector_sum_local(Budget(1.0, 1e-4), 226)
    with pytest.raises(GuaranteeError, match=r"epsilon <= 15, but 15\.0333 > 15"):
        constants.require(*constants.vector_sum_range(Budget(local.epsilon, local.delta)))


def test_group_privacy_grows_as_in_the_remark() -> None:
    grown = promises.group(Promise(0.1, 1e-6), 5)
    assert math.isclose(grown.epsilon, 0.5, rel_tol=1e-12)
    assert math.isclose(grown.delta, 5 * math.exp(0.4) * 1e-6, rel_tol=1e-12)
    assert promises.group(Promise(0.1, 1e-6), 1) == Promise(0.1, 1e-6)


def test_lem_shuffle_amp_is_computed_as_printed() -> None:
    epsilon, delta, users, slack = 0.8, 1e-9, 10_000, 1e-6
    odds = math.exp(epsilon)
    blanket = 8 * math.sqrt(odds * math.log(4 / slack)) / math.sqrt(users) + 8 * odds / users
    expected = math.log(1 + (odds - 1) / (odds + 1) * blanket)
    leaked = (math.exp(expected) + 1) * (1 + math.exp(-epsilon) / 2) * users * delta
    shuffled = promises.shuffled(Promise(epsilon, delta), users, slack)
    assert math.isclose(shuffled.epsilon, expected, rel_tol=1e-12)
    assert math.isclose(shuffled.delta, slack + leaked, rel_tol=1e-12)


def test_lem_shuffle_amp_refuses_with_both_numbers() -> None:
    most = math.log(20 / (16 * math.log(2 / 0.05)))
    with pytest.raises(GuaranteeError) as refusal:
        promises.shuffled(Promise(1.0, 1e-3), 20, 0.05)
    assert f"but 1 > {most:.6g}" in str(refusal.value)


@pytest.mark.parametrize("users", [1000, 10_000, 10**6])
def test_the_order_of_thm_amp_hides_a_factor_between_four_and_seven(users: int) -> None:
    """epsilon_0 = 1 is the edge of its range; delta comes out at 2 to 4 times the one asked for."""
    delta = 1e-6
    budget = Budget(math.sqrt(math.log(2 / delta) / users), delta)
    shuffled = promises.shuffled(promises.amplified_local(budget, users), users, delta / 2)
    assert 4 < shuffled.epsilon / budget.epsilon < 7
    assert 2 < shuffled.delta / budget.delta < 4


def test_other_users_see_no_more_than_the_analyzer() -> None:
    assert promises.joint(Promise(0.3, 1e-6)) == Promise(0.3, 1e-6)
