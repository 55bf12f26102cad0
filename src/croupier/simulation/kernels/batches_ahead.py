"""The batches of a trial: when they end, and what their models are made with, drawn ahead."""

from __future__ import annotations

from dataclasses import astuple
from typing import Any

import numpy as np

from croupier.plan import Plan
from croupier.policies.ucb import Ucb
from croupier.protocols.base import FreshNoise, Part, Release
from croupier.protocols.running_sums import Correlated, Fold
from croupier.schedules import Schedule
from croupier.simulation.kernels.arrays import MOST, BatchInputs, Floats, Whole, ready
from croupier.simulation.problem import BLOCK

AT_ONCE = 16 * BLOCK
"""Rounds that are played in one call where arm sets are prebuilt, and batches drawn ahead."""

NUMBERS_AHEAD = 2**18
"""Numbers of noise that are drawn ahead."""

NOTHING = np.zeros(0)


class BatchSizes:
    """The complete batches of a schedule, a few at a time."""

    def __init__(self, schedule: Schedule) -> None:
        self.count = schedule.batches
        self._sizes = np.array(schedule.sizes(), dtype=np.int64)
        self._stops = np.cumsum(self._sizes)

    def sizes(self, first: int, count: int) -> Whole:
        """Users of batches ``first`` to ``first + count``."""
        return self._sizes[np.minimum(np.arange(first, first + count), self._sizes.size - 1)]

    def stops(self, first: int, count: int) -> Whole:
        """Rounds after which batches ``first`` to ``first + count`` end."""
        return self.stops_of(np.arange(first, first + count))

    def stops_of(self, indices: Whole) -> Whole:
        """Rounds after which these batches end."""
        last = self._sizes.size - 1
        beyond = np.maximum(indices - last, 0) * self._sizes[last]
        return np.asarray(self._stops[np.minimum(indices, last)] + beyond)


class BatchesAhead:
    """The batches of a plan with their noise, some after the other."""

    def __init__(self, plan: Plan, noise: np.random.Generator, server: np.random.Generator) -> None:
        self._plan = plan
        self._noise = noise
        self._running = plan.mechanism.running_sum(server)
        self.batches = BatchSizes(plan.schedule)
        self.levels = max(1, *(len(one.roundings) for one in plan.mechanism.releases))
        stated = max(release.noise_std for release in plan.mechanism.releases)
        self._silent = type(self._running) is FreshNoise and stated == 0
        self._prefixes = Fold(self._running, 0.0, lambda known, part: known + part.variance)
        self._next, self._variance = 0, 0.0

    @property
    def over(self) -> bool:
        """Whether all have been drawn."""
        return self._next == self.batches.count

    def draw(self) -> BatchInputs:
        """The next ones."""
        plan, first = self._plan, self._next
        most = max(1, NUMBERS_AHEAD // (self.levels * plan.layout.size))
        count = min(self.batches.count - first, AT_ONCE, most)
        self._next += count
        stops, indices = self.batches.stops(first, count), range(first, first + count)
        runs = list(plan.mechanism.runs(indices))
        noise, variances, starts = self._noise_ahead(count, runs)
        return BatchInputs(
            stops,
            self.batches.sizes(first, count),
            stops - np.where(starts > 0, self.batches.stops_of(starts - 1), 0),
            noise,
            variances,
            np.concatenate([np.tile(self._codes(one), (many, 1, 1)) for one, many in runs]),
            np.concatenate([np.full(many, len(one.roundings)) for one, many in runs]),
            np.asarray(plan.mechanism.completed(indices), dtype=np.int64),
            *self._numbers(stops, variances, starts),
        )

    def _noise_ahead(
        self, count: int, runs: list[tuple[Release, int]]
    ) -> tuple[Floats, Floats, Whole]:
        """Of the released sums, and the batches that these start with."""
        size = self._plan.layout.size
        if self._silent:
            first = self._next - count
            return np.zeros((0, size)), np.zeros(count), np.arange(first, first + count)
        drawn: Any = [one.noise_ahead(many, self._noise) for one, many in runs]
        width = self.levels * size
        # A batch may be in fewer sums than others.
        fresh = [np.pad(rows, ((0, 0), (0, width - rows.shape[1]))) for rows in drawn]
        ahead: Any = self._running.ahead(np.concatenate(fresh))
        noise, variances, starts = ahead
        return ready(noise), ready(variances), np.asarray(starts, dtype=np.int64)

    def _codes(self, release: Release) -> Floats:
        """The roundings ``(levels, 5)`` of one batch's users."""
        found = np.zeros((self.levels, MOST + 1))
        for row, rounding in zip(found, release.roundings, strict=False):
            row[:] = astuple(rounding)
        return found

    def _numbers(self, users: Whole, variances: Floats, starts: Whole) -> tuple[Floats, Floats]:
        """Regularisers and scales of the models after as many users."""
        policy = self._plan.policy
        if isinstance(policy, Ucb):
            found = policy.numbers(users, self._added(variances, starts), policy.features)
        else:
            found = 0.0, getattr(policy, "spread", 1.0)
        first, second = (
            np.array(np.broadcast_to(number, users.shape), dtype=float) for number in found
        )
        return first, second

    def _added(self, variances: Floats, starts: Whole) -> Floats:
        """What all sums that a prefix is made of vary by."""
        if isinstance(self._running, Correlated):
            return variances
        first = self._next - len(starts)
        if np.array_equal(starts, np.arange(first, self._next)):
            found = self._variance + np.cumsum(variances)
            self._variance = float(found[-1])
            return np.asarray(found)
        rows = enumerate(zip(starts.tolist(), variances.tolist(), strict=True), first)
        parts = (Part(start, index + 1, NOTHING, variance) for index, (start, variance) in rows)
        return np.array([self._prefixes.add(part, part.stop) for part in parts])
