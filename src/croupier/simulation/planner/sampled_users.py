"""A simulation in which a few users of each large batch are played.

The model does not change inside a batch, so its users are alike: some are played, and their
regret and contributions are weighted up to the whole batch. The cost is that of the number of
batches, not of users.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from croupier.contribution import Layout
from croupier.model import Model, ReleasedSums
from croupier.plan import Plan
from croupier.policies.base import Policy
from croupier.protocols.base import Mechanism
from croupier.schedules import Schedule, Span
from croupier.simulation.problem import BLOCK, Problem, Users

Floats = NDArray[np.float64]
Report = Callable[[int], None]
"""Called with the rounds that were just played."""

FEW, MORE = BLOCK, 2 * BLOCK
"""Users of a batch who are played; more where all users share an arm set: few of them explore."""

NUMBERS_AT_ONCE = 2**22
"""Numbers of one array that a simulation holds in memory."""


@dataclass(frozen=True)
class Noise:
    """Fresh noise of deviation ``std`` on the sum of all batches from ``start`` to this one.

    The estimate of a prefix adds it to the estimate of the first ``start`` batches.
    """

    start: int
    std: float


@dataclass(frozen=True)
class Course:
    """What is played: batches, the noise that each brings, and the policy."""

    layout: Layout
    schedule: Schedule
    policy: Policy
    noise: tuple[Noise, ...]


def course_of(plan: Plan) -> Course:
    """What a plan plays; its noise is taken for Gaussian, worst-case rounding included."""
    return Course(plan.layout, plan.schedule, plan.policy, tuple(_noise(plan.mechanism)))


def _noise(mechanism: Mechanism) -> Iterator[Noise]:
    """Read off the variances of running sums."""
    running, variances = mechanism.running_sum(), [0.0]
    for index in range(mechanism.schedule.batches):
        released = mechanism.covers(index)
        _, variance = running.add(index, np.zeros(len(released) * mechanism.layout.size))
        start = released[-1].start
        yield Noise(start, math.sqrt(variance - variances[start]))
        variances.append(variance)


@dataclass(frozen=True, eq=False)
class SimulatedRegret:
    """Regret of the policy and of uniform play, each ``(trials,)``."""

    regret: Floats
    uniform: Floats


def play(
    course: Course, problem: Problem, seed: int, trials: range, report: Report = lambda _: None
) -> SimulatedRegret:
    """Play a course in every trial; the users are those of ``engine.run`` with the same seed."""
    parts = []
    for part in _parts(course, problem, trials):
        parts.append(_Play(course, problem, seed, part).run())
        report(played_rounds(course.schedule, problem) * len(part))
    return SimulatedRegret(
        np.concatenate([part.regret for part in parts]),
        np.concatenate([part.uniform for part in parts]),
    )


def _parts(course: Course, problem: Problem, trials: range) -> Iterator[range]:
    """Trials that fit into memory together."""
    numbers = BLOCK * max(problem.arms * problem.dim, course.layout.size)
    together = max(1, min(16, NUMBERS_AT_ONCE // numbers))
    for start in range(trials.start, trials.stop, together):
        yield range(start, min(start + together, trials.stop))


def most_sampled(problem: Problem) -> int:
    """Users of a large batch who are played."""
    return MORE if problem.common_arms else FEW


def played_rounds(batches: Schedule, problem: Problem) -> int:
    """Rounds of one trial that are played."""
    most = most_sampled(problem)
    return sum(
        stop - start for span in batches.spans() for start, stop in sampled_rounds(span, most)
    )


def sampled_rounds(span: Span, most: int) -> list[tuple[int, int]]:
    """Rounds that are played, cut at blocks: all of a small batch, whole blocks of a large one."""
    if span.stop - span.start >= most + BLOCK:
        first = -(-span.start // BLOCK) * BLOCK
        return [(start, start + BLOCK) for start in range(first, first + most, BLOCK)]
    cuts = range(span.start // BLOCK * BLOCK, span.stop, BLOCK)
    return [(max(cut, span.start), min(cut + BLOCK, span.stop)) for cut in cuts]


def summed(layout: Layout, features: Floats, rewards: Floats) -> Floats:
    """``layout.encode`` added up over users ``(..., users, dim)``, without a row for each."""
    rows, columns = layout.triangle
    vector = np.matmul((rewards - layout.offset)[..., None, :], features)[..., 0, :]
    gram = np.matmul(np.swapaxes(features, -1, -2), features)
    return np.concatenate([vector, gram[..., rows, columns] * layout.stretch], axis=-1)


class _Play:
    """One pass over the batches; holds the running sums and the regret so far."""

    def __init__(self, course: Course, problem: Problem, seed: int, trials: range) -> None:
        self._course = course
        self._most = most_sampled(problem)
        self._world = problem.world(seed, trials)
        key = np.random.SeedSequence(seed, spawn_key=(trials.start, 9))
        self._noise = np.random.default_rng(key)
        self._total = np.zeros((len(trials), course.layout.size))
        self._added, self._variances = [np.zeros(self._total.shape)], [0.0]
        self._regret, self._uniform = np.zeros(len(trials)), np.zeros(len(trials))
        self._model = self._learnt(0, 0)

    def run(self) -> SimulatedRegret:
        """All batches."""
        for span in self._course.schedule.spans():
            self._batch(span)
            self._add_noise(self._course.noise[span.index])
            self._model = self._learnt(span.index + 1, span.stop)
        return SimulatedRegret(self._regret, self._uniform)

    def _batch(self, span: Span) -> None:
        rounds = sampled_rounds(span, self._most)
        weight = (span.stop - span.start) / sum(stop - start for start, stop in rounds)
        for start, stop in rounds:
            self._play_users(self._world.users(start, stop), weight)

    def _play_users(self, users: Users, weight: float) -> None:
        """Users who stand for ``weight`` each choose, are rewarded and contribute."""
        rounds = users.uniforms.shape[1]
        arm = self._course.policy.sample(self._model, users.features, rounds, self._noise)
        mean = np.take_along_axis(users.means, arm[..., None], axis=-1)[..., 0]
        chosen = np.take_along_axis(users.features, arm[..., None, None], axis=-2)[..., 0, :]
        # Rewards of weight many users vary less than weight times one user's.
        rewards = mean + ((users.uniforms < mean) - mean) / math.sqrt(weight)
        features = np.broadcast_to(chosen, (*rewards.shape, chosen.shape[-1]))
        self._total += weight * summed(self._course.layout, features, rewards)
        best = users.means.max(axis=-1)
        self._regret += weight * rounds * (best - mean).mean(axis=1)
        self._uniform += weight * rounds * (best - users.means.mean(axis=-1)).mean(axis=1)

    def _add_noise(self, fresh: Noise) -> None:
        drawn = fresh.std * self._noise.standard_normal(self._total.shape)
        self._added.append(self._added[fresh.start] + drawn)
        self._variances.append(self._variances[fresh.start] + fresh.std**2)

    def _learnt(self, batches: int, users: int) -> Model:
        """The model of all trials; the axis of length 1 stands for the rounds of a batch."""
        estimate = self._total + self._added[-1]
        vector, matrix = self._course.layout.decode(estimate[:, None])
        sums = ReleasedSums(vector, matrix, users, batches, self._variances[-1])
        return self._course.policy.model(sums)
