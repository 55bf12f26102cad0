"""The analyzer: turns released batches into the next published model."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from croupier.errors import RefusedError
from croupier.model import Model, ReleasedSums
from croupier.plan import Plan
from croupier.plausibility import Plausibility, examine
from croupier.protocols.base import Part, RunningSum, require_protocol
from croupier.protocols.running_sums import Fold
from croupier.protocols.selected_sums import SelectedSums, alone
from croupier.shuffler import Batch


class Analyzer:
    """Learns from one released batch after the other (Algorithm 1, lines 13 to 17)."""

    def __init__(self, plan: Plan, left_out: Collection[int] = ()) -> None:
        """``left_out`` are batches that are charged like others, and not learnt from."""
        self._plan = plan
        self._protocol = require_protocol(plan.mechanism)
        self.left_out = frozenset(left_out)
        self._running: RunningSum = (
            SelectedSums(self._protocol, self.left_out)
            if self.left_out
            else self._protocol.running_sum()
        )
        learner = Learner(plan, self._running)
        self._known = learner.known()
        self._totals = learner.totals()
        self._model = replace(plan.policy.first_model, plan_id=plan.id)
        self._repairs = self._model.repairs
        self._batch = 0

    @classmethod
    def resume(
        cls,
        plan: Plan,
        released: Sequence[np.ndarray],
        model: Model,
        repairs: int,
        left_out: Collection[int] = (),
    ) -> Analyzer:
        """The analyzer after the batches of these sums, with the model that it has published."""
        analyzer = cls(plan, left_out)
        for index, sums in enumerate(released):
            analyzer._add(index, sums)
        analyzer._model, analyzer._repairs = model, repairs
        return analyzer

    @property
    def model(self) -> Model:
        """The model that devices should use now."""
        return self._model

    @property
    def batch(self) -> int:
        """The index of the open batch, which devices report for."""
        return self._batch

    @property
    def repairs(self) -> int:
        """Eigenvalues raised so far."""
        return self._repairs

    def receive(self, batch: Batch) -> Model:
        """Learn from the next batch; the published model, a new one where the plan's rule says so.

        Batches go on whether or not a model is published (MATH 6.2).
        """
        if batch.plan_id != self._plan.id:
            raise RefusedError(f"batch is for plan {batch.plan_id}, this is {self._plan.id}")
        self._expect(batch.index)
        released = self._protocol.release(batch.index).analyze(batch.messages)
        return self.learn(batch.index, np.asarray(released))

    def examine(self, index: int, released: np.ndarray) -> Plausibility | None:
        """Whether honest users could have added up to the next batch; nothing is learnt from it.

        None where what the batch adds cannot be seen alone.
        """
        self._expect(index)
        found = alone(self._protocol, index, released)
        if found is None:
            return None
        own = part_sums(self._plan, Part(index, index + 1, *found))
        return examine(self._plan.layout, self._totals.state, own)

    def learn(self, index: int, released: np.ndarray, renew: bool = False) -> Model:
        """The same from what was analysed of the batch, unless it is one of those left out.

        Then the model says again what it said. ``renew`` publishes whatever is known now: the
        batches that are in are others than before.
        """
        self._expect(index)
        known = self._add(index, released)
        if index in self.left_out and not renew:
            fresh = replace(self._model, version=self._batch)
        else:
            fresh = self._plan.policy.model(known)
            self._repairs += fresh.repairs
        if renew or self._plan.publication.due(self._model, fresh):
            self._model = replace(
                fresh, version=self._batch, plan_id=self._plan.id, previous=self._model.hash
            )
        return self._model

    def _expect(self, index: int) -> None:
        if index != self._batch:
            raise RefusedError(f"batch {index} came, {self._batch} is next")

    def _add(self, index: int, released: np.ndarray) -> Any:
        """What is known with the next batch, unless it is left out."""
        part = self._running.part(index, released)
        self._batch = index + 1
        self._totals.add(part, self._batch)
        return self._known.add(part, self._batch)


@dataclass(frozen=True)
class Learner:
    """Folds of the sums that a mechanism releases."""

    plan: Plan
    running: RunningSum

    def known(self) -> Fold[Any]:
        """What the plan's policy knows."""
        policy = self.plan.policy
        return Fold(
            self.running,
            policy.start(),
            lambda known, part: policy.learn(known, part_sums(self.plan, part)),
        )

    def totals(self) -> Fold[ReleasedSums]:
        """The sums of all users so far."""
        size = self.plan.layout.size
        nothing = part_sums(self.plan, Part(0, 0, np.zeros(size), 0.0))
        return Fold(
            self.running, nothing, lambda known, part: known.plus(part_sums(self.plan, part))
        )


def part_sums(plan: Plan, part: Part) -> ReleasedSums:
    """A released sum ``(..., size)`` in the form that policies read."""
    users = plan.schedule.users(part.start, part.stop)
    moments = plan.layout.decode(part.sums, users)
    return ReleasedSums(moments.vector, moments.matrix, users, part.stop, part.variance)
