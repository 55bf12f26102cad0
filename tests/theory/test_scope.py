from __future__ import annotations

import math

import pytest

from croupier.theory.scope import Scope, fitting


def test_a_scope_refuses_what_no_theorem_speaks_of() -> None:
    with pytest.raises(ValueError, match="horizon must be a whole number of at least 1, got 0"):
        Scope(0, 5, 0.1)
    with pytest.raises(ValueError, match="dim must be a whole number of at least 1, got 0"):
        Scope(10, 0, 0.1)
    with pytest.raises(ValueError, match=r"confidence must be at most 1, got 1\.5"):
        Scope(10, 5, 1.5)


def test_a_batch_outside_the_horizon_is_refused_with_both_numbers() -> None:
    with pytest.raises(ValueError, match=r"between 1 and 100, got 0\.5"):
        fitting(0.5, 100)
    with pytest.raises(ValueError, match="between 1 and 100, got 101"):
        Scope(100, 2, 0.1).batches(101)


def test_logarithms_and_batches_are_those_of_the_paper() -> None:
    scope = Scope(1000, 2, 0.1)
    assert scope.batches(40) == 25
    assert math.isclose(math.exp(scope.log_horizon), 1000, rel_tol=1e-12)
    assert math.isclose(math.exp(scope.log_failure), 10000, rel_tol=1e-12)
