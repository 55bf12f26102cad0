from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import pytest

from croupier.figures.data import Series
from croupier.figures.fitted_slopes import FittedSlope, fitted_slope
from croupier.simulation.compare import LINUCB, Arena, enter
from croupier.simulation.jobs import SweepJob
from croupier.simulation.outcomes import SweepOutcome

HORIZONS = (100, 1000, 10000)


def line() -> Series:
    arenas = [Arena(dim=3, horizon=rounds, epsilon=1.0, delta=0.1) for rounds in HORIZONS]
    return Series("some", tuple(enter(LINUCB, arena) for arena in arenas), HORIZONS)


def outcomes(
    series: Series, regret: Callable[[float], list[float]]
) -> dict[SweepJob, SweepOutcome]:
    found = {}
    for job, at in zip(series.jobs, series.at, strict=True):
        last = np.array(regret(at))[:, None]
        none = np.zeros(len(last), dtype=np.int64)
        found[job] = SweepOutcome(job, np.array([round(at)]), last, 0, none, 0.0)
    return found


def test_a_power_law_is_found_exactly() -> None:
    series = line()
    slope = fitted_slope(series, outcomes(series, lambda at: [3 * at**0.6] * 4))
    assert slope.power == pytest.approx(0.6)
    assert slope.standard_error == pytest.approx(0.0, abs=1e-9)


def test_trials_that_differ_by_a_factor_do_not_blur_the_slope() -> None:
    series = line()
    slope = fitted_slope(series, outcomes(series, lambda at: [at**0.5, 7 * at**0.5]))
    assert slope.power == pytest.approx(0.5)
    assert slope.standard_error == pytest.approx(0.0, abs=1e-9)


def test_the_error_is_that_of_the_mean_slope_for_small_differences() -> None:
    powers = 0.5 + 0.01 * np.array([-1.0, 0.5, 1.5, -0.5, -0.5])
    series = line()
    at_middle = 1000.0

    def regret(at: float) -> list[float]:
        return [50 * (at / at_middle) ** power for power in powers]

    slope = fitted_slope(series, outcomes(series, regret))
    expected = powers.std(ddof=1) / math.sqrt(powers.size)
    assert slope.standard_error == pytest.approx(expected, rel=0.02)


def test_a_single_trial_has_no_error() -> None:
    series = line()
    slope = fitted_slope(series, outcomes(series, lambda at: [at]))
    assert slope.power == pytest.approx(1.0)
    assert str(slope) == "1.000"
    assert slope.document()["standard_error"] is None
    assert str(FittedSlope(0.5, 0.031)) == "0.500 +- 0.031"
