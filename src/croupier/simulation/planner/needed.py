"""What it would take where nothing can be learnt: more users, epsilon or bytes, each alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from croupier.errors import GuaranteeError
from croupier.plan import DEFAULT_OVERHEAD
from croupier.simulation.planner.candidates import Choice
from croupier.simulation.planner.expectations import Expectation, Rehearsal, expected
from croupier.simulation.planner.recommendation import Needed
from croupier.theory.schedules import MOST_USERS

WORTHWHILE = 0.9
"""The most that the upper end of the regret may be, as a share of uniform play."""

MOST_EPSILON = 1000.0
STRIDE = 4.0
CLOSE = 1.2
"""A search ends with a factor of this between a number that is enough and one that is not."""


def worthwhile(found: Expectation) -> bool:
    """The criterion: regret is clearly below that of uniform play."""
    return found.share_high <= WORTHWHILE


def needed(choice: Choice, rehearsal: Rehearsal) -> Needed:
    """The least of each kind that meets the criterion at a quick look."""
    return Needed(_users(choice, rehearsal), _epsilon(choice, rehearsal), _bytes(choice, rehearsal))


def _learns(choice: Choice, rehearsal: Rehearsal) -> bool:
    try:
        course = choice.course()
    except GuaranteeError:
        return False
    return worthwhile(expected(rehearsal.compare(course)))


def _users(choice: Choice, rehearsal: Rehearsal) -> int | None:
    found = least(
        choice.need.users,
        MOST_USERS,
        lambda users: _learns(choice.changed(users=round(users)), rehearsal),
    )
    return None if found is None else round(found)


def _epsilon(choice: Choice, rehearsal: Rehearsal) -> float | None:
    if not worthwhile(expected(rehearsal.compare(choice.without_noise()))):
        return None
    return least(
        choice.need.epsilon,
        MOST_EPSILON,
        lambda epsilon: _learns(choice.changed(epsilon=epsilon), rehearsal),
    )


def _bytes(choice: Choice, rehearsal: Rehearsal) -> int | None:
    free = replace(choice, overhead=DEFAULT_OVERHEAD)
    if choice == free or not _learns(free, rehearsal):
        return None
    return free.largest_report()


def least(start: float, most: float, enough: Callable[[float], bool]) -> float | None:
    """A number of two digits above ``start`` that is enough where a fifth less is not."""
    low, high = start, two_digits(min(STRIDE * start, most))
    while not enough(high):
        if high >= most:
            return None
        low, high = high, two_digits(min(STRIDE * high, most))
    while high / low > CLOSE and low < (middle := two_digits(math.sqrt(low * high))) < high:
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def two_digits(value: float) -> float:
    """Rounded up: a search knows no more than two digits."""
    digit = 10.0 ** (math.floor(math.log10(value)) - 1)
    return float(f"{math.ceil(value / digit) * digit:.2g}")
