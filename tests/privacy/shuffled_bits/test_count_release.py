"""Releases as counts: their reach, their tails, and what they refuse (MATH 4)."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pytest

from croupier.privacy.shuffled_bits.count_release import CountRelease
from croupier.privacy.shuffled_bits.quantile_slope import find_slope


def test_coins_that_hide_nothing_have_no_mu() -> None:
    assert CountRelease(40, 0.5, 30.0, 5).mu(1e-3) == math.inf
    assert CountRelease(0, 0.5, 1.0, 5).mu(1e-3) == math.inf


def test_reports_in_one_release_add_up_linearly() -> None:
    one = CountRelease(10**6, 0.5, 20.0, 25)
    three = CountRelease(10**6, 0.5, 20.0, 25, reports=3)
    assert three.shift in {75, 76}
    assert three.mu(1e-9) == pytest.approx(3 * 25 / 500, rel=1e-3)
    assert three.mu(1e-9) > 3 * one.mu(1e-9)


def test_the_reach_of_several_reports_is_rounded_up() -> None:
    for number in range(1, 200):
        release = CountRelease(10**6, 0.5, 0.1 * number, number, reports=3)
        exact = 3 * (Decimal(release.distance) + Decimal(number).sqrt())
        assert exact <= Decimal(release.reach) <= exact * (1 + Decimal("3e-15"))


def test_two_reports_in_a_release_are_rounded_up() -> None:
    release = CountRelease(5000, 0.5, 10.0, 20, reports=2)
    slope = find_slope(5000, 0.5, math.ceil(2 * (10 + math.sqrt(20))), 1e-6)
    assert release.mu(1e-6) > slope.slope * 2 * (10 + math.sqrt(20))


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("coins", -1, "coins must be a whole number of at least 0, got -1"),
        ("bias", 0.0, "bias must be above 0, got 0.0"),
        ("distance", 0.0, "distance must be above 0, got 0.0"),
        ("distance", math.nan, "distance must be"),
        ("labels", 0, "labels must be a whole number of at least 1, got 0"),
        ("reports", 0, "reports must be a whole number of at least 1, got 0"),
    ],
)
def test_a_release_that_is_none_is_refused(name: str, value: Any, message: str) -> None:
    good = CountRelease(100, 0.5, 1.0, 1)
    with pytest.raises(ValueError, match=message):
        replace(good, **{name: value})
