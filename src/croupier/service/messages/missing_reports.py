"""How many reports of a batch of shares may be missing from a sum that is released.

The analyzer says which reports opened, so an analyzer that is not honest chooses them: of B
reports it can leave out B - |S| honest ones, with their noise. A sum over S is released only if
the plan's budget is met by what is left then, for every batch at once.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache

from croupier.plan import Plan


def least_opened(plan: Plan, index: int) -> int:
    """The fewest reports of batch ``index`` whose sum keeps the plan's promise."""
    weakest = _weakest_plan(plan).mechanism
    spare = plan.mechanism.honest_users(index) - weakest.honest_users(index)
    return plan.users(index) - spare


@lru_cache(maxsize=64)
def _weakest_plan(plan: Plan) -> Plan:
    """The plan with the smallest honest fraction at which its guarantee still meets its budget.

    Usually the plan itself: a calibration leaves no more than rounding to spare.
    """
    largest = max(plan.schedule.sizes())
    honest = math.floor(plan.mechanism.honest_fraction * largest)
    if plan.budget is None or not plan.met:
        return plan
    spare = _largest_fitting(
        honest - 1, lambda missing: _plan_without(plan, missing, honest, largest).met
    )
    return _plan_without(plan, spare, honest, largest) if spare else plan


def _largest_fitting(limit: int, fits: Callable[[int], bool]) -> int:
    """The largest number up to ``limit`` that fits, if all smaller ones do; 0 always does."""
    low, high = 0, 1
    while high <= limit and fits(high):
        low, high = high, 2 * high
    high = min(high, limit + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low


def _plan_without(plan: Plan, missing: int, honest: int, users: int) -> Plan:
    """The plan in which that many fewer of a batch of ``users`` are honest."""
    fraction = (honest - missing) / users
    return replace(plan, mechanism=replace(plan.mechanism, honest_fraction=fraction))
