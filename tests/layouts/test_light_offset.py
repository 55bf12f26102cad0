from __future__ import annotations

import math

import numpy as np
import pytest

from croupier.contribution import contribution
from croupier.fixed_point import UNIT
from croupier.layouts import LightOffset

from .users import DECLARED, PLAIN, Floats, ball, told

LIGHT = [
    PLAIN,
    DECLARED,
    LightOffset(1),
    LightOffset(2, constant=(1, 0.3)),
    LightOffset(3, feature_norm=8.0, constant=(0, -7.9)),
]
EVERY = pytest.mark.parametrize("layout", LIGHT, ids=str)


def moments(layout: LightOffset, scored: Floats) -> Floats:
    """h = (z, rho)/a ``(users, p)``, by docs/math.md 2."""
    offset = np.full((len(scored), 1), layout.offset)
    return np.hstack([scored, offset]) / math.hypot(layout.norm, layout.offset)


@EVERY
def test_the_offset_is_a_share_of_the_other_features(layout: LightOffset) -> None:
    declared = 0.0 if layout.constant is None else layout.constant[1] / layout.feature_norm
    assert layout.norm == pytest.approx(math.sqrt(1 - declared**2), rel=1e-15)
    assert 0.424 * layout.norm - 2.0**-20 <= layout.offset <= 0.424 * layout.norm
    assert layout.length == pytest.approx(math.hypot(layout.norm, layout.offset), rel=1e-15)


@EVERY
def test_a_contribution_is_h_around_half_a_reward_and_half_its_square(layout: LightOffset) -> None:
    rng = np.random.default_rng(1)
    scored, rewards = layout.norm * ball(rng, 50, layout.scored), rng.random(50)
    h = moments(layout, scored)
    rows, columns = np.triu_indices(layout.scored + 1)
    svec = np.where(rows == columns, 1.0, math.sqrt(2)) * h[:, rows] * h[:, columns]
    wanted = np.hstack([h * (rewards - 0.5)[:, None], 0.5 * svec[:, :-1]])
    # Stretches are rounded down by 2**-30 at most, and are above 1/8.
    np.testing.assert_allclose(layout.encode(scored, rewards), wanted, rtol=2.0**-27, atol=1e-17)


@EVERY
def test_decode_gives_back_the_moments_of_the_users(layout: LightOffset) -> None:
    rng = np.random.default_rng(2)
    scored, rewards = layout.norm * ball(rng, 40, layout.scored), rng.random(40)
    h, encoded = moments(layout, scored), layout.encode(scored, rewards)
    each = layout.decode(encoded, 1)
    np.testing.assert_allclose(each.vector, h * (rewards - 0.5)[:, None], atol=1e-15)
    np.testing.assert_allclose(each.matrix, h[:, :, None] * h[:, None, :], atol=1e-15)
    every = layout.decode(encoded.sum(axis=0), 40)
    np.testing.assert_allclose(every.vector, h.T @ (rewards - 0.5), atol=1e-13)
    np.testing.assert_allclose(every.matrix, h.T @ h, atol=1e-13)


@EVERY
def test_the_units_are_what_features_and_offset_are_in_the_moments(layout: LightOffset) -> None:
    scored = layout.norm * ball(np.random.default_rng(3), 5, layout.scored)
    with_one = np.hstack([scored, np.ones((5, 1))])
    np.testing.assert_allclose(with_one * layout.units, moments(layout, scored), rtol=1e-14)


def test_the_entry_that_everybody_has_is_not_sent_and_known() -> None:
    assert LightOffset(1).labels == ("u0", "u1", "v0.0", "v0.1")
    assert DECLARED.labels == (
        "u0", "u1", "u2", "u3", "v0.0", "v0.1", "v0.2", "v0.3",
        "v1.1", "v1.2", "v1.3", "v2.2", "v2.3",
    )  # fmt: skip
    assert len(set(LightOffset(7).labels)) == LightOffset(7).size == 8 + 36 - 1
    share = (PLAIN.offset / PLAIN.length) ** 2
    decoded = PLAIN.decode(np.zeros((2, PLAIN.size)), 30)
    np.testing.assert_allclose(decoded.matrix[:, -1, -1], 30 * share, rtol=1e-14)
    assert np.count_nonzero(decoded.matrix) == 2


def test_noise_of_the_decoded_matrix_is_twice_that_of_a_coordinate() -> None:
    """1 on the diagonal and half the variance beside it, times 1/w."""
    noise = np.random.default_rng(4).standard_normal((20_000, PLAIN.size))
    matrix = PLAIN.decode(noise, 0).matrix
    assert PLAIN.matrix_noise_factor == 2.0
    assert matrix[:, 0, 0].std() == pytest.approx(2.0, rel=0.03)
    assert matrix[:, 0, 3].std() == pytest.approx(math.sqrt(2), rel=0.03)


@EVERY
def test_every_range_is_attained(layout: LightOffset) -> None:
    axes, k = np.eye(layout.scored), layout.scored
    first, second = np.triu_indices(k, 1)
    corners = [math.sqrt(0.5) * (axes[first] + sign * axes[second]) for sign in (1, -1)]
    scored = layout.norm * np.vstack([axes, -axes, np.zeros((1, k)), *corners])
    encoded = np.vstack([layout.encode(scored, np.full(len(scored), end)) for end in (0.0, 1.0)])
    np.testing.assert_allclose(encoded.min(axis=0), layout.low, atol=UNIT + 1e-14)
    np.testing.assert_allclose(encoded.max(axis=0), layout.high, atol=UNIT + 1e-14)


def test_the_unit_of_features_and_the_value_of_the_constant_are_not_reported() -> None:
    rng = np.random.default_rng(5)
    scored = PLAIN.norm * ball(rng, 5, 3)
    for row in scored:
        small = contribution(PLAIN, row, 0.25)
        large = contribution(LightOffset(3, feature_norm=4.0), 4 * row, 0.25)
        assert np.array_equal(small, large)
    plus, minus = (LightOffset(4, constant=(2, sign * 0.5)) for sign in (1, -1))
    for row in plus.norm * scored:
        assert np.array_equal(
            contribution(plus, told(plus, row), 1.0), contribution(minus, told(minus, row), 1.0)
        )


def test_the_scored_features_are_those_that_differ() -> None:
    features = np.arange(8.0).reshape(2, 4)
    declared = LightOffset(4, feature_norm=2.0, constant=(2, 0.5))
    np.testing.assert_array_equal(declared.score_features(features), [[0, 0.5, 1.5], [2, 2.5, 3.5]])
    np.testing.assert_array_equal(LightOffset(4).score_features(features), features)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"dim": 1, "constant": (0, 0.5)}, r"dim must be at least 2 where a constant .*, got 1"),
        ({"constant": (2, 0.5)}, r"constant index must be below dim 2, got 2"),
        ({"constant": (0, 0.0)}, r"constant value must be between 0 and the norm 1.0, got 0.0"),
        ({"constant": (0, 1.0)}, r"constant value must be between 0 and the norm 1.0, got 1.0"),
        ({"constant": (0, -1.5)}, r"constant value must be between 0 and the norm 1.0, got -1.5"),
        ({"constant": (0, math.nan)}, r"constant value must be a finite number, got nan"),
        ({"constant": (0.0, 0.5)}, r"constant index must be a whole number .*, got 0.0"),
    ],
)
def test_a_constant_that_leaves_nothing_is_refused(change: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        LightOffset(**{"dim": 2, **change})  # type: ignore[arg-type]
