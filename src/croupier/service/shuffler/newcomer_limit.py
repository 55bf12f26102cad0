"""How many new accounts a batch may take, and whether batches can fill with no more than that."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping

from croupier.plan import Plan
from croupier.service.shuffler.rows import (
    PlanRow,
    is_known,
    read_newest_batch,
    read_plan_row,
)
from croupier.service.storage.database import Transaction


def newcomers_allowed(limit: int | None, plan: PlanRow, index: int) -> int | None:
    """The most of batch ``index``; None for any number.

    Nobody has been counted before a plan's first batch, unless it succeeds another.
    """
    is_first = index == 0 and plan.predecessor is None
    return None if is_first else limit


def explain_unfillable(
    transaction: Transaction, plan: Plan, limit: int, floor: float, succeeds: str | None
) -> str:
    """Which batch can never fill with so few new accounts, in words; empty if all of them can.

    A batch takes ``floor`` of real reports. In the best case everybody comes for as often as they
    may. While a batch is on its way, what users have spent is being counted, and nothing is said.
    """
    first = _first_to_fill(transaction, plan)
    if first is None:
        return ""
    counted_by = plan.id if is_known(transaction, plan.id) else succeeds
    left = _read_left(transaction, counted_by or "", plan.participations)
    least = {
        index: math.ceil(floor * plan.users(index)) for index in range(first, plan.schedule.batches)
    }
    any_number = first == 0 and _predecessor(transaction, plan, succeeds) is None
    short = find_unfillable(least, plan.participations, limit, left, any_number)
    if short is None:
        return ""
    index, missing = short
    return (
        f"accounts.new_per_batch is {limit}, with which batch {index} can never fill: too few "
        f"accounts that were counted before may take part again (max_participations is "
        f"{plan.participations}); it takes {limit + missing}"
    )


def find_unfillable(
    least: Mapping[int, int],
    participations: int,
    limit: int,
    left: Counter[int],
    any_number: bool = False,
) -> tuple[int, int] | None:
    """The first batch that cannot fill with what it needs at ``least``, and what is missing.

    ``left`` has how many accounts may take part so many times more. ``any_number`` of new ones are
    taken by the first of the batches.
    """
    for index, size in sorted(least.items()):
        new = size if any_number else min(limit, size)
        missing = size - new - _take(left, size - new)
        if missing:
            return index, missing
        left[participations - 1] += new
        any_number = False
    return None


def _take(left: Counter[int], wanted: int) -> int:
    """So many accounts take part once more, those with the most left first; how many can."""
    taken: Counter[int] = Counter()
    for times in sorted((one for one in left if one > 0), reverse=True):
        if taken.total() == wanted:
            break
        taken[times] = min(left[times], wanted - taken.total())
    for times, accounts in taken.items():
        left[times] -= accounts
        left[times - 1] += accounts
    return taken.total()


def _first_to_fill(transaction: Transaction, plan: Plan) -> int | None:
    """The open batch; None while none is."""
    if not is_known(transaction, plan.id):
        return 0
    batch = read_newest_batch(transaction, plan.id)
    return batch.index if batch.is_open else None


def _predecessor(transaction: Transaction, plan: Plan, succeeds: str | None) -> str | None:
    known = is_known(transaction, plan.id)
    return read_plan_row(transaction, plan.id).predecessor if known else succeeds


def _read_left(transaction: Transaction, plan_id: str, participations: int) -> Counter[int]:
    rows = transaction.all(
        "SELECT spent, count(*) FROM participations WHERE plan = ? GROUP BY spent", plan_id
    )
    left: Counter[int] = Counter()
    for spent, accounts in rows:
        left[max(0, participations - int(spent))] += int(accounts)
    return left
