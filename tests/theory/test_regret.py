"""Regret bounds against the printed formulas, against each other and against a real run."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from croupier.privacy.budget import Budget
from croupier.theory import constants, regret
from croupier.theory.scope import Scope

T, D, ALPHA, B, EPS, DELTA = 20_000, 5, 0.05, 160, 0.3, 1e-4
SCOPE, BUDGET = Scope(T, D, ALPHA), Budget(EPS, DELTA)
M = T / B
LOGS = math.log(T) * math.log(T / ALPHA)


def same(computed: float, expected: float) -> bool:
    return math.isclose(computed, expected, rel_tol=1e-12)


def exponent(function: Callable[[float], float], at: float) -> float:
    """The power with which ``function`` grows at a point."""
    step = 1 + 1e-4
    return math.log(function(at * step) / function(at / step)) / (2 * math.log(step))


def test_thm_general_is_computed_as_printed() -> None:
    information = math.log(1 + T / (D * 40.0))
    beta = math.sqrt(2 * math.log(2 / ALPHA) + D * information) + math.sqrt(120.0) + 3.0
    expected = D * B / math.log(2) * information + 8 * beta * math.sqrt(D * T * information)
    assert same(regret.general(SCOPE, B, lowest=40.0, highest=120.0, drift=3.0), expected)


def test_clm_dif_bounds_the_rounds_that_a_stale_matrix_makes_wide() -> None:
    """Counted on a path that turns to a new direction in every batch, so that many rounds are."""
    dim, batch, horizon, lowest = 4, 25, 1000, 0.5
    rng = np.random.default_rng(7)
    phi = np.zeros((horizon, dim))
    phi[np.arange(horizon), (np.arange(horizon) // batch) % dim] = 1.0
    phi = phi + 0.05 * rng.normal(size=phi.shape)
    phi /= np.linalg.norm(phi, axis=1, keepdims=True)
    current = lowest * np.eye(dim)
    stale, wide = current.copy(), 0
    for step, row in enumerate(phi):
        if step % batch == 0:
            stale = current.copy()
        squares = [row @ np.linalg.solve(matrix, row) for matrix in (stale, current)]
        wide += math.sqrt(squares[0] / squares[1]) > 2
        current += np.outer(row, row)
    bound = regret.slow_rounds(Scope(horizon, dim, 0.1), batch, lowest)
    assert 60 < wide <= bound


def test_thm_general_prints_twice_the_rounds_of_its_claim() -> None:
    without = regret.general(SCOPE, 2, lowest=9.0, highest=9.0, drift=0.0)
    longer = regret.general(SCOPE, 4, lowest=9.0, highest=9.0, drift=0.0)
    assert math.isclose(longer - without, 2 * regret.slow_rounds(SCOPE, 2, 9.0), rel_tol=1e-9)


def test_cor_subg_is_computed_as_printed() -> None:
    expected = D * B * math.log(T) + D * math.sqrt(T) * math.log(T / ALPHA)
    expected += math.sqrt(30.0 * T) * D**0.75 * LOGS
    assert same(regret.subgaussian(SCOPE, B, 30.0), expected)


def test_lem_subg_main_is_cor_subg_without_logarithms() -> None:
    expected = D * B + D * math.sqrt(T) + math.sqrt(30.0 * T) * D**0.75
    assert same(regret.subgaussian_rate(SCOPE, B, 30.0), expected)


def test_cor_subg_follows_from_thm_general_up_to_a_constant() -> None:
    """With lambda_max = 3 S, lambda_min = S and nu = sqrt(S), as in its proof."""
    ratios = []
    for horizon in (10**4, 10**6, 10**8):
        for sigma in (1.0, 100.0, 1e4):
            scope = Scope(horizon, 5, 0.01)
            size = sigma * (math.sqrt(5) + math.sqrt(math.log(horizon / (100 * 0.01))))
            bound = regret.general(scope, 100, lowest=size, highest=3 * size, drift=math.sqrt(size))
            ratios.append(bound / regret.subgaussian(scope, 100, sigma))
    assert max(ratios) < 8 * (math.sqrt(3) + 1) * 2


def test_without_noise_cor_subg_is_the_batched_algorithm() -> None:
    expected = D * B * math.log(T) + D * math.sqrt(T) * math.log(T / ALPHA)
    assert same(regret.subgaussian(SCOPE, B, 0.0), expected)


def test_thm_amp_is_computed_as_printed() -> None:
    logs = math.log(B / DELTA) ** 0.25 * math.log(2 / DELTA) ** 0.25
    private = logs / (EPS**0.5 * B**0.25) * D**0.75 * T**0.75
    assert same(regret.amplified(SCOPE, B, BUDGET), D * B * math.log(T) + private * LOGS)


def test_thm_amp_main_is_computed_as_printed() -> None:
    private = math.log(B / DELTA) ** 0.5 / (EPS**0.5 * B**0.25) * D**0.75 * T**0.75
    expected = D * B * math.log(T) + private * math.log(T / ALPHA) ** 2
    assert same(regret.amplified_main(SCOPE, B, BUDGET), expected)


def test_thm_amp_main_is_looser_than_its_restatement_from_two_users_on() -> None:
    loose = Scope(T, D, 1.0)
    assert regret.amplified_main(loose, 2, BUDGET) >= regret.amplified(loose, 2, BUDGET)
    assert regret.amplified_main(loose, 1, BUDGET) < regret.amplified(loose, 1, BUDGET)


def test_thm_vec_is_computed_as_printed() -> None:
    private = math.log(D**2 / DELTA) ** 0.5 / (EPS**0.5 * B**0.25) * D**0.75 * T**0.75
    assert same(regret.vector_sum(SCOPE, B, BUDGET), D * B * math.log(T) + private * LOGS)
    expected = D * B * math.log(T) + private * math.log(T / ALPHA) ** 2
    assert same(regret.vector_sum_main(SCOPE, B, BUDGET), expected)


def test_thm_amp_is_cor_subg_at_its_own_noise_up_to_the_dropped_constant() -> None:
    """sigma = sqrt(T) sigma_1; what is dropped is sqrt(4 sqrt 2) and the 2.5 in a logarithm."""
    for users in (10, 1000, 10_000):
        sigma = math.sqrt(T) * constants.amplified_sigma(BUDGET, users)
        learnt = D * math.sqrt(T) * math.log(T / ALPHA)
        derived = regret.subgaussian(SCOPE, users, sigma) - learnt - D * users * math.log(T)
        stated = regret.amplified(SCOPE, users, BUDGET) - D * users * math.log(T)
        inner = math.log(2.5 * users / DELTA) / math.log(users / DELTA)
        assert math.isclose(derived / stated, math.sqrt(4 * math.sqrt(2)) * inner**0.25)


def test_thm_vec_is_cor_subg_at_its_own_noise_up_to_the_dropped_constant() -> None:
    """sigma^2 = M B b / (4 g^2) as in its proof; dropped are sqrt(6e4) and 4(d^2+1) for d^2."""
    grid = constants.vector_sum_grid(B, D)
    bits = constants.vector_sum_noise_bits(BUDGET, B, D, grid)
    sigma = math.sqrt(M * B * bits / 4) / grid
    derived = math.sqrt(sigma * T) * D**0.75 * LOGS
    stated = regret.vector_sum(SCOPE, B, BUDGET) - D * B * math.log(T)
    inner = math.log(4 * (D**2 + 1) / DELTA) / math.log(D**2 / DELTA)
    assert math.isclose(derived / stated, math.sqrt(math.sqrt(6e4) * inner), rel_tol=1e-9)


def test_thm_amp_return_is_thm_amp_at_the_composed_budget() -> None:
    """Dropped are 8^(1/4), from the composition, and the 2 in log(2T/delta)."""
    share = constants.composed_budget(BUDGET, int(M))
    derived = regret.amplified(SCOPE, B, share) - D * B * math.log(T)
    stated = regret.amplified_returning(SCOPE, B, BUDGET) - D * T / M * math.log(T)
    inner = math.log(2 * T / DELTA) / math.log(T / DELTA)
    assert math.isclose(derived / stated, (8 * inner) ** 0.25, rel_tol=1e-9)


def test_thm_amp_return_exceeds_the_printed_logarithms_and_stays_within_thm_return_main() -> None:
    common = math.sqrt(M * T / EPS) * D**0.75 * LOGS
    stated = (regret.amplified_returning(SCOPE, B, BUDGET) - D * B * math.log(T)) / common
    assert stated > math.log(T / DELTA) ** 0.25 * math.log(2 / DELTA) ** 0.5
    assert stated < math.log(T / DELTA) ** 0.75


def test_thm_vec_return_is_computed_as_printed() -> None:
    private = math.sqrt(M * T / EPS) * D**0.75 * math.log(D**2 * M / DELTA) ** 0.75
    expected = D * T / M * math.log(T) + private * LOGS
    assert same(regret.vector_sum_returning(SCOPE, B, BUDGET), expected)


def test_thm_vec_return_follows_from_thm_vec_at_the_composed_budget_up_to_a_constant() -> None:
    for users in (10, 100, 1000):
        share = constants.composed_budget(BUDGET, T // users)
        derived = regret.vector_sum(SCOPE, users, share) - D * users * math.log(T)
        stated = regret.vector_sum_returning(SCOPE, users, BUDGET) - D * users * math.log(T)
        assert 1 < derived / stated < 8**0.25 * 1.1


def test_prop_jdp_return_is_computed_as_printed() -> None:
    private = math.sqrt(12 * T / EPS) * D**0.75 * math.log(1 / DELTA) ** 0.25
    assert same(regret.central_returning(SCOPE, 12, BUDGET), D * math.sqrt(T) + private)
    with pytest.raises(ValueError, match="participations must be a whole number"):
        regret.central_returning(SCOPE, 0, BUDGET)


def test_shuffle_and_user_level_central_meet_at_the_cube_root_of_the_horizon() -> None:
    """The remark to prop:JDP-return: T^(2/3)/sqrt(epsilon) for both at M = M_0 = T^(1/3)."""
    horizons = (10**9, 10**12, 10**15)
    central, shuffle = [], []
    for horizon in horizons:
        scope, root = Scope(horizon, 3, 1.0), round(horizon ** (1 / 3))
        central.append(regret.central_returning(scope, root, BUDGET))
        full = regret.vector_sum_returning(scope, horizon / root, BUDGET)
        logs = math.log(horizon) ** 2 * math.log(9 * root / DELTA) ** 0.75
        shuffle.append(full / logs)
    for values in (central, shuffle):
        growth = math.log(values[2] / values[1]) / math.log(1000)
        assert growth == pytest.approx(2 / 3, abs=0.04)


def test_batched_local_is_computed_as_printed() -> None:
    private = T**0.75 * D**0.75 * math.log(1 / DELTA) ** 0.25 / math.sqrt(EPS)
    expected = D * B + private * math.log(T / ALPHA)
    assert same(regret.batched_local(SCOPE, B, BUDGET), expected)


def test_batched_central_keeps_the_term_that_its_proposition_lost() -> None:
    private = math.sqrt(T) * D**0.75 * math.log(1 / DELTA) ** 0.25 / math.sqrt(EPS)
    printed = D * B + private * math.log(T / ALPHA)
    lost = D * math.sqrt(T) * math.log(T / ALPHA)
    assert same(regret.batched_central(SCOPE, B, BUDGET), printed + lost)


def test_the_lost_term_is_the_largest_in_high_dimension_and_small_batches() -> None:
    dim, scope = 400, Scope(T, 400, 1.0)
    private = math.sqrt(T) * dim**0.75 * math.log(10) ** 0.25
    printed = dim + private * math.log(T)
    assert regret.batched_central(scope, 1, Budget(1.0, 0.1)) > 4 * printed
    rate = regret.subgaussian_rate(scope, 1, math.sqrt(math.log(10)))
    assert rate > 4 * (dim + private)


def test_sequential_rates_are_those_of_the_remark() -> None:
    assert same(regret.sequential_local(T, BUDGET), T**0.75 * math.log(1e4) ** 0.25 / EPS**0.5)
    assert same(regret.sequential_central(T, BUDGET), T**0.5 * math.log(1e4) ** 0.25 / EPS**0.5)


@pytest.mark.parametrize(
    ("bound", "powers"),
    [
        (regret.amplified, (-0.25, -0.5, 0.75)),
        (regret.amplified_main, (-0.25, -0.5, 0.75)),
        (regret.vector_sum, (-0.25, -0.5, 0.75)),
        (regret.vector_sum_main, (-0.25, -0.5, 0.75)),
        (regret.amplified_returning, (-0.5, -0.5, 0.75)),
        (regret.vector_sum_returning, (-0.5, -0.5, 0.75)),
        (regret.batched_local, (0.0, -0.5, 0.75)),
    ],
)
def test_the_price_of_privacy_has_the_papers_powers_of_batch_size_budget_and_dimension(
    bound: Callable[[Scope, float, Budget], float], powers: tuple[float, float, float]
) -> None:
    """At delta = 1e-250, where logarithms of B, d and T hardly move."""
    horizon, dim, users = 10**6, 1000, 1000.0

    def price(users: float, epsilon: float, dim: int) -> float:
        scope = Scope(horizon, dim, 1.0)
        delay = dim * users * (1 if bound is regret.batched_local else math.log(horizon))
        return bound(scope, users, Budget(epsilon, 1e-250)) - delay

    assert exponent(lambda x: price(x, 0.1, dim), users) == pytest.approx(powers[0], abs=0.005)
    assert exponent(lambda x: price(users, x, dim), 0.1) == pytest.approx(powers[1], abs=1e-6)
    ratio = math.log(price(users, 0.1, 2 * dim) / price(users, 0.1, dim)) / math.log(2)
    assert ratio == pytest.approx(powers[2], abs=0.005)


@given(st.integers(2, 10**6), st.floats(1e-9, 0.5), st.floats(0.01, 1.0))
def test_inside_its_range_thm_amp_never_beats_the_local_model(
    users: int, delta: float, share: float
) -> None:
    """epsilon <= sqrt(log(2/delta)/B) cancels B: what is left is T^(3/4), as without a shuffler."""
    horizon, dim = 10**7, 3
    budget = Budget(share * math.sqrt(math.log(2 / delta) / users), delta)
    bound = regret.amplified(Scope(horizon, dim, 1.0), users, budget) / math.log(horizon)
    private = (bound - dim * users) / math.log(horizon)
    least = (dim * horizon) ** 0.75 * math.log(users / delta) ** 0.25
    assert private >= least * (1 - 1e-9)
    assert least >= regret.sequential_local(horizon, Budget(1.0, delta))


@pytest.mark.parametrize(
    "bound", [regret.amplified, regret.vector_sum, regret.vector_sum_returning]
)
def test_a_batch_longer_than_the_horizon_is_refused(
    bound: Callable[[Scope, float, Budget], float],
) -> None:
    with pytest.raises(ValueError, match=f"between 1 and {T}, got {T + 1}"):
        bound(SCOPE, T + 1, BUDGET)
