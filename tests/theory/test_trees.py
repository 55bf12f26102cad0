from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

from croupier.theory.trees import best_batch_size, regret_exponent


def test_exponents_go_from_the_papers_to_the_root() -> None:
    assert [regret_exponent(levels) for levels in (1, 2, 3)] == [
        Fraction(3, 5),
        Fraction(5, 9),
        Fraction(7, 13),
    ]
    assert float(regret_exponent(10**6)) == pytest.approx(0.5, abs=1e-6)


@pytest.mark.parametrize("levels", [1, 2, 3, 6])
def test_the_exponent_is_that_of_the_best_batch_size(levels: int) -> None:
    horizon = 10**12
    sizes = np.geomspace(1, horizon, 200_001)
    costs = sizes + horizon**0.5 * (horizon / sizes) ** (1 / (4 * levels))
    best = best_batch_size(horizon, levels)
    # At the crossing both terms are T to the exponent, and no batch size is twice as good.
    assert best == pytest.approx(float(horizon ** float(regret_exponent(levels))))
    assert costs.min() <= 2 * best <= 2 * costs.min() * (1 + 1e-9)


def test_bad_arguments_are_refused_by_name() -> None:
    with pytest.raises(ValueError, match="levels"):
        regret_exponent(0)
    with pytest.raises(ValueError, match="horizon"):
        best_batch_size(0, 2)
