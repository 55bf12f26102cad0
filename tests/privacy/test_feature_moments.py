from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from croupier.privacy.feature_moments import moment_noise


@pytest.mark.parametrize("columns", [1, 2])
@pytest.mark.parametrize("people", [1, 3])
def test_no_swap_moves_means_and_squares_further_than_the_noise_hides(
    people: int, columns: int
) -> None:
    values = np.linspace(-1.0, 1.0, 9)
    before, after = (np.array(list(itertools.product(values, repeat=columns))) for _ in range(2))
    moves = [
        math.hypot(*((one - other) / people), *((one**2 - other**2) / people))
        for one, other in itertools.product(before, after)
    ]
    distance = moment_noise(people, columns, 1.0)
    assert max(moves) <= distance
    assert max(moves) >= 0.85 * distance


@pytest.mark.parametrize(
    ("people", "columns", "mu", "name"),
    [(0, 1, 1.0, "people"), (1, 0, 1.0, "columns"), (1, 1, 0.0, "mu")],
)
def test_bad_arguments_are_named(people: int, columns: int, mu: float, name: str) -> None:
    with pytest.raises(ValueError, match=f"^{name} must be"):
        moment_noise(people, columns, mu)
