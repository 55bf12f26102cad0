"""The clones bound against enumeration, exact integers, and the lemma's closed form."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import binom

from croupier.privacy.shuffled_reports.clones import (
    ROUNDING,
    clones_delta,
    composed_delta,
    number_of_clones,
    pair_losses,
)
from croupier.theory.promises import Promise, shuffled

Table = NDArray[np.float64]


def dominating_pair(local_epsilon: float, users: int) -> tuple[Table, Table]:
    """Both laws of the two counts, by enumeration of C, A and the coin, (count, count)."""
    first, second = np.zeros((2, users + 1, users + 1))
    clone = math.exp(-local_epsilon)
    likely = math.exp(local_epsilon) / (math.exp(local_epsilon) + 1)
    for clones in range(users):
        weight = math.comb(users - 1, clones) * clone**clones * (1 - clone) ** (users - 1 - clones)
        for ones in range(clones + 1):
            mass = weight * math.comb(clones, ones) / 2**clones
            for coin, chance in ((1, likely), (0, 1 - likely)):
                first[ones + coin, clones - ones + 1 - coin] += mass * chance
                second[ones + 1 - coin, clones - ones + coin] += mass * chance
    return first, second


def hockey_stick(first: Table, second: Table, epsilon: float) -> float:
    return float(np.maximum(first - math.exp(epsilon) * second, 0).sum())


@pytest.mark.parametrize("users", [1, 2, 3, 6])
@pytest.mark.parametrize("local_epsilon", [0.3, 1.0, 2.5, 6.0])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5, 1.7, 2.4])
def test_delta_is_that_of_the_enumerated_pair_in_both_directions(
    users: int, local_epsilon: float, epsilon: float
) -> None:
    first, second = dominating_pair(local_epsilon, users)
    computed = clones_delta(local_epsilon, users, epsilon)
    # Twelve digits of the enumeration itself are lost near a likelihood ratio of e^epsilon.
    assert computed == pytest.approx(hockey_stick(first, second, epsilon), rel=1e-8, abs=1e-15)
    assert computed == pytest.approx(hockey_stick(second, first, epsilon), rel=1e-8, abs=1e-15)


@pytest.mark.parametrize(
    ("local_epsilon", "users", "epsilon"), [(1.0, 200, 0.6), (2.0, 250, 1.6), (0.5, 250, 0.25)]
)
def test_small_deltas_agree_with_exact_integers_and_are_never_below(
    local_epsilon: float, users: int, epsilon: float
) -> None:
    clone, grown = Fraction(math.exp(-local_epsilon)), Fraction(math.exp(epsilon))
    likely = 1 / (1 + clone)
    exact = Fraction(0)
    for clones in range(users):
        terms = (
            max(
                Fraction(0),
                (likely - grown * (1 - likely)) * before - (grown * likely - 1 + likely) * here,
            )
            for before, here in neighbours(clones)
        )
        weight = math.comb(users - 1, clones) * clone**clones * (1 - clone) ** (users - 1 - clones)
        exact += Fraction(float(weight)) * Fraction(float(sum(terms)))
    computed = clones_delta(local_epsilon, users, epsilon)
    assert 1e-25 < exact < 1e-5
    assert float(exact) <= computed <= float(exact) * (1 + 1e-7) + 1e-30


def neighbours(clones: int) -> list[tuple[Fraction, Fraction]]:
    """P[A = x - 1] and P[A = x] for x = 0..clones + 1, in the upper half only."""
    masses = [Fraction(math.comb(clones, ones), 2**clones) for ones in range(clones + 1)]
    return list(pairwise([Fraction(0), *masses, Fraction(0)]))[clones // 2 :]


@pytest.mark.parametrize("clones", [1000, 10**5, 4 * 10**6])
@pytest.mark.parametrize("deviations", [0.5, 5.0, 7.0, 11.0])
def test_binomial_masses_and_tails_are_far_better_than_the_allowance(
    clones: int, deviations: float
) -> None:
    mp = pytest.importorskip("mpmath")
    count = int(clones / 2 + deviations * math.sqrt(clones) / 2)
    with mp.workdps(40):
        ways = mp.loggamma(clones + 1) - mp.loggamma(count + 1) - mp.loggamma(clones - count + 1)
        mass = term = mp.exp(ways - clones * mp.log(2))
        tail = mp.mpf(0)
        for more in range(count, clones):
            term *= mp.mpf(clones - more) / (more + 1)
            tail += term
            if term < tail * mp.mpf(10) ** -20:
                break
    assert abs(binom.pmf(count, clones, 0.5) / mass - 1) < ROUNDING / 20
    assert abs(binom.sf(count, clones, 0.5) / tail - 1) < ROUNDING / 20


@pytest.mark.parametrize("users", [1000, 10**5, 10**6])
@pytest.mark.parametrize("share", [0.05, 0.3, 1.0])
@pytest.mark.parametrize("slack", [1e-3, 1e-6, 1e-12])
def test_numbers_are_never_above_the_closed_form_in_its_range(
    users: int, share: float, slack: float
) -> None:
    local_epsilon = share * math.log(users / (16 * math.log(2 / slack)))
    promise = shuffled(Promise(local_epsilon, 0.0), users, slack)
    assert clones_delta(local_epsilon, users, promise.epsilon) <= slack


def test_more_epsilon_more_users_and_less_local_epsilon_all_need_less_delta() -> None:
    def falls(deltas: list[float]) -> bool:
        return all(later <= earlier for earlier, later in pairwise(deltas))

    assert falls([clones_delta(2.0, 500, epsilon) for epsilon in np.linspace(0, 2, 60)])
    assert falls([clones_delta(2.0, users, 0.4) for users in range(1, 300, 7)])
    assert falls([clones_delta(local, 500, 0.4) for local in np.linspace(4, 0.5, 60)])


def test_merging_numbers_of_clones_costs_little_and_is_on_the_safe_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    merged = clones_delta(1.0, 10**6, 0.009)
    monkeypatch.setattr("croupier.privacy.shuffled_reports.clones.MOST_CELLS", 10**9)
    number_of_clones.cache_clear()
    every = clones_delta(1.0, 10**6, 0.009)
    number_of_clones.cache_clear()
    assert every < merged < 1.01 * every


def test_merging_outcomes_further_costs_little_and_is_on_the_safe_side(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    merged = pair_losses(2.0, 10**5).delta(0.06)
    monkeypatch.setattr("croupier.privacy.shuffled_reports.clones.MOST_OUTCOMES", 2**21)
    finer = pair_losses(2.0, 10**5).delta(0.06)
    assert 1e-9 < finer < merged < 1.03 * finer


@pytest.mark.parametrize("users", [1, 2, 5, 1000])
@pytest.mark.parametrize("local_epsilon", [0.05, 1.0, 6.0])
def test_exchanging_the_two_laws_turns_the_losses_round(users: int, local_epsilon: float) -> None:
    made = pair_losses(local_epsilon, users)
    assert made.masses.sum() == pytest.approx(1 + ROUNDING, abs=1e-12)
    assert made.masses[::-1] == pytest.approx(made.masses * np.exp(-made.grid), rel=1e-10, abs=0)


@pytest.mark.parametrize("users", [1, 2, 3, 6, 40])
def test_losses_of_one_batch_have_the_moments_of_the_enumerated_pair(users: int) -> None:
    first, second = dominating_pair(1.5, users)
    seen = first > 0
    losses = np.log(first[seen] / second[seen])
    made = pair_losses(1.5, users)
    spread = first[seen] @ losses**2
    assert made.masses @ made.grid == pytest.approx(first[seen] @ losses, rel=1e-3)
    assert spread * (1 - 1e-9) <= made.masses @ made.grid**2 <= spread * (1 + 2e-3)


@pytest.mark.parametrize("users", [2, 1000, 10**6, 10**8])
@pytest.mark.parametrize("local_epsilon", [0.01, 1.0, 5.0, 15.0])
def test_weights_of_clones_and_losses_sum_to_one(users: int, local_epsilon: float) -> None:
    assert number_of_clones(local_epsilon, users).weights.sum() == pytest.approx(1, abs=1e-11)


@pytest.mark.parametrize("users", [50, 400, 1000])
@pytest.mark.parametrize("local_epsilon", [0.1, 1.0, 3.0, 8.0])
def test_what_is_outside_the_counted_numbers_is_paid_for(users: int, local_epsilon: float) -> None:
    counted = number_of_clones(local_epsilon, users)
    law = binom(users - 1, math.exp(-local_epsilon))
    outside = law.cdf(counted.numbers[0] - 1) + law.sf(counted.numbers[-1])
    assert outside <= counted.missing


@pytest.mark.parametrize("batches", [2, 3])
@pytest.mark.parametrize("users", [2, 4])
@pytest.mark.parametrize("epsilon", [0.0, 0.4, 1.5, 2.9])
def test_composition_is_that_of_the_enumerated_product(
    users: int, batches: int, epsilon: float
) -> None:
    pair = dominating_pair(1.5, users)
    first, second = pair
    for _ in range(batches - 1):
        first, second = np.outer(first, pair[0]), np.outer(second, pair[1])
    exact = hockey_stick(first, second, epsilon)
    assert exact <= composed_delta(1.5, users, batches, epsilon) <= 1.01 * exact + 1e-4


@pytest.mark.parametrize(("users", "local_epsilon"), [(50, 1.0), (200, 2.0)])
@pytest.mark.parametrize("batches", [4, 25])
def test_composition_agrees_with_an_independent_accountant(
    users: int, local_epsilon: float, batches: int
) -> None:
    module = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    first, second = dominating_pair(local_epsilon, users)
    seen = np.argwhere(first > 0)
    laws = [
        {tuple(place): math.log(law[tuple(place)]) for place in seen.tolist()}
        for law in (first, second)
    ]
    made = (
        module.from_two_probability_mass_functions(
            *laws, value_discretization_interval=1e-4, pessimistic_estimate=safe
        ).self_compose(batches)
        for safe in (False, True)
    )
    below, above = made
    for epsilon in (0.2, 0.7, 1.5):
        low, high = (accountant.get_delta_for_epsilon(epsilon) for accountant in (below, above))
        assert low <= composed_delta(local_epsilon, users, batches, epsilon) * (1 + 1e-6)
        assert composed_delta(local_epsilon, users, batches, epsilon) <= 1.02 * high + 1e-12


@pytest.mark.parametrize(
    ("local_epsilon", "users", "epsilon"),
    [(1.0, 1000, 0.2), (3.0, 1000, 0.8), (6.0, 10**6, 0.2), (0.1, 10**6, 0.0005)],
)
def test_losses_of_one_batch_are_just_above_the_exact_delta(
    local_epsilon: float, users: int, epsilon: float
) -> None:
    exact = clones_delta(local_epsilon, users, epsilon)
    assert exact * (1 - 1e-7) <= pair_losses(local_epsilon, users).delta(epsilon) <= 1.02 * exact


@pytest.mark.parametrize(
    ("arguments", "name"),
    [((0.0, 10, 1.0), "local_epsilon"), ((1.0, 0, 1.0), "users"), ((1.0, 10, -0.1), "epsilon")],
)
def test_bad_arguments_are_named(arguments: tuple[float, int, float], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        clones_delta(*arguments)
