"""The search for the fewest bits (MATH 4)."""

from __future__ import annotations

import math

import pytest

from croupier.errors import GuaranteeError
from croupier.privacy.budget import Budget
from croupier.privacy.shuffled_bits.calibration import (
    GRID_UNITS,
    BatchSum,
    fewest_bits,
    least_noise_bits,
)

SENSITIVITY = math.sqrt(4.5)


def labels_of(dim: int) -> int:
    return dim + dim * (dim + 1) // 2


def search(
    budget: Budget,
    users: int,
    dim: int,
    *,
    honest: float = 1.0,
    times: int = 1,
    overhead: float = 0.05,
) -> tuple[float, int]:
    return fewest_bits(
        budget,
        users=users,
        honest_fraction=honest,
        sensitivity=SENSITIVITY,
        ranges=[2.0] * labels_of(dim),
        participations=times,
        overhead=overhead,
    )


def noise(users: int, grid: float, noise_bits: int) -> float:
    """Coins of all users and worst-case rounding, on a batch sum."""
    return math.sqrt(users * (noise_bits + 1)) / 2 / grid


def test_a_thousand_users_need_thirty_bits_per_label_for_five_percent() -> None:
    grid, noise_bits = search(Budget(1.0, 1e-5), 1000, 5)
    assert noise(1000, grid, noise_bits) <= 1.05 * 7.914
    assert math.ceil(2 * grid) + noise_bits <= 30


def test_a_third_of_dishonest_users_still_allows_five_percent_above_their_floor() -> None:
    budget = Budget(1.0, 1e-5)
    grid, noise_bits = search(budget, 10_000, 20, honest=2 / 3)
    floor = BatchSum(10_000, 2 / 3, SENSITIVITY, 230).floor(budget)
    assert floor == pytest.approx(7.9139 / math.sqrt(0.6666), rel=1e-4)
    assert noise(10_000, grid, noise_bits) <= 1.05 * floor


CASES = [
    (Budget(1.0, 1e-5), 1000, 5, 1.0, 1, 0.05),
    (Budget(0.2, 0.1), 20, 5, 1.0, 1, 0.05),
    (Budget(10.0, 0.1), 20, 1, 1.0, 1, 0.05),
    (Budget(1.0, 1e-12), 10**6, 20, 2 / 3, 100, 0.05),
    (Budget(1.0, 1e-5), 1000, 5, 1.0, 20, 0.01),
    (Budget(3.0, 1e-6), 2, 2, 0.5, 1, 0.2),
]


@pytest.mark.parametrize(("budget", "users", "dim", "honest", "times", "overhead"), CASES)
def test_what_is_found_is_proved_within_the_overhead_and_no_fewer_bits_are(
    budget: Budget, users: int, dim: int, honest: float, times: int, overhead: float
) -> None:
    grid, noise_bits = search(budget, users, dim, honest=honest, times=times, overhead=overhead)
    batch = BatchSum(users, honest, SENSITIVITY, labels_of(dim), times)
    assert (grid * GRID_UNITS).is_integer()
    assert batch.curve(grid, noise_bits).delta(budget.epsilon) <= budget.delta
    assert noise(users, grid, noise_bits) <= (1 + overhead) * batch.floor(budget) * (1 + 1e-12)
    for fewer in range(max(1, noise_bits - 3), noise_bits):
        coarse = batch.coarsest_grid(budget, fewer, overhead)
        assert not batch.meets(budget, coarse, fewer)


def test_a_larger_overhead_needs_fewer_bits() -> None:
    found = [
        search(Budget(1.0, 1e-5), 1000, 5, overhead=share) for share in (0.005, 0.02, 0.1, 0.5)
    ]
    assert found == sorted(found, reverse=True)
    assert len(set(found)) == 4


def least(budget: Budget, grid: float, *, times: int = 1, users: int = 1000) -> int:
    return least_noise_bits(
        budget,
        grid=grid,
        users=users,
        honest_fraction=1.0,
        sensitivity=SENSITIVITY,
        labels=20,
        participations=times,
    )


def test_returning_users_cost_the_square_root_of_their_visits() -> None:
    budget = Budget(1.0, 1e-5)
    noise_bits = least(budget, 64, times=20)
    assert math.sqrt(1000 * noise_bits) / 2 / 64 == pytest.approx(35.40, abs=0.005)


@pytest.mark.parametrize("grid", [0.3, 2.5, 9.0, 64.0])
def test_one_noise_bit_less_is_not_proved(grid: float) -> None:
    budget = Budget(1.0, 1e-5)
    noise_bits = least(budget, grid, users=50)
    batch = BatchSum(50, 1.0, SENSITIVITY, 20)
    assert batch.meets(budget, grid, noise_bits)
    assert not batch.meets(budget, grid, noise_bits - 1)


def test_searches_that_cannot_end_well_are_refused() -> None:
    with pytest.raises(GuaranteeError, match="at least 1 honest user is needed, 1 users"):
        search(Budget(1.0, 1e-5), 1, 2, honest=0.5)
    with pytest.raises(GuaranteeError, match="noise bits per label would be tried next"):
        least(Budget(1e-6, 1e-12), 1e5)
    with pytest.raises(ValueError, match="overhead must be above 0"):
        search(Budget(1.0, 1e-5), 100, 2, overhead=0.0)


@pytest.mark.parametrize("users", [20, 300, 1000, 50_000])
def test_more_budget_never_means_more_noise_or_more_noise_bits(users: int) -> None:
    """Signal bits may grow: less noise needs a finer grid, or rounding exceeds the overhead."""
    asked = [(epsilon, delta) for epsilon in (0.1, 0.5, 1, 2, 8) for delta in (1e-9, 1e-5, 0.1)]
    found = {budget: search(Budget(*budget), users, 5) for budget in asked}
    for less, tight in found.items():
        for more, loose in found.items():
            if more[0] >= less[0] and more[1] >= less[1]:
                # A grid is a multiple of 2**-16, which moves the noise by as much.
                assert noise(users, *loose) <= noise(users, *tight) * (1 + 1e-4)
                assert loose[1] <= tight[1]


@pytest.mark.parametrize("overhead", [5e-324, 1e-9])
def test_an_overhead_that_no_bits_reach_is_refused(overhead: float) -> None:
    with pytest.raises(GuaranteeError, match="the most are"):
        search(Budget(1.0, 1e-5), 1000, 2, overhead=overhead)


def test_a_huge_overhead_needs_a_bit_or_two() -> None:
    assert search(Budget(1.0, 1e-5), 1000, 2, overhead=1e3)[1] <= 2
