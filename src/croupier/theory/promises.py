"""What a theorem's noise is worth in the other trust models; constants hidden in O are 1.

These are the paper's orders. What a plan proves is in ``Plan.guarantees``.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from croupier.arguments import whole
from croupier.privacy.budget import Budget
from croupier.theory.constants import Condition, require


@dataclass(frozen=True)
class Promise:
    """A stated pair (epsilon, delta)."""

    epsilon: float
    delta: float

    @property
    def empty(self) -> bool:
        """Whether delta is 1 or more, so that nothing is said."""
        return self.delta >= 1


def amplified_local(budget: Budget, users: float) -> Promise:
    """Of one P_Amp report: epsilon sqrt(B/log(2/delta)), delta/B (remark to ``thm:amp-main``)."""
    log = math.log(2 / budget.delta)
    return Promise(budget.epsilon * math.sqrt(users / log), budget.delta / users)


def amplified_shuffle(local: Budget, users: float) -> Promise:
    """Of shuffled P_Amp reports: epsilon_0 sqrt(log(1/delta_0)/B), delta_0 B (``cor:amp_priv``).

    The proof has log(2/delta) with delta = delta_0 B, which is at most log(1/delta_0) from B = 2.
    """
    log = math.log(1 / local.delta)
    return Promise(local.epsilon * math.sqrt(log / users), local.delta * users)


def vector_sum_local(budget: Budget, users: float) -> Promise:
    """Of one P_Vec report: epsilon sqrt(B), delta (remark to ``thm:vec-main``, ``cor:vec_util``).

    The proof is ``thm:vec`` at B = 1, so it ends at epsilon sqrt(B) = 15.
    """
    return Promise(budget.epsilon * math.sqrt(users), budget.delta)


def vector_sum_shuffle(local: Budget, users: float) -> Promise:
    """Of shuffled P_Vec reports: epsilon_0/sqrt(B), delta_0 (``cor:vec_priv``, MATH 1)."""
    return Promise(local.epsilon / math.sqrt(users), local.delta)


def joint(shuffle: Promise) -> Promise:
    """The same for the actions of all other users, by the billboard lemma (``cor:amp_util``)."""
    return shuffle


def group(event: Promise, participations: int) -> Promise:
    """Group privacy: (k epsilon, k e^((k-1) epsilon) delta) for k rounds (``def:JDP-user``)."""
    count = whole("participations", participations, 1)
    grown = count * math.exp((count - 1) * event.epsilon)
    return Promise(count * event.epsilon, grown * event.delta)


def shuffled(local: Promise, users: int, slack: float) -> Promise:
    """``lem:shuffle_amp`` in its closed form, delta' = ``slack``; no constant is hidden.

    The paper's delta has e^epsilon where the amplified epsilon is meant.
    """
    require(_amplification_range(local, users, slack))
    odds = math.exp(local.epsilon)
    blanket = 8 * math.sqrt(odds * math.log(4 / slack) / users) + 8 * odds / users
    epsilon = math.log1p(math.tanh(local.epsilon / 2) * blanket)
    leaked = (math.exp(epsilon) + 1) * (1 + 1 / (2 * odds)) * users * local.delta
    return Promise(epsilon, slack + leaked)


def _amplification_range(local: Promise, users: int, slack: float) -> Condition:
    most = math.log(users / (16 * math.log(2 / slack)))
    return Condition("lem:shuffle_amp", "epsilon_0 <= ln(n/(16 ln(2/delta')))", local.epsilon, most)
