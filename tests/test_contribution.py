"""Contributions stay inside the bounds that every privacy number rests on (MATH 2)."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray
from scipy.optimize import minimize

from croupier.contribution import (
    NORM_SLACK,
    UNIT,
    Layout,
    checked_constant,
    checked_features,
    contribution,
    unit_features,
    whole_units,
)

Floats = NDArray[np.float64]

CENTRED = Layout(3, weight=0.6, constant=(2, 0.5))
LAYOUTS = [Layout(3), Layout(3, scaled=False), Layout(3, weight=0.6), Layout(1), CENTRED]


def ball(rng: np.random.Generator, count: int, dim: int) -> Floats:
    """Random points of the unit ball, half of them on its surface."""
    points = rng.standard_normal((count, dim))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points[: count // 2] *= rng.random((count // 2, 1))
    return points


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_decode_gives_back_the_vector_and_matrix_that_were_encoded(layout: Layout) -> None:
    rng = np.random.default_rng(1)
    features, rewards = ball(rng, 50, layout.dim), rng.random(50)
    vector, matrix = layout.decode(layout.encode(features, rewards))
    gains = rewards - (0.5 if layout.centred else 0)
    np.testing.assert_allclose(vector, features * gains[:, None], rtol=1e-15)
    np.testing.assert_allclose(matrix, features[:, :, None] * features[:, None, :], rtol=1e-14)


@pytest.mark.parametrize("layout", LAYOUTS, ids=str)
def test_decode_of_a_sum_is_the_sum_of_what_was_encoded(layout: Layout) -> None:
    rng = np.random.default_rng(2)
    features, rewards = ball(rng, 40, layout.dim), rng.random(40)
    vector, matrix = layout.decode(layout.encode(features, rewards).sum(axis=0))
    gains = rewards - (0.5 if layout.centred else 0)
    np.testing.assert_allclose(vector, features.T @ gains, atol=1e-12)
    np.testing.assert_allclose(matrix, features.T @ features, atol=1e-12)


@pytest.mark.parametrize("weight", [1.0, 0.6])
def test_the_scaled_matrix_block_has_the_frobenius_norm(weight: float) -> None:
    layout = Layout(4, weight=weight)
    first, second = ball(np.random.default_rng(3), 2, 4)
    one, two = (layout.encode(phi, np.asarray(1.0))[4:] for phi in (first, second))
    frobenius = np.linalg.norm(np.outer(first, first) - np.outer(second, second))
    assert np.linalg.norm(one - two) == pytest.approx(weight * frobenius, rel=1e-13)


def test_labels_name_every_coordinate_once() -> None:
    assert Layout(2).labels == ("u0", "u1", "v0.0", "v0.1", "v1.1")
    assert len(set(Layout(7).labels)) == Layout(7).size == 35


@pytest.mark.parametrize("layout", [*LAYOUTS, Layout(3, feature_norm=2.0)], ids=str)
def test_random_contributions_stay_within_their_ranges(layout: Layout) -> None:
    rng = np.random.default_rng(4)
    features = layout.norm * ball(rng, 2000, layout.dim)
    encoded = layout.encode(features, rng.random(2000))
    assert np.all(encoded >= layout.low - 1e-12)
    assert np.all(encoded <= layout.high + 1e-12)


@pytest.mark.parametrize("layout", [Layout(3), Layout(3, weight=0.6, feature_norm=2.0)], ids=str)
def test_every_range_of_the_scaled_layout_is_attained(layout: Layout) -> None:
    axes = np.eye(3)
    corners = [math.sqrt(0.5) * (axes[i] + sign * axes[j]) for i, j, sign in _PAIRS]
    features = layout.norm * np.array([*axes, *-axes, *corners])
    encoded = layout.encode(features, np.ones(len(features)))
    np.testing.assert_allclose(encoded.min(axis=0), layout.low, atol=UNIT + 1e-14)
    np.testing.assert_allclose(encoded.max(axis=0), layout.high, atol=UNIT + 1e-14)


_PAIRS = [(0, 1, 1), (0, 1, -1), (0, 2, 1), (0, 2, -1), (1, 2, 1), (1, 2, -1)]


def test_every_range_of_the_papers_layout_is_minus_one_to_one() -> None:
    layout = Layout(3, scaled=False)
    assert layout.low.tolist() == [-1.0] * layout.size
    assert layout.high.tolist() == [1.0] * layout.size


def test_the_sensitivity_has_the_values_of_the_formula() -> None:
    assert Layout(5).sensitivity == pytest.approx(math.sqrt(4.5), rel=1e-15)
    assert Layout(5, scaled=False).sensitivity == pytest.approx(math.sqrt(4.5), rel=1e-15)
    assert Layout(5, weight=math.sqrt(0.5)).sensitivity == pytest.approx(2.0, rel=1e-12)
    assert Layout(5, weight=0.3).sensitivity == 2.0
    assert Layout(5, weight=0.8).sensitivity == pytest.approx(math.sqrt(2 + 1.28 + 1 / 1.28))
    papers = Layout(5, scaled=False, feature_norm=math.sqrt(2))
    assert papers.sensitivity == pytest.approx(math.sqrt(12.5))
    assert Layout(5, feature_norm=math.sqrt(2)).sensitivity == Layout(5).sensitivity


def test_the_centred_sensitivity_has_the_values_of_the_formula() -> None:
    """MATH 6.5, point 5."""
    square = 0.5 + 2 * 0.36 + 1 / (32 * 0.36)
    assert CENTRED.sensitivity == pytest.approx(math.sqrt(square), rel=1e-15)
    assert CENTRED.sensitivity == pytest.approx(1.1432, abs=5e-5)
    assert Layout(3, weight=0.35, constant=(0, 0.5)).sensitivity == 1.0


def test_features_that_differ_from_the_declared_constant_are_refused() -> None:
    given = np.array([[0.1, 0.2, 0.5], [0.3, 0.1, 0.5 + 3e-6]])
    np.testing.assert_array_equal(checked_constant(CENTRED, given[:1]), given[:1])
    np.testing.assert_array_equal(checked_constant(Layout(3), given), given)
    with pytest.raises(ValueError, match=r"the constant 0.5 at index 2, got 0.500003"):
        checked_constant(CENTRED, given)


SEARCHED = [
    Layout(2),
    Layout(3),
    Layout(2, scaled=False),
    Layout(2, weight=0.3),
    Layout(2, weight=0.8),
    Layout(2, feature_norm=math.sqrt(2)),
    Layout(2, weight=0.6, constant=(1, 0.7)),
    Layout(3, weight=0.3, constant=(0, 0.1)),
    Layout(2, weight=0.8, constant=(0, 1.0), feature_norm=math.sqrt(2)),
]


def distance(layout: Layout, point: Floats) -> float:
    """How far apart two users are whose (phi, y, phi', y') the point is squeezed into."""
    half = point.reshape(2, layout.dim + 1)
    norms = np.linalg.norm(half[:, :-1], axis=1, keepdims=True)
    features = layout.norm * half[:, :-1] / np.maximum(norms, 1.0)
    rewards = (1 + np.sin(half[:, -1])) / 2
    first, second = layout.encode(features, rewards)
    return float(np.linalg.norm(first - second))


def climb(layout: Layout, start: Floats) -> float:
    """The distance at a local maximum near ``start``."""

    def loss(point: Floats) -> float:
        return -distance(layout, point)

    found = minimize(
        loss, start, method="Nelder-Mead", options={"xatol": 1e-10, "fatol": 1e-12, "maxfev": 6000}
    )
    return -float(found.fun)


@pytest.mark.parametrize("layout", SEARCHED, ids=str)
def test_no_pair_of_users_is_further_apart_than_the_sensitivity_and_one_comes_close(
    layout: Layout,
) -> None:
    rng = np.random.default_rng(5)
    starts = 2 * rng.standard_normal((3000, 2 * (layout.dim + 1)))
    found = np.array([distance(layout, start) for start in starts])
    best = starts[np.argsort(found)[-8:]]
    most = max(found.max(), *(climb(layout, start) for start in best))
    assert most <= layout.sensitivity * (1 + 1e-12)
    assert most >= layout.sensitivity - 1e-6


def test_the_papers_layout_attains_the_sensitivity_at_fifteen_degrees() -> None:
    cos, sin = math.cos(math.pi / 12), math.sin(math.pi / 12)
    layout = Layout(2, scaled=False)
    first, second = layout.encode(np.array([[cos, sin], [-sin, -cos]]), np.ones(2))
    assert np.linalg.norm(first - second) == pytest.approx(layout.sensitivity, rel=1e-14)


@pytest.mark.parametrize(
    ("feature", "reward", "message"),
    [
        ([math.nan, 0.0], 0.5, r"feature must be finite, got nan"),
        ([0.0, math.inf], 0.5, r"feature must be finite, got inf"),
        ([0.5, 0.5, 0.5], 0.5, r"feature must end in dimension 2, got shape \(3,\)"),
        (0.5, 0.5, r"feature must end in dimension 2, got shape \(\)"),
        ([[0.5, 0.5]], 0.5, r"feature must have shape \(2,\), got \(1, 2\)"),
        ([1.0, 1.0], 0.5, r"feature must have norm at most 1.0, got 1.414"),
        ([1.0, 0.0], 1.5, r"reward must be in \[0.0, 1.0\], got 1.5"),
        ([1.0, 0.0], -0.1, r"reward must be in \[0.0, 1.0\], got -0.1"),
        ([1.0, 0.0], math.nan, r"reward must be a finite number, got nan"),
    ],
)
def test_a_bad_contribution_is_refused_by_name_and_value(
    feature: object, reward: float, message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        contribution(Layout(2), feature, reward)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": 0}, r"dim must be a whole number of at least 1, got 0"),
        ({"dim": 2.0}, r"dim must be a whole number of at least 1, got 2.0"),
        ({"weight": 0.0}, r"weight must be above 0, got 0.0"),
        ({"feature_norm": -1.0}, r"feature_norm must be above 0, got -1.0"),
        ({"feature_norm": math.nan}, r"feature_norm must be a finite number, got nan"),
        ({"reward_range": (1.0, 1.0)}, r"reward_range must rise, got \(1.0, 1.0\)"),
        ({"reward_range": (0.0, math.inf)}, r"reward_range must be a finite number, got inf"),
        ({"scaled": False, "feature_norm": 70.0}, r"contributions at most 4096, got 70.0 and 1.0"),
        ({"constant": (2, 0.5)}, r"constant index must be below dim 2, got 2"),
        ({"constant": (0, 0.0)}, r"constant value must be between 0 and the norm 1.0, got 0.0"),
        ({"constant": (0, 1.5)}, r"constant value must be between 0 and the norm 1.0, got 1.5"),
        ({"constant": (0, math.nan)}, r"constant value must be a finite number, got nan"),
        ({"scaled": False, "constant": (0, 0.5)}, r"constant must be None in the paper's layout"),
        ({"weight": 5000.0}, r"contributions at most 4096, got 1.0 and 5000.0"),
        ({"scaled": False, "weight": 0.5}, r"weight must be 1 in the paper's layout, got 0.5"),
    ],
)
def test_a_bad_layout_is_refused_by_name_and_value(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Layout(**{"dim": 2, **change})  # type: ignore[arg-type]


def test_rewards_of_another_range_are_mapped_to_the_unit_interval() -> None:
    layout = Layout(2, reward_range=(-2.0, 6.0))
    assert contribution(layout, [1.0, 0.0], 4.0)[0] == 0.75
    assert layout.unit_reward(-2.0) == 0.0
    assert layout.unit_reward(6.0) == 1.0
    with pytest.raises(ValueError, match=r"reward must be in \[-2.0, 6.0\], got 6.5"):
        layout.unit_reward(6.5)


def test_a_batch_of_arm_sets_is_checked_as_one() -> None:
    features = np.zeros((4, 3, 2))
    np.testing.assert_array_equal(checked_features(Layout(2), features), features)
    features[2, 1] = [0.8, 0.7]
    with pytest.raises(ValueError, match=r"features must have norm at most 1.0, got 1.063"):
        checked_features(Layout(2), features)


@given(
    direction=arrays(np.float64, 4, elements=st.floats(-1, 1)),
    length=st.floats(0, 1 + NORM_SLACK / 2),
    reward=st.floats(0, 1),
)
def test_clipping_keeps_every_accepted_contribution_within_the_bound(
    direction: Floats, length: float, reward: float
) -> None:
    layout = Layout(4)
    size = float(np.linalg.norm(direction))
    feature = direction * (length / size) if size > 1e-3 else direction
    row = contribution(layout, feature, reward)
    vector, matrix = layout.decode(row)
    assert np.linalg.norm(row[:4]) <= 1 + 1e-15 * 4
    assert np.trace(matrix) <= 1 + 1e-15 * 4
    assert np.linalg.norm(vector) <= reward * math.sqrt(max(np.trace(matrix), 0.0)) + 1e-12


def test_a_feature_that_is_too_long_by_rounding_is_clipped_and_not_refused() -> None:
    feature = np.array([0.6, 0.8]) * (1 + NORM_SLACK / 2)
    row = contribution(Layout(2), feature, 1.0)
    assert np.linalg.norm(feature) > 1 + NORM_SLACK / 4
    assert np.linalg.norm(row[:2]) <= 1 + 2**-52


DEVICES = [
    Layout(2),
    Layout(4),
    Layout(4, scaled=False),
    Layout(4, weight=0.6),
    Layout(4, weight=math.sqrt(0.5)),
    Layout(3, weight=2.3, feature_norm=math.sqrt(2)),
    Layout(2, feature_norm=64.0),
    Layout(1),
    Layout(4, weight=0.6, constant=(3, 0.7)),
]
EVERY_DEVICE = pytest.mark.parametrize("layout", DEVICES, ids=str)


def squared(units: list[int]) -> int:
    return sum(unit * unit for unit in units)


def apart(layout: Layout, first: tuple[Floats, float], second: tuple[Floats, float]) -> int:
    """The exact squared distance of two devices' contributions, in units."""
    one, two = (whole_units(contribution(layout, *user)) for user in (first, second))
    return squared([left - right for left, right in zip(one, two, strict=True)])


def allowed(layout: Layout) -> Fraction:
    """The square that ``device_sensitivity`` allows, exactly."""
    return (Fraction(layout.device_sensitivity) * 2**40) ** 2


def rotated(rng: np.random.Generator, vectors: Floats) -> Floats:
    """The vectors turned by a random rotation."""
    turn, _ = np.linalg.qr(rng.standard_normal((vectors.shape[1], vectors.shape[1])))
    return np.asarray(vectors @ turn)


def worst_pair(layout: Layout) -> Floats:
    """Features ``(2, dim)`` that attain the sensitivity of the scaled layout."""
    cos = layout.worst_cosine
    pair = np.zeros((2, layout.dim))
    pair[0, 0] = 1.0
    pair[1, : min(layout.dim, 2)] = [cos, math.sqrt(1 - cos**2)][: layout.dim]
    return layout.feature_norm * pair


@EVERY_DEVICE
def test_ranges_are_whole_units_and_never_narrower(layout: Layout) -> None:
    ends = np.concatenate([layout.low, layout.high])
    assert np.array_equal(np.ldexp(ends, 40), np.floor(np.ldexp(ends, 40)))
    rng = np.random.default_rng(6)
    axes = np.vstack([np.eye(layout.dim), -np.eye(layout.dim)])
    diagonal = np.ones((1, layout.dim)) / math.sqrt(layout.dim)
    for feature in layout.feature_norm * np.vstack([axes, diagonal, ball(rng, 50, layout.dim)]):
        row = contribution(layout, feature * (1 - 1e-15), 1.0)
        assert np.all((layout.low <= row) & (row <= layout.high))


@EVERY_DEVICE
def test_a_devices_contribution_is_whole_units_close_to_the_encoding(layout: Layout) -> None:
    rng = np.random.default_rng(7)
    for feature in layout.feature_norm * ball(rng, 200, layout.dim) * (1 - 1e-12):
        reward = float(rng.random())
        row = contribution(layout, feature, reward)
        assert np.array_equal(np.array(whole_units(row)) * UNIT, row)
        scale = max(1.0, layout.norm, layout.stretch.max() * layout.norm)
        exact = layout.encode(unit_features(layout, feature), np.asarray(reward))
        assert np.abs(row - exact).max() < 1e-5 * scale


@EVERY_DEVICE
def test_no_coordinate_of_a_device_is_larger_than_that_of_its_quantised_user(
    layout: Layout,
) -> None:
    rng = np.random.default_rng(8)
    for feature in layout.feature_norm * ball(rng, 50, layout.dim) * (1 - 1e-12):
        row = contribution(layout, feature, 1.0)
        quantised = np.trunc(np.ldexp(unit_features(layout, feature), 20)) / 2**20
        exact = np.abs(layout.encode(quantised, np.asarray(1.0)))
        assert np.all(np.abs(row) <= exact * (1 + 1e-15))


@EVERY_DEVICE
def test_no_two_devices_are_further_apart_than_the_device_sensitivity(layout: Layout) -> None:
    rng = np.random.default_rng(9)
    most = 0
    for _ in range(400):
        pair = rotated(rng, worst_pair(layout)) * (1 + rng.uniform(-1e-6, 1e-9))
        pair += rng.normal(0, 1e-8, pair.shape) * (rng.random() < 0.5)
        norms = np.linalg.norm(pair, axis=1, keepdims=True)
        pair *= np.minimum(1, layout.feature_norm * (1 + NORM_SLACK / 2) / norms)
        first, second = layout.worst_rewards
        most = max(most, apart(layout, (pair[0], first), (pair[1], second)))
    assert most <= allowed(layout)
    # The search comes close, but a line has no such pair, and few rotations of the paper's layout.
    assert most >= 0.9999 * float(allowed(layout)) or layout.dim == 1 or not layout.scaled


@given(
    features=arrays(np.float64, (2, 3), elements=st.floats(-1, 1)),
    lengths=st.tuples(st.floats(0, 1 + NORM_SLACK / 2), st.floats(0, 1 + NORM_SLACK / 2)),
    rewards=st.tuples(st.floats(0, 1), st.floats(0, 1)),
    layout=st.sampled_from([Layout(3), Layout(3, scaled=False), Layout(3, weight=0.8), CENTRED]),
)
def test_any_two_devices_are_within_the_device_sensitivity(
    features: Floats, lengths: tuple[float, float], rewards: tuple[float, float], layout: Layout
) -> None:
    sizes = np.linalg.norm(features, axis=1)
    scaled = [
        row * (length / size) if size > 1e-3 else row
        for row, length, size in zip(features, lengths, sizes, strict=True)
    ]
    first, second = zip(scaled, rewards, strict=True)
    assert apart(layout, first, second) <= allowed(layout)


def test_the_device_sensitivity_is_a_hair_above_the_sensitivity() -> None:
    for layout in DEVICES:
        slack = layout.device_sensitivity - layout.sensitivity
        assert 0 < slack <= math.sqrt(layout.size) * UNIT + layout.sensitivity * 2.0**-46
    # 190 products of dimension 20 are stretched by sqrt(2) and truncated.
    extra = Layout(20).device_sensitivity - Layout(20).sensitivity
    assert extra == pytest.approx(math.sqrt(190) * UNIT, rel=1e-2, abs=0)


def squares_summing_to(target: int) -> list[int]:
    """Four whole numbers whose squares come within 20 below ``target``."""
    found = []
    for _ in range(4):
        found.append(math.isqrt(target))
        target -= found[-1] ** 2
    return found


@pytest.mark.parametrize("excess", [1, 25, 400, 2000])
def test_a_quantised_norm_above_the_bound_is_shrunk_in_integers(excess: int) -> None:
    whole = squares_summing_to(2**40 + excess)
    row = contribution(Layout(4, scaled=False), np.array(whole) / 2**20, 1.0)
    sent = [unit // 2**20 for unit in whole_units(row[:4])]
    assert squared(sent) <= 2**40
    if squared(whole) > 2**40:
        assert sent != whole
    assert max(abs(a - b) for a, b in zip(sent, whole, strict=True)) <= 1


def test_stretches_are_rounded_down_exactly() -> None:
    stretch = Layout(2).whole_stretch
    assert stretch == (2**30, math.isqrt(2 * 4**30), 2**30)
    assert Layout(2, scaled=False).whole_stretch == (2**30,) * 3
    # A float below sqrt(1/2) whose product with sqrt(2) rounds to 1 must not reach it.
    under = Layout(2, weight=math.nextafter(math.sqrt(0.5), 0))
    assert under.whole_stretch[1] == 2**30 - 1
