"""What a plan promises to whom, and who must be honest for it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from croupier.privacy.composition import composed_epsilon
from croupier.privacy.guarantee import Guarantee
from croupier.protocols.base import Mechanism

if TYPE_CHECKING:
    from croupier.plan import Plan

CLIPPED = "the device clips features and rewards to their declared bounds"
COMPLETE = "batches are released complete, by a shuffler that does not collude with the analyzer"
ONE_ACCOUNT = "one account is one user"
SWAPPED_ONCE = "a user is in at most {} of the batches, at most once in each"
HONEST = "{} users of every batch are honest and keep their coins to themselves"
COALITION = (
    "of the other users of a batch at most {} pool what they know, their coins included; "
    "against all of them together only local is left"
)
DRAWN = "a device makes no more than {} reports, those for batches that closed before included"

AGAINST = {
    "shuffle": "the analyzer and everybody after it",
    "joint": "a coalition of other users",
    "local": "the shuffler and the network, from all reports of a device",
}
"""Whom each guarantee is against."""


def every_promise(mechanism: Mechanism, participations: int, draws: int) -> dict[str, Guarantee]:
    """Against the analyzer (shuffle), other users (joint), shuffler and network (local).

    For a user in so many batches, whose device ever makes so many reports.
    """
    users = (CLIPPED, ONE_ACCOUNT)
    once = (*users, SWAPPED_ONCE.format(participations))
    crowd, coalition = _crowd(mechanism)
    shuffle = mechanism.guarantee(participations)
    joint = mechanism.joint_guarantee(participations)
    return {
        "shuffle": shuffle.assuming(*once, *crowd, COMPLETE),
        "joint": joint.assuming(*once, *coalition),
        "local": mechanism.local_guarantee(draws).assuming(*users, DRAWN.format(draws)),
    }


def _crowd(mechanism: Mechanism) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Who must be honest, where users hide in a crowd: against the analyzer, and others."""
    if mechanism.trust != "shuffle":
        return (), ()
    share = mechanism.honest_fraction
    most = "one" if share == 1 else f"{_percent(1 - share)}, or one,"
    honest = HONEST.format("all" if share == 1 else f"at least {_percent(share)} of the")
    return (honest,), (COALITION.format(most),)


def _percent(share: float) -> str:
    return f"{100 * share:.4g} %"


def composed_epsilons(plans: Sequence[Plan], delta: float) -> dict[str, float]:
    """The epsilon of every guarantee where the same people may take part in all of the plans."""
    every = [plan.guarantees() for plan in plans]
    return {name: composed_epsilon([one[name] for one in every], delta) for name in AGAINST}
