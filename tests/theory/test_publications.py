"""The bound on the number of publications, digit by digit and at its edges (MATH 6.2)."""

from __future__ import annotations

import math

import pytest

from croupier.theory.publications import most_publications


def test_the_bound_is_that_of_the_notes() -> None:
    expected = 5 * math.log(1 + 20_000 / (5 * 30.0)) / math.log(4 / 3)
    assert most_publications(5, 20_000, 30.0, 4.0) == pytest.approx(expected)


def test_a_regulariser_of_twice_the_noise_is_the_default() -> None:
    assert most_publications(3, 500, 2.0, 5.0) == most_publications(3, 500, 2.0, 5.0, 4.0)


@pytest.mark.parametrize("kappa", [2.0, 3.0, 10.0])
def test_three_becomes_the_ratio_of_the_regulariser(kappa: float) -> None:
    expected = 3 * math.log(1 + 500 / (3 * (kappa - 1) * 2.0))
    expected /= math.log(4.0 * (kappa - 1) / (kappa + 1))
    assert most_publications(3, 500, 2.0, 4.0, kappa * 2.0) == pytest.approx(expected)


def test_without_noise_every_publication_multiplies_the_determinant_by_the_growth() -> None:
    expected = 2 * math.log(1 + 100 / 2) / math.log(4)
    assert most_publications(2, 100, 0.0, 4.0, 1.0) == pytest.approx(expected)


def test_longer_features_are_as_many_users_more() -> None:
    longer = most_publications(2, 100, 3.0, 4.0, feature_norm=2.0)
    assert longer == pytest.approx(most_publications(2, 400, 3.0, 4.0))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"growth": 3.0}, "growth must be above 3, got 3.0"),
        ({"growth": 1.9, "regularizer": 6.0}, "growth must be above 2, got 1.9"),
        ({"growth": math.nan}, "growth must be a finite number, got nan"),
        ({"noise_bound": 0.0}, "noise_bound must be above 0, got 0.0"),
        ({"noise_bound": -1.0}, "noise_bound must be above 0, got -1.0"),
        ({"noise_bound": -1.0, "regularizer": 1.0}, "noise_bound must be at least 0, got -1.0"),
        ({"regularizer": 3.9}, "regularizer must be at least twice the noise_bound 2, got 3.9"),
        ({"horizon": 0}, "horizon must be a whole number of at least 1, got 0"),
        ({"dim": 0}, "dim must be a whole number of at least 1, got 0"),
        ({"feature_norm": 0.0}, "feature_norm must be above 0, got 0.0"),
    ],
)
def test_outside_its_range_there_is_no_bound(changes: dict[str, float], message: str) -> None:
    arguments: dict[str, float] = {"dim": 3, "horizon": 500, "noise_bound": 2.0, "growth": 4.0}
    with pytest.raises(ValueError, match=message):
        most_publications(**{**arguments, **changes})  # type: ignore[arg-type]
