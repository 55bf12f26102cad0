"""Corollaries: the printed formulas, and whether they follow from their theorems."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from croupier.privacy.budget import Budget
from croupier.theory import batch_sizes, constants, promises, regret
from croupier.theory.batch_sizes import Targets
from croupier.theory.promises import Promise
from croupier.theory.scope import Scope

T, D, EPS, DELTA = 10**6, 5, 0.3, 1e-9
BUDGET = Budget(EPS, DELTA)
Rule = Callable[[int, int, Budget], Targets]

RULES: list[Rule] = [
    batch_sizes.amplified_fixed,
    batch_sizes.amplified_for_utility,
    batch_sizes.amplified_for_privacy,
    batch_sizes.vector_sum_fixed,
    batch_sizes.vector_sum_for_utility,
    batch_sizes.vector_sum_for_privacy,
    batch_sizes.amplified_returning,
    batch_sizes.vector_sum_returning,
    batch_sizes.batched_local,
    batch_sizes.batched_central,
]


def same(computed: float, expected: float) -> bool:
    return math.isclose(computed, expected, rel_tol=1e-12)


def growth(function: Callable[[float], float], at: float, factor: float = 2.0) -> float:
    return math.log(function(at * factor) / function(at)) / math.log(factor)


def private_rate(targets_at: float, horizon: float, dim: float, noise: float) -> float:
    """sqrt(noise) B^(-1/4) d^(3/4) T^(3/4): the private term of thm:amp and thm:vec, no log T."""
    return float(math.sqrt(noise) * targets_at**-0.25 * dim**0.75 * horizon**0.75)


def test_cor_amp_util_is_computed_as_printed() -> None:
    targets = batch_sizes.amplified_for_utility(T, D, BUDGET)
    logs = math.log(T / DELTA) ** 0.2 * math.log(2 / DELTA) ** 0.2
    assert same(targets.exact, D**-0.2 * EPS**-0.4 * T**0.6 * logs)
    assert same(targets.regret, D**0.8 * T**0.6 * EPS**-0.4 * logs)
    local = promises.amplified_local(BUDGET, targets.exact)
    powers = math.log(T / DELTA) ** 0.1 * math.log(2 / DELTA) ** -0.4
    assert same(local.epsilon, EPS**0.8 * T**0.3 * D**-0.1 * powers)
    assert same(local.delta, DELTA * D**0.2 * T**-0.6 * EPS**0.4 / logs)


def test_cor_amp_priv_is_computed_as_printed() -> None:
    targets = batch_sizes.amplified_for_privacy(T, D, BUDGET)
    log = math.log(1 / DELTA)
    assert same(targets.exact, D**-0.25 * T**0.75 * EPS**-0.5 * log**0.25)
    assert same(targets.regret, D**0.75 * T**0.75 * EPS**-0.5 * log**0.25)
    shuffle = promises.amplified_shuffle(BUDGET, targets.exact)
    assert same(shuffle.epsilon, EPS**1.25 * T**-0.375 * D**0.125 * log**0.375)
    assert same(shuffle.delta, DELTA * D**-0.25 * T**0.75 * EPS**-0.5 * log**0.25)


def test_cor_vec_util_is_computed_as_printed() -> None:
    targets = batch_sizes.vector_sum_for_utility(T, D, BUDGET)
    log = math.log(D**2 / DELTA)
    assert same(targets.exact, D**-0.2 * EPS**-0.4 * T**0.6 * log**0.4)
    assert same(targets.regret, D**0.8 * T**0.6 * EPS**-0.4 * log**0.4)
    local = promises.vector_sum_local(BUDGET, targets.exact)
    assert same(local.epsilon, EPS**0.8 * T**0.3 * D**-0.1 * log**0.2)
    assert local.delta == DELTA


def test_cor_vec_priv_is_computed_as_printed_with_the_local_epsilon() -> None:
    targets = batch_sizes.vector_sum_for_privacy(T, D, BUDGET)
    log = math.log(D**2 / DELTA)
    assert same(targets.exact, D**-0.25 * T**0.75 * EPS**-0.5 * log**0.5)
    assert same(targets.regret, D**0.75 * T**0.75 * log**0.5 / math.sqrt(EPS))
    shuffle = promises.vector_sum_shuffle(BUDGET, targets.exact)
    assert same(shuffle.epsilon, EPS**1.25 * T**-0.375 * D**0.125 * log**-0.25)
    assert shuffle.delta == DELTA


def test_corollaries_for_returning_users_are_computed_as_printed() -> None:
    for rule, inside in (
        (batch_sizes.amplified_returning, T),
        (batch_sizes.vector_sum_returning, D**2 * T),
    ):
        targets, log = rule(T, D, BUDGET), math.log(inside / DELTA)
        assert same(targets.exact, D ** (-1 / 6) * EPS ** (-1 / 3) * T ** (2 / 3) * log**0.5)
        assert same(targets.regret, D ** (5 / 6) * T ** (2 / 3) * EPS ** (-1 / 3) * log**0.5)


def test_cor_best_reg_amp_holds_in_one_dimension_as_printed() -> None:
    """At d = 1 the private term is the printed one, and the other, T^(3/5), is below it."""
    targets = batch_sizes.amplified_fixed(T, 1, BUDGET)
    printed = T**0.6 / math.sqrt(EPS) * math.sqrt(math.log(T / DELTA))
    assert same(targets.exact, T**0.6)
    assert same(targets.regret, printed + T**0.6)
    assert same(batch_sizes.vector_sum_fixed(T, D, BUDGET).exact, T**0.6)


@pytest.mark.parametrize("rule", [batch_sizes.amplified_fixed, batch_sizes.vector_sum_fixed])
def test_at_three_fifths_both_terms_of_the_theorem_grow_like_three_fifths(rule: Rule) -> None:
    budget = Budget(0.1, 1e-250)
    assert growth(lambda x: rule(int(x), 3, budget).regret, 1e9) == pytest.approx(0.6, abs=1e-3)
    inside = T if rule is batch_sizes.amplified_fixed else D**2
    private = private_rate(T**0.6, T, D, math.log(inside / DELTA) / EPS)
    assert same(rule(T, D, BUDGET).regret, D * T**0.6 + private)


@pytest.mark.parametrize(
    ("rule", "noise"),
    [
        (
            batch_sizes.amplified_for_utility,
            math.sqrt(math.log(T / DELTA) * math.log(2 / DELTA)) / EPS,
        ),
        (batch_sizes.vector_sum_for_utility, math.log(D**2 / DELTA) / EPS),
    ],
)
def test_utility_targets_balance_the_two_terms_of_their_theorem(rule: Rule, noise: float) -> None:
    targets = rule(T, D, BUDGET)
    assert same(D * targets.exact, private_rate(targets.exact, T, D, noise))
    assert same(targets.regret, D * targets.exact)
    candidates = (targets.exact * 2 ** (step / 8) for step in range(-40, 40))
    best = min(D * size + private_rate(size, T, D, noise) for size in candidates)
    # Balancing B and B^(-1/4) costs at most 2/(4^(1/5) + 4^(-4/5)) = 1.213 over the minimum.
    assert best < 2 * targets.regret < 1.22 * best


def test_privacy_targets_balance_the_two_terms_of_their_theorem() -> None:
    """With epsilon = epsilon_0 sqrt(log(2/delta)/B), delta = delta_0 B for P_Amp, and
    epsilon = epsilon_0/sqrt(B), delta = delta_0 for P_Vec, B leaves the private term."""
    amplified = batch_sizes.amplified_for_privacy(T, D, BUDGET)
    size, delta = amplified.exact, DELTA * amplified.exact
    epsilon = EPS * math.sqrt(math.log(2 / delta) / size)
    noise = math.sqrt(math.log(size / delta) * math.log(2 / delta)) / epsilon
    assert same(D * size, private_rate(size, T, D, noise))
    summed = batch_sizes.vector_sum_for_privacy(T, D, BUDGET)
    epsilon = EPS / math.sqrt(summed.exact)
    noise = math.log(D**2 / DELTA) / epsilon
    assert same(D * summed.exact, private_rate(summed.exact, T, D, noise))


@pytest.mark.parametrize(
    ("rule", "inside"),
    [(batch_sizes.amplified_returning, T), (batch_sizes.vector_sum_returning, D**2 * T)],
)
def test_returning_targets_balance_the_two_terms_of_thm_return_main(
    rule: Rule, inside: int
) -> None:
    targets = rule(T, D, BUDGET)
    batches = T / targets.exact
    private = math.sqrt(batches * T / EPS) * D**0.75 * math.log(inside / DELTA) ** 0.75
    assert same(D * targets.exact, private)


@pytest.mark.parametrize(
    ("rule", "of_size", "of_regret"),
    [
        (batch_sizes.amplified_for_utility, (0.6, -0.4, -0.2), (0.6, -0.4, 0.8)),
        (batch_sizes.amplified_for_privacy, (0.75, -0.5, -0.25), (0.75, -0.5, 0.75)),
        (batch_sizes.vector_sum_for_utility, (0.6, -0.4, -0.2), (0.6, -0.4, 0.8)),
        (batch_sizes.vector_sum_for_privacy, (0.75, -0.5, -0.25), (0.75, -0.5, 0.75)),
        (batch_sizes.amplified_returning, (2 / 3, -1 / 3, -1 / 6), (2 / 3, -1 / 3, 5 / 6)),
        (batch_sizes.vector_sum_returning, (2 / 3, -1 / 3, -1 / 6), (2 / 3, -1 / 3, 5 / 6)),
    ],
)
def test_powers_of_horizon_budget_and_dimension(
    rule: Rule, of_size: tuple[float, ...], of_regret: tuple[float, ...]
) -> None:
    """At delta = 1e-250, where logarithms hardly move."""

    def along(read: Callable[[Targets], float]) -> tuple[float, float, float]:
        return (
            growth(lambda x: read(rule(int(x), 8, Budget(0.1, 1e-250))), 1e9),
            growth(lambda x: read(rule(10**9, 8, Budget(x, 1e-250))), 0.1),
            growth(lambda x: read(rule(10**9, int(x), Budget(0.1, 1e-250))), 8),
        )

    assert along(lambda targets: targets.exact) == pytest.approx(of_size, abs=2e-3)
    assert along(lambda targets: targets.regret) == pytest.approx(of_regret, abs=2e-3)


def test_corollaries_agree_with_the_regret_functions_at_their_own_batch_size() -> None:
    """The theorems have log T log(T/alpha) on top and log(B/delta) for log(T/delta)."""
    scope, logs = Scope(T, D, 1.0), math.log(T)
    for rule, bound in (
        (batch_sizes.amplified_for_utility, regret.amplified),
        (batch_sizes.vector_sum_for_utility, regret.vector_sum),
        (batch_sizes.amplified_returning, regret.amplified_returning),
        (batch_sizes.vector_sum_returning, regret.vector_sum_returning),
    ):
        targets = rule(T, D, BUDGET)
        stripped = bound(scope, targets.exact, BUDGET) / logs - D * targets.exact
        assert 0.75 < stripped / logs / targets.regret < 1 + 1e-9


def test_batched_baselines_update_as_rarely_as_the_remarks_allow() -> None:
    scope = Scope(T, D, 0.05)
    local = batch_sizes.batched_local(T, D, BUDGET)
    central = batch_sizes.batched_central(T, D, BUDGET)
    assert same(local.exact, T**0.75)
    assert central.batch_size == 1000
    private = regret.batched_local(scope, local.exact, BUDGET) - D * local.exact
    assert same(local.regret, D * local.exact + private / scope.log_failure)
    noisy = (regret.batched_central(scope, 1000, BUDGET) - D * 1000) / scope.log_failure
    assert same(central.regret, noisy)


def test_promises_of_other_trust_models_are_stated_where_the_paper_states_them() -> None:
    stated = Promise(EPS, DELTA)
    for rule in RULES[:2]:
        targets = rule(T, D, BUDGET)
        assert targets.shuffle == targets.joint == stated
        assert targets.local == promises.amplified_local(BUDGET, targets.batch_size)
    for rule in RULES[3:5]:
        targets = rule(T, D, BUDGET)
        assert targets.shuffle == targets.joint == stated
        assert targets.local == promises.vector_sum_local(BUDGET, targets.batch_size)
    for rule in (RULES[2], RULES[5]):
        targets = rule(T, D, BUDGET)
        assert targets.local == stated
        assert targets.shuffle == targets.joint
        assert targets.shuffle is not None
        assert targets.shuffle.epsilon < EPS
    for rule in RULES[6:8]:
        targets = rule(T, D, BUDGET)
        assert (targets.shuffle, targets.joint, targets.local) == (stated, None, None)
    local, central = (rule(T, D, BUDGET) for rule in RULES[8:])
    assert (local.shuffle, local.joint, local.local) == (None, None, stated)
    assert (central.shuffle, central.joint, central.local) == (None, stated, None)


def test_the_shuffle_promise_of_cor_amp_priv_is_empty_at_the_papers_delta() -> None:
    targets = batch_sizes.amplified_for_privacy(20_000, 5, Budget(1.0, 0.1))
    assert targets.shuffle is not None
    assert targets.shuffle.empty


@pytest.mark.parametrize("horizon", [20_000, 10**6, 10**9])
def test_in_its_range_cor_amp_util_is_no_better_than_the_local_model(horizon: int) -> None:
    """The largest epsilon that thm:amp allows at the corollary's B is found by bisection."""

    def allowed(epsilon: float) -> bool:
        size = batch_sizes.amplified_for_utility(horizon, D, Budget(epsilon, 0.1)).exact
        return epsilon <= math.sqrt(math.log(2 / 0.1) / size)

    low, high = 1e-12, 1.0
    for _ in range(100):
        middle = math.sqrt(low * high)
        low, high = (middle, high) if allowed(middle) else (low, middle)
    best = batch_sizes.amplified_for_utility(horizon, D, Budget(low, 0.1)).regret
    assert best >= D**0.75 * horizon**0.75


@pytest.mark.parametrize("rule", RULES)
@given(
    horizon=st.integers(1, 10**7),
    dim=st.integers(1, 100),
    epsilon=st.floats(1e-6, 15.0),
    delta=st.floats(1e-12, 0.4),
)
def test_batch_sizes_are_the_nearest_whole_numbers_that_fit(
    rule: Rule, horizon: int, dim: int, epsilon: float, delta: float
) -> None:
    targets = rule(horizon, dim, Budget(epsilon, delta))
    assert 1 <= targets.batch_size <= horizon
    inside = min(max(targets.exact, 1.0), float(horizon))
    assert abs(targets.batch_size - inside) <= 0.5


def test_a_horizon_without_rounds_is_refused() -> None:
    with pytest.raises(ValueError, match="horizon must be a whole number of at least 1, got 0"):
        batch_sizes.rounded(3.2, 0)


def test_the_grid_of_cor_vec_priv_is_outside_thm_vec_at_its_batch_size() -> None:
    users = batch_sizes.vector_sum_for_privacy(20_000, 5, Budget(1.0, 0.1)).batch_size
    theorems, corollarys = constants.vector_sum_grid(users, 5), 5
    assert theorems == pytest.approx(103, abs=0.5)
    assert theorems > corollarys
    # The variance of rounding by p(1-p) <= 1/4 a user, in units of the sum.
    assert users / (4 * theorems**2) == pytest.approx(1 / 16)
    assert users / (4 * corollarys**2) == pytest.approx(26, abs=0.5)
