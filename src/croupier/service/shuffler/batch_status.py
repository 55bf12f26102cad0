"""What operators may know of a batch, and why it has not been released."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from croupier.documents import finite_or_null
from croupier.plan import Plan
from croupier.plan_promises import composed_epsilons
from croupier.service.shuffler.rows import BatchRow, BatchState


def explain_wait(batch: BatchRow) -> str:
    """Why a batch has not been released, or what it waits for since."""
    name = f"Batch {batch.index}"
    if batch.state is BatchState.OPEN and batch.room:
        return (
            f"{name} is open and has {batch.filled} of {batch.size} reports. It is released when "
            f"it is complete, never short: {batch.room} are missing.{_describe_attempts(batch)}"
        )
    if batch.state is BatchState.OPEN:
        return f"{name} is complete with {batch.size} reports and is about to be sealed."
    if batch.state is BatchState.SEALED:
        return f"{name} is sealed and is about to be shuffled and released."
    if batch.state is BatchState.RELEASED:
        return f"{name} is released; the analyzer has not acknowledged it."
    return f"{name} is acknowledged, its reports are about to be deleted."


def explain_end(batch: BatchRow) -> str:
    """How a plan has ended, whose newest batch this is: after it, or retired without it."""
    if batch.filled:
        return f"The plan has ended with batch {batch.index}; nothing more is released."
    dropped = f": {batch.dropped} of its reports were dropped" if batch.dropped else ""
    return f"The plan has ended without batch {batch.index}{dropped}; nothing more is released."


def _describe_attempts(batch: BatchRow) -> str:
    """That this is not the first attempt."""
    return (
        f" It was emptied and begun again, {batch.attempt} times so far: it stayed short, or of "
        f"its shares too few opened for the analyzer. Nothing was released of that."
        if batch.attempt
        else ""
    )


def describe_lineage(plans: Sequence[Plan]) -> dict[str, Any]:
    """What a plan and those that it succeeds are worth together; empty for a first plan.

    Counts of participations are carried over, budgets add up: a user may have spent everything in
    each of them (docs/sharp-edges.md).
    """
    deltas = [plan.budget.delta for plan in plans if plan.budget]
    if len(plans) < 2 or not deltas:
        return {}
    delta = max(deltas)
    epsilon = composed_epsilons(plans, delta)["shuffle"]
    return {
        "succeeds": [plan.id for plan in plans[1:]],
        "epsilon_with_predecessors": finite_or_null(epsilon),
        "delta_with_predecessors": delta,
    }


def lineage_words(told: dict[str, Any]) -> str:
    """The same in a sentence."""
    if not told:
        return ""
    epsilon = told["epsilon_with_predecessors"]
    found = "nothing is promised" if epsilon is None else f"it comes to epsilon {epsilon:.4g}"
    return (
        f" Together with what it succeeds ({', '.join(told['succeeds'])}) {found} at delta "
        f"{told['delta_with_predecessors']:g} for who takes part in all of it."
    )


def describe_batch(batch: BatchRow) -> dict[str, Any]:
    """What is public of a batch; its keys stay where they are."""
    return {
        "batch": batch.index,
        "state": str(batch.state),
        "size": batch.size,
        "filled": batch.filled,
        "padded": batch.padded,
        "dropped": batch.dropped,
        "attempt": batch.attempt,
        "model_version": batch.model_version,
        "model_hash": batch.model_hash,
    }
