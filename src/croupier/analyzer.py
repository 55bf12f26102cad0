"""The analyzer: turns released batches into the next published model."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from croupier.client import deployable
from croupier.errors import RefusedError
from croupier.model import Model, ReleasedSums
from croupier.plan import Plan
from croupier.protocols.base import RunningSum
from croupier.shuffler import Batch


class Analyzer:
    """Learns from one released batch after the other (Algorithm 1, lines 13 to 17)."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._protocol = deployable(plan)
        self._running: RunningSum = self._protocol.running_sum()
        first = plan.policy.first_model(plan.layout.dim)
        self._model = replace(first, plan_id=plan.id)
        self._repairs = self._model.repairs

    @property
    def model(self) -> Model:
        """The model that devices should use now."""
        return self._model

    @property
    def repairs(self) -> int:
        """Eigenvalues raised so far."""
        return self._repairs

    def receive(self, batch: Batch) -> Model:
        """Learn from the next batch and publish a model."""
        if batch.plan_id != self._plan.id:
            raise RefusedError(f"batch is for plan {batch.plan_id}, this is {self._plan.id}")
        if batch.index != self._model.version:
            raise RefusedError(f"batch {batch.index} came, {self._model.version} is next")
        released = self._protocol.release(batch.index).analyze(batch.messages)
        sums = self._sums(batch.index, np.asarray(released))
        model = self._plan.policy.model(sums)
        self._model = replace(model, plan_id=self._plan.id, previous=self._model.hash)
        self._repairs += model.repairs
        return self._model

    def _sums(self, index: int, released: np.ndarray) -> ReleasedSums:
        total, variance = self._running.add(index, released)
        users = self._model.users + self._plan.users(index)
        return running_sums(self._plan, total, variance, index + 1, users)


def running_sums(
    plan: Plan, total: np.ndarray, variance: float, batches: int, users: int
) -> ReleasedSums:
    """The running totals ``(..., size)`` in the form that policies read."""
    vector, matrix = plan.layout.decode(total)
    return ReleasedSums(vector, matrix, users, batches, variance)
