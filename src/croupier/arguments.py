"""Checks of arguments that many rooms share; each error names the argument and its value."""

from __future__ import annotations

import math
from numbers import Integral, Real


def whole(name: str, value: object, low: int) -> int:
    """An integer of at least ``low``; a bool or a float is refused."""
    if isinstance(value, bool) or not isinstance(value, Integral) or value < low:
        raise ValueError(f"{name} must be a whole number of at least {low}, got {value!r}")
    return int(value)


def positive(name: str, value: object) -> float:
    """A finite number above zero."""
    number = finite(name, value)
    if number <= 0:
        raise ValueError(f"{name} must be above 0, got {value!r}")
    return number


def fraction(name: str, value: object) -> float:
    """A number above 0 and at most 1."""
    number = positive(name, value)
    if number > 1:
        raise ValueError(f"{name} must be at most 1, got {value!r}")
    return number


def finite(name: str, value: object) -> float:
    """A finite real number."""
    if isinstance(value, bool) or not isinstance(value, Real) or not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, got {value!r}")
    return float(value)
