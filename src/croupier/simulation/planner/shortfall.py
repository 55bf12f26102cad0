"""What it would take where nothing can be learnt: more users, epsilon or bytes, each alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

from croupier.errors import GuaranteeError
from croupier.plan_defaults import DEFAULT_OVERHEAD
from croupier.schedules import MOST_USERS
from croupier.simulation.planner.candidates import Candidate
from croupier.simulation.planner.expectations import Expectation, Rehearsal, expected
from croupier.simulation.planner.recommendation import Needed

WORTHWHILE = 0.9
"""The most that the upper end of the regret may be, as a share of uniform play."""

MOST_EPSILON = 1000.0
STRIDE = 4.0
CLOSE = 1.2
"""A search ends with a factor of this between a number that is enough and one that is not."""


def worthwhile(found: Expectation) -> bool:
    """The criterion: regret is clearly below that of uniform play."""
    return found.share_high <= WORTHWHILE


def needed(candidate: Candidate, rehearsal: Rehearsal) -> Needed:
    """The least of each kind that meets the criterion at a quick look."""
    return Needed(
        _users(candidate, rehearsal), _epsilon(candidate, rehearsal), _bytes(candidate, rehearsal)
    )


def _learns(candidate: Candidate, rehearsal: Rehearsal) -> bool:
    try:
        course = candidate.course()
    except GuaranteeError:
        return False
    return worthwhile(expected(rehearsal.compare(course)))


def _users(candidate: Candidate, rehearsal: Rehearsal) -> int | None:
    found = least(
        candidate.need.users,
        MOST_USERS,
        lambda users: _learns(candidate.changed(users=round(users)), rehearsal),
    )
    return None if found is None else round(found)


def _epsilon(candidate: Candidate, rehearsal: Rehearsal) -> float | None:
    if not worthwhile(expected(rehearsal.compare(candidate.without_noise()))):
        return None
    return least(
        candidate.need.epsilon,
        MOST_EPSILON,
        lambda epsilon: _learns(candidate.changed(epsilon=epsilon), rehearsal),
    )


def _bytes(candidate: Candidate, rehearsal: Rehearsal) -> int | None:
    free = replace(candidate, overhead=DEFAULT_OVERHEAD)
    if candidate == free or not _learns(free, rehearsal):
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
