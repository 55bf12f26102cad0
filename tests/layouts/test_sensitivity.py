"""How far one user moves a contribution: proved in docs/guarantees.md, searched for here."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy.optimize import minimize

from croupier.layouts import Layout, LightOffset, PapersLayout, light_offset

from .users import Floats, worst_pair

CLOSE = 1e-6
"""A search ends within this of what it looks for."""

Encode = Callable[[Floats, Floats], Floats]


def furthest(encode: Encode, dim: int, norm: float) -> float:
    """The largest distance found of two users with features of this norm at most."""

    def distances(points: Floats) -> Floats:
        halves = points.reshape(-1, 2, dim + 1)
        lengths = np.linalg.norm(halves[..., :-1], axis=-1, keepdims=True)
        features = norm * halves[..., :-1] / np.maximum(lengths, 1.0)
        first, second = np.swapaxes(encode(features, (1 + np.sin(halves[..., -1])) / 2), 0, 1)
        return np.asarray(np.linalg.norm(first - second, axis=-1))

    def loss(point: Floats) -> float:
        return -float(distances(point)[0])

    starts = 2 * np.random.default_rng(5).standard_normal((3000, 2 * (dim + 1)))
    found = distances(starts)
    most = float(found.max())
    for start in starts[np.argsort(found)[-6:]]:
        least = minimize(
            loss,
            start,
            method="Nelder-Mead",
            options={"xatol": 1e-10, "fatol": 1e-12, "maxfev": 6000},
        )
        most = max(most, -float(least.fun))
    return most


def of(layout: Layout) -> float:
    """The largest distance found of two users of a layout."""
    return furthest(layout.encode, layout.scored, layout.norm)


def weighted(weight: float) -> Encode:
    """(h (y - 1/2), w svec(hh')) of any h in the unit ball."""

    def encode(h: Floats, rewards: Floats) -> Floats:
        squares = (h[..., :, None] * h[..., None, :]).reshape(*h.shape[:-1], -1)
        return np.concatenate([h * (rewards - 0.5)[..., None], weight * squares], axis=-1)

    return encode


def stated(weight: float) -> float:
    """Delta of docs/guarantees.md, step 6."""
    square = weight**2
    return 1.0 if square <= 1 / 8 else math.sqrt(0.5 + 2 * square + 1 / (32 * square))


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("weight", [0.0, 0.3, math.sqrt(1 / 8), 0.5, math.sqrt(0.5)])
def test_the_theorem_holds_and_is_attained(weight: float, dim: int) -> None:
    most = furthest(weighted(weight), dim, 1.0)
    assert stated(weight) - CLOSE <= most <= stated(weight) * (1 + 1e-12)


def test_a_heavier_matrix_breaks_what_is_stated_for_a_lighter_one() -> None:
    assert furthest(weighted(1.0), 2, 1.0) > stated(0.5) + 0.4
    assert furthest(weighted(0.55), 2, 1.0) > stated(0.5) + 0.02


SEARCHED = [
    LightOffset(2),
    LightOffset(3),
    LightOffset(3, constant=(1, 0.7)),
    LightOffset(3, constant=(0, 0.99)),
    LightOffset(4, feature_norm=math.sqrt(2), constant=(0, 1.0)),
    PapersLayout(2),
    PapersLayout(3),
    PapersLayout(2, feature_norm=0.6),
    PapersLayout(2, feature_norm=math.sqrt(2)),
]


@pytest.mark.parametrize("layout", SEARCHED, ids=str)
def test_no_pair_of_users_is_further_apart_and_one_comes_close(layout: Layout) -> None:
    most = of(layout)
    assert most <= layout.sensitivity * (1 + 1e-12)
    assert most >= layout.sensitivity - CLOSE


@pytest.mark.parametrize("layout", [LightOffset(1), LightOffset(2, constant=(1, 0.5))], ids=str)
def test_users_on_a_line_are_within_the_bound_too(layout: Layout) -> None:
    assert 1.0 - CLOSE <= of(layout) <= layout.sensitivity


class Unshortened(LightOffset):
    """The offset is put in, and nothing made shorter for it."""

    @property
    def _length(self) -> Fraction:
        return self._square


def test_an_offset_without_room_for_it_breaks_the_bound() -> None:
    assert of(Unshortened(2)) > LightOffset(2).sensitivity + 0.05


def test_a_heavier_matrix_on_the_layout_breaks_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = LightOffset(2).sensitivity
    monkeypatch.setattr(light_offset, "WEIGHT", 1.0)
    assert of(LightOffset(2)) > bound + 0.2


def test_rewards_that_are_not_centred_break_the_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    bound = LightOffset(2).sensitivity
    monkeypatch.setattr(LightOffset, "centre", 0.0)
    assert of(LightOffset(2)) > bound + 0.2


@pytest.mark.parametrize("layout", SEARCHED[:5], ids=str)
def test_the_pair_that_audits_are_run_on_attains_it(layout: Layout) -> None:
    first, second = layout.encode(worst_pair(layout), np.array(layout.worst_rewards))
    assert np.linalg.norm(first - second) == pytest.approx(layout.sensitivity, rel=1e-8)


def test_the_papers_layout_attains_it_at_fifteen_degrees() -> None:
    cos, sin = math.cos(math.pi / 12), math.sin(math.pi / 12)
    layout = PapersLayout(2)
    first, second = layout.encode(np.array([[cos, sin], [-sin, -cos]]), np.ones(2))
    assert np.linalg.norm(first - second) == pytest.approx(layout.sensitivity, rel=1e-14)


def test_it_has_the_values_of_the_formula() -> None:
    for light in (LightOffset(1), LightOffset(5), LightOffset(5, constant=(0, 0.9))):
        assert light.sensitivity == pytest.approx(math.sqrt(9 / 8), rel=1e-15)
    assert PapersLayout(5).sensitivity == pytest.approx(math.sqrt(4.5), rel=1e-15)
    assert PapersLayout(5, feature_norm=math.sqrt(2)).sensitivity == pytest.approx(math.sqrt(12.5))
    assert PapersLayout(5, feature_norm=0.7).sensitivity == pytest.approx(1.4, rel=1e-12)
