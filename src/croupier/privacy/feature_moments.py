"""Means and squares of people's data, released once with noise: what a charged map rests on."""

from __future__ import annotations

import math

from croupier.arguments import positive, whole


def moment_noise(people: int, columns: int, mu: float) -> float:
    """Noise on each mean and mean square of columns in [-1, 1] with which both are ``mu``-GDP.

    Swapping one of n people moves the p means by at most 2/n each and the p mean squares by at
    most 1/n each, a distance of at most sqrt(5 p) / n.
    """
    whole("people", people, 1)
    whole("columns", columns, 1)
    return math.sqrt(5 * columns) / (people * positive("mu", mu))
