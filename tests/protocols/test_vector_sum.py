from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from croupier.coins import SeededCoins, SystemCoins
from croupier.contribution import contribution
from croupier.errors import GuaranteeError
from croupier.layouts import Layout, LightOffset, PapersLayout
from croupier.plan import Plan
from croupier.privacy.budget import Budget
from croupier.protocols.base import Floats, Terms
from croupier.protocols.vector_release import VectorSumRelease
from croupier.protocols.vector_sum import VectorSum
from croupier.schedules import FixedBatches
from croupier.shuffler import gather, shuffle

LAYOUT = LightOffset(2)


def release(
    users: int = 4, grid: float = 5.5, noise_bits: int = 7, bias: float = 0.5
) -> VectorSumRelease:
    return VectorSumRelease(LAYOUT, users, grid, noise_bits, bias)


def box(users: int, seed: int) -> Floats:
    return np.random.default_rng(seed).uniform(LAYOUT.low, LAYOUT.high, (users, LAYOUT.size))


@given(
    grid=st.integers(2**14, 40 * 2**16).map(lambda whole: whole / 2**16),
    noise_bits=st.integers(0, 20),
    bias=st.sampled_from([0.25, 0.5]),
    place=st.floats(0, 1),
    seed=st.integers(0, 2**32),
)
@settings(max_examples=60, deadline=None)
def test_reports_have_a_fixed_length_and_never_overflow(
    grid: float, noise_bits: int, bias: float, place: float, seed: int
) -> None:
    made = VectorSumRelease(LAYOUT, 3, grid, noise_bits, bias)
    row = LAYOUT.low + place * (LAYOUT.high - LAYOUT.low)
    floor, left = made.steps(row)
    assert np.all(floor + np.ceil(left) <= made.signal_bits)
    sent = made.randomize(row, SeededCoins(seed))
    assert tuple(sent) == LAYOUT.labels
    for label, signal in zip(LAYOUT.labels, made.signal_bits, strict=True):
        assert sent[label].shape == (signal + noise_bits, 1)
        assert set(np.unique(sent[label])) <= {0, 1}
    assert sum(len(rows) for rows in sent.values()) == made.report_bits


@given(
    whole=st.integers(1, 2**22),
    layout=st.sampled_from([LightOffset(2), LightOffset(3, feature_norm=1.7, constant=(1, 0.9))]),
)
@settings(max_examples=60, deadline=None)
def test_signal_bits_are_the_exact_ceiling(whole: int, layout: Layout) -> None:
    made = VectorSumRelease(layout, 3, whole / 2**16, 0, 0.5)
    span = [
        Fraction(high) - Fraction(low) for low, high in zip(layout.low, layout.high, strict=True)
    ]
    assert made.signal_bits.tolist() == [math.ceil(Fraction(whole, 2**16) * part) for part in span]


@pytest.mark.parametrize(
    "layout", [LightOffset(3), LightOffset(3, constant=(0, 0.5)), PapersLayout(3)], ids=str
)
def test_the_steps_of_a_simulation_are_those_of_a_device(layout: Layout) -> None:
    made, rng = VectorSumRelease(layout, 3, 7.0625, 0, 0.5), np.random.default_rng(4)
    for _ in range(50):
        row = contribution(layout, rng.uniform(-0.5, 0.5, 3), float(rng.random()))
        floor, left = made.steps(row)
        exact = np.array([Fraction(part, 2**56) for part in made._numerators(row)], dtype=float)
        assert floor + left == pytest.approx(exact, rel=1e-14, abs=1e-14)


def test_released_grids_are_the_scripts_to_the_nearest_step() -> None:
    made = VectorSum.calibrate(
        Budget(1, 0.1), PapersLayout(5), FixedBatches(20, 200), Terms("released")
    )
    assert abs(made.release(0).parameters["grid"] - 2 * math.sqrt(20)) <= 2.0**-17


@pytest.mark.parametrize("bias", [0.25, 0.5])
def test_a_report_can_be_all_ones(bias: float) -> None:
    made, coins = release(grid=3.75, noise_bits=2, bias=bias), SeededCoins(0)
    most = made.signal_bits + made.noise_bits
    counts = [
        [np.count_nonzero(rows) for rows in made.randomize(LAYOUT.high, coins).values()]
        for _ in range(300)
    ]
    # The largest count is reached (missed in all 300 reports of 8 labels with chance below 1e-6).
    assert np.max(counts - most) == 0


@pytest.mark.parametrize("end", ["low", "high"])
def test_range_ends_on_the_grid_are_exact(end: str) -> None:
    layout = PapersLayout(2)
    made = VectorSumRelease(layout, 4, 5.0, 0, 0.5)
    row = getattr(layout, end)
    assert np.array_equal(made.run(np.tile(row, (4, 1)), SeededCoins(0)), 4 * row)
    rng = np.random.default_rng(0)
    assert np.array_equal(made.sample_sum(np.tile(row, (4, 1)), rng), 4 * row)


def test_values_beyond_their_range_count_as_its_end() -> None:
    made = release(noise_bits=0)
    for beyond, end in ((LAYOUT.low - 3, LAYOUT.low), (LAYOUT.high + 3, LAYOUT.high)):
        far, near = (made.randomize(row, SeededCoins(3)) for row in (beyond, end))
        assert all(np.array_equal(far[label], near[label]) for label in LAYOUT.labels)


def test_rounding_is_drawn_afresh() -> None:
    made, coins = release(noise_bits=0), SeededCoins(0)
    row = LAYOUT.low + 0.5 / made.grid
    counts = {
        tuple(np.count_nonzero(rows) for rows in made.randomize(row, coins).values())
        for _ in range(60)
    }
    # Each label is a fair coin: 16 of 256 patterns in 60 reports have chance below 1e-40.
    assert len(counts) > 16


def test_two_reports_of_one_device_differ() -> None:
    made, row = release(noise_bits=200), np.zeros(LAYOUT.size)
    first, second = (made.randomize(row, SystemCoins()) for _ in range(2))
    counts = [[np.count_nonzero(rows) for rows in sent.values()] for sent in (first, second)]
    # Eight popcounts of 200 coins agree with chance below 0.04^8 = 1e-11.
    assert counts[0] != counts[1]


def test_analyzer_ignores_message_order_exactly() -> None:
    made, coins = release(), SeededCoins(0)
    messages = gather([made.randomize(row, coins) for row in box(4, 0)])
    sums = made.analyze(messages)
    backwards = {label: rows[::-1] for label, rows in messages.items()}
    assert np.array_equal(made.analyze(backwards), sums)
    for _ in range(20):
        assert np.array_equal(made.analyze(shuffle(messages, coins)), sums)


def test_analyzer_takes_off_the_shift_of_all_users_not_of_one() -> None:
    made = VectorSumRelease(PapersLayout(2), 4, 5.0, 0, 0.5)
    rows = np.tile([0.2, -0.4, 1.0, 0.6, -1.0], (4, 1))
    sums = made.run(rows, SeededCoins(0))
    assert sums == pytest.approx([0.8, -1.6, 4.0, 2.4, -4.0])
    once = sums - 3 * made.layout.low
    assert np.all(np.abs(once - rows.sum(axis=0)) > 2.9)


def test_noise_bits_are_taken_off_by_their_mean() -> None:
    made = release(users=4, grid=2.0, noise_bits=6, bias=0.25)
    counts = np.full(LAYOUT.size, 4 * 6 // 4)
    assert made.debias(counts) == pytest.approx(4 * LAYOUT.low)


@pytest.mark.parametrize(("bias", "spread"), [(0.5, 0.25), (0.25, 0.1875)])
def test_noise_std_is_binomial_noise_and_worst_rounding(bias: float, spread: float) -> None:
    made = release(users=9, grid=4.0, noise_bits=10, bias=bias)
    assert made.privacy_noise_std == pytest.approx(math.sqrt(90 * spread) / 4)
    assert made.noise_std == pytest.approx(math.sqrt(90 * spread + 9 / 4) / 4)


@pytest.mark.parametrize("bias", [0.25, 0.5])
def test_noise_std_is_what_is_measured_at_the_worst_rounding(bias: float) -> None:
    made = release(users=6, noise_bits=5, bias=bias)
    rows = np.tile(LAYOUT.low + 0.5 / made.grid, (6, 1))
    sums = made.sample_sum(np.broadcast_to(rows, (20_000, *rows.shape)), np.random.default_rng(1))
    # A standard error is 1 / sqrt(2 * 20000) = 0.5 %; six of them for 8 labels: 2e-8.
    assert sums.std(axis=0) == pytest.approx(np.full(LAYOUT.size, made.noise_std), rel=0.03)


def test_on_the_grid_only_privacy_noise_is_left() -> None:
    made = release(users=6, noise_bits=5)
    rows = np.tile(LAYOUT.low + 2 / made.grid, (6, 1))
    # A hair above the grid point, so that floor() sees two whole steps.
    sums = made.sample_sum(
        np.broadcast_to(rows + 1e-12, (20_000, *rows.shape)), np.random.default_rng(2)
    )
    assert sums.std(axis=0) == pytest.approx(np.full(LAYOUT.size, made.privacy_noise_std), rel=0.03)


def test_theorem_parameters_are_those_of_the_paper() -> None:
    # MATH 4: B=20, eps=1, delta=1e-5, d=5: 2.5e8 bits, noise 3427 on the batch sum.
    plan = Plan.calibrate(
        "vector-sum",
        dim=5,
        batch_size=20,
        horizon=200,
        calibration="theorem",
        epsilon=1.0,
        delta=1e-5,
    )
    own = plan.release(0).parameters
    assert own["grid"] == 9.0
    assert own["bias"] == 0.25
    grid = 2 * math.sqrt(20)
    bits = 24e4 * grid**2 * math.log(4 * 26 / 1e-5) ** 2 / 20
    assert bits < own["noise_bits"] <= math.ceil(bits * (9 / grid) ** 2)
    assert own["noise_bits"] == pytest.approx(2.5e8, rel=0.03)
    assert plan.release(0).privacy_noise_std == pytest.approx(3427, rel=1e-3)
    assert plan.layout == PapersLayout(5)


def test_theorem_refuses_epsilon_beyond_its_range_with_both_numbers() -> None:
    with pytest.raises(GuaranteeError, match=r"thm:vec needs epsilon <= 15, but 16 > 15"):
        VectorSum.calibrate(Budget(16, 0.1), LAYOUT, FixedBatches(20, 200), Terms("theorem"))


@pytest.mark.parametrize(
    ("changed", "text"),
    [
        ({"grid": 0.0}, "grid must be above 0, got 0.0"),
        ({"grid": 3.3}, r"grid must be a multiple of 2\*\*-16, got 3.3"),
        ({"grid": 2.0**-17}, r"grid must be a multiple of 2\*\*-16, got 7.6"),
        ({"noise_bits": -1}, "noise_bits must be a whole number of at least 0, got -1"),
        ({"noise_bits": 2.5}, "noise_bits must be a whole number of at least 0, got 2.5"),
        ({"bias": 0.3}, "bias must be one of .* got 0.3"),
    ],
)
def test_parameters_that_no_device_can_draw_are_refused(
    changed: dict[str, float], text: str
) -> None:
    own = {"grid": 5.0, "noise_bits": 3, "bias": 0.5, **changed}
    with pytest.raises(ValueError, match=text):
        VectorSumRelease(LAYOUT, 4, **own)  # type: ignore[arg-type]


@pytest.mark.parametrize("calibration", ["theorem", "released"])
def test_nothing_is_claimed_where_nothing_is_computed(calibration: str) -> None:
    plan = Plan.calibrate(
        "vector-sum",
        dim=3,
        batch_size=20,
        horizon=200,
        calibration=calibration,
        epsilon=1.0,
        delta=0.1,
    )
    promise = plan.guarantees()["shuffle"]
    assert promise.proved or (promise.reason and not plan.met)
