"""Where a bound on delta is met, to the last digit and on the safe side."""

from __future__ import annotations

import math
from collections.abc import Callable

from croupier.privacy.budget import LEAST_DELTA

MOST_DELTA = math.nextafter(1.0, 0.0)
GUESSES = 8
"""Each is a thousand times closer than the one before, until none differs."""
NEXT = 1e-15
"""How far from a guess deltas are looked for first, in units of it."""

Bound = Callable[[float], float]
"""What is proved of delta at an epsilon, with tails that belong to some delta."""


def first_epsilon(holds: Callable[[float], bool]) -> float:
    """The epsilon from which on it holds, as it does from some on."""
    if holds(0.0):
        return 0.0
    high = 1.0
    while not holds(high):
        high *= 2
    return _first_float(holds, 0.0, high)


def first_delta(bound: Bound) -> float:
    """The delta from which on the bound with its tails is no more; 1 where there is none."""
    low, high = _around(bound, _guess(bound))
    return _first_float(lambda delta: bound(delta) <= delta, low, high)


def _guess(bound: Bound) -> float:
    """Near the fixed point of the bound, which hardly depends on the delta of its tails."""
    before, guess = 0.0, 1e-6
    for _ in range(GUESSES):
        if guess == before:
            break
        # In this order what is no number becomes one, and the search an end.
        before, guess = guess, max(LEAST_DELTA, min(bound(guess), MOST_DELTA))
    return guess


def _around(bound: Bound, guess: float) -> tuple[float, float]:
    """Deltas on both sides of the first proved one, or the limit that it is at twice."""
    high, width = guess, NEXT
    while not bound(high) <= high:
        if high == MOST_DELTA:
            return 1.0, 1.0
        high, width = min(high * (1 + width), MOST_DELTA), 8 * width
    low, width = high, NEXT
    while bound(low) <= low:
        if low == LEAST_DELTA:
            return low, low
        low, width = max(low / (1 + width), LEAST_DELTA), 8 * width
    return low, high


def _first_float(holds: Callable[[float], bool], low: float, high: float) -> float:
    """The upper end of the last interval in which ``holds`` turns true."""
    while True:
        # Far apart, halve the exponent: deltas reach down to 1e-300.
        far = 0 < 2 * low < high
        middle = math.sqrt(low) * math.sqrt(high) if far else (low + high) / 2
        if not low < middle < high:
            return high
        if holds(middle):
            high = middle
        else:
            low = middle


def confirmed(curve: Callable[[float], float], epsilon: float, delta: float) -> float:
    """``epsilon`` raised by the last digits that rounding may have taken off the way back."""
    step = 1e-15
    while curve(epsilon) > delta:
        epsilon, step = epsilon + step * (1 + epsilon), 4 * step
    return epsilon
