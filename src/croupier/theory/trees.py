"""Regret with a concurrent tree of batches (MATH 6.1)."""

from __future__ import annotations

from fractions import Fraction

from croupier.arguments import whole


def regret_exponent(levels: int) -> Fraction:
    """(2k + 1)/(4k + 1) for k levels: 3/5, the paper's, for one level, and 1/2 in the end.

    A prefix of M = T/B batches has noise of order M^(1/(2k)), so that ``lem:subG-main`` is of
    order B + sqrt(T) (T/B)^(1/(4k)), least where both are equal: at T to this power.
    """
    count = whole("levels", levels, 1)
    return Fraction(2 * count + 1, 4 * count + 1)


def best_batch_size(horizon: int, levels: int) -> float:
    """T to the exponent: the batch size at which delay and noise cost the same."""
    return float(whole("horizon", horizon, 1) ** float(regret_exponent(levels)))
