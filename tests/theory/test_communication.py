"""What a user sends, as counted here and as real plans send it."""

from __future__ import annotations

import math

import pytest

from croupier.layouts import LightOffset, PapersLayout
from croupier.plan import Plan
from croupier.privacy.budget import Budget
from croupier.protocols.base import REAL_BITS
from croupier.protocols.vector_release import VectorSumRelease
from croupier.theory import communication, constants


def plan(protocol: str, dim: int, epsilon: float, users: int, calibration: str) -> Plan:
    return Plan.calibrate(
        protocol,
        dim=dim,
        batch_size=users,
        horizon=20_000,
        calibration=calibration,
        epsilon=epsilon,
        delta=0.1,
        outside=True,
    )


@pytest.mark.parametrize("dim", [1, 2, 5, 15])
def test_the_triangle_is_sent_once_instead_of_twice(dim: int) -> None:
    entries = {(min(row, column), max(row, column)) for row in range(dim) for column in range(dim)}
    assert communication.amplified_numbers(dim) == dim + len(entries)
    twice = communication.printed_amplified_numbers(dim) - communication.amplified_numbers(dim)
    assert twice == dim * (dim - 1) / 2


@pytest.mark.parametrize("calibration", ["theorem", "released"])
@pytest.mark.parametrize("dim", [1, 5, 10])
def test_amplified_plans_send_as_many_numbers_as_counted(dim: int, calibration: str) -> None:
    made = plan("amplified-gaussian", dim, 0.2, 20, calibration)
    assert made.release(0).report_bits == REAL_BITS * communication.amplified_numbers(dim)


@pytest.mark.parametrize("calibration", ["theorem", "released"])
@pytest.mark.parametrize(("dim", "epsilon", "users"), [(1, 1.0, 1), (5, 10.0, 20), (15, 0.2, 7)])
def test_vector_sum_plans_send_as_many_bits_as_counted(
    dim: int, epsilon: float, users: int, calibration: str
) -> None:
    made = plan("vector-sum", dim, epsilon, users, calibration)
    own = made.release(0).parameters
    counted = communication.vector_sum_bits(made.layout, own["grid"], own["noise_bits"])
    assert made.release(0).report_bits == counted
    labels = dim + dim * (dim + 1) // 2
    assert counted == labels * (math.ceil(2 * own["grid"]) + own["noise_bits"])


def test_ranges_of_the_scaled_layout_save_signal_bits() -> None:
    """Grid 10, two features and the offset: r = 1, rho = 0.424, a^2 = 1 + rho^2."""
    layout, square, beside = LightOffset(2), 1 + 0.424**2, math.sqrt(2) * 0.424
    vector = [width / math.sqrt(square) for width in (1, 1, 0.424)]
    matrix = [width / square for width in (0.5, math.sqrt(0.5), beside, 0.5, beside)]
    counted = communication.vector_sum_bits(layout, 10.0, 17)
    assert counted == sum(math.ceil(10 * width) + 17 for width in vector + matrix)
    assert VectorSumRelease(layout, 50, 10.0, 17, 0.5).report_bits == counted


def test_the_paper_counts_too_few_signal_bits_and_every_product_twice() -> None:
    printed = communication.printed_vector_sum_bits(5, 9.0, 389)
    assert printed == 30 * 398
    assert communication.vector_sum_bits(PapersLayout(5), 9.0, 389) == 20 * (18 + 389)


def bits_of_the_theorem(budget: Budget, users: int, dim: int) -> float:
    grid = constants.vector_sum_grid(users, dim)
    bits = constants.vector_sum_noise_bits(budget, users, dim, grid)
    return communication.printed_vector_sum_bits(dim, grid, bits)


def test_the_order_is_kept_as_delta_falls_and_the_printed_one_is_not() -> None:
    """b has the square of its logarithm; from delta 1e-3 to 1e-30 that is a factor of ten."""
    users, dim = 400, 5
    kept, printed = [], []
    for delta in (1e-3, 1e-30):
        budget = Budget(0.5, delta)
        sent = bits_of_the_theorem(budget, users, dim)
        kept.append(sent / communication.vector_sum_order(budget, users, dim))
        printed.append(sent / communication.printed_vector_sum_order(budget, users, dim))
    assert 0.4 < kept[1] / kept[0] < 1
    assert printed[1] / printed[0] > 5


def test_the_order_hides_a_factor_of_about_a_million() -> None:
    for users in (25, 10_000):
        for epsilon in (0.1, 1.0):
            budget = Budget(epsilon, 1e-5)
            order = communication.vector_sum_order(budget, users, 5)
            hidden = bits_of_the_theorem(budget, users, 5) / order
            assert 3e5 < hidden < 3e6


def test_the_printed_order_is_computed_as_printed() -> None:
    order = communication.printed_vector_sum_order(Budget(0.5, 1e-4), 400, 3)
    assert math.isclose(order, 9 * (20 + math.log(1e4) / 0.25), rel_tol=1e-12)


@pytest.mark.parametrize("dim", [1, 2, 5, 15])
def test_the_papers_labels_take_bits_that_it_does_not_count(dim: int) -> None:
    labels = dim + dim**2
    assert 2 ** communication.printed_label_bits(dim) >= labels
    assert 2 ** (communication.printed_label_bits(dim) - 1) < labels
    assert communication.printed_label_bits(5) == 5
