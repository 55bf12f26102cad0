"""What a policy would have earned on a log, with intervals that hold in 95 of 100 logs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

NORMAL = 1.959963984540054
MISS = 0.05


@dataclass(frozen=True)
class Estimate:
    """A value with its interval, from so many rows; NaN where there are too few."""

    name: str
    value: float
    low: float
    high: float
    rows: int

    def document(self) -> dict[str, Any]:
        """Plain values for JSON, null where there is no number."""
        shown = {
            name: None if isinstance(value, float) and math.isnan(value) else value
            for name, value in vars(self).items()
        }
        return {"estimate": shown.pop("name"), **shown}


def average(name: str, rewards: Floats) -> Estimate:
    """A plain mean with its normal interval."""
    if rewards.size == 0:
        return Estimate(name, math.nan, math.nan, math.nan, 0)
    return _normal(name, float(rewards.mean()), _error(rewards), rewards.size)


def inverse_propensity(rewards: Floats, propensities: Floats, agrees: Floats) -> Estimate:
    """IPS: rewards of rows where policy and log agree, weighted by 1/propensity; unbiased."""
    terms = agrees * rewards / propensities
    return _normal("inverse propensity", float(terms.mean()), _error(terms), terms.size)


def bernstein(rewards: Floats, propensities: Floats, agrees: Floats) -> Estimate:
    """The same value with the interval of Maurer and Pontil, which holds for every size of log."""
    terms = agrees * rewards / propensities
    rows, largest = terms.size, float(1 / propensities.min())
    depth = math.log(4 / MISS)
    slack = math.sqrt(2 * terms.var(ddof=1) * depth / rows) + 7 * largest * depth / (3 * (rows - 1))
    value = float(terms.mean())
    low, high = max(0.0, value - slack), min(1.0, value + slack)
    return Estimate("inverse propensity, any size of log", value, low, high, rows)


def self_normalised(rewards: Floats, propensities: Floats, agrees: Floats) -> Estimate:
    """SNIPS: divided by the weights that were met; a little biased, of much less variance."""
    weights = agrees / propensities
    if not weights.any():
        return Estimate("self-normalised", math.nan, math.nan, math.nan, 0)
    value = float(weights @ rewards / weights.sum())
    residues = weights * (rewards - value) / weights.mean()
    return _normal("self-normalised", value, _error(residues), int(np.count_nonzero(weights)))


def _error(terms: Floats) -> float:
    return float(terms.std(ddof=1) / math.sqrt(terms.size)) if terms.size > 1 else math.nan


def _normal(name: str, value: float, error: float, rows: int) -> Estimate:
    return Estimate(name, value, value - NORMAL * error, value + NORMAL * error, rows)
