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

from croupier.layouts import Layout
from croupier.model import ReleasedSums
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
    """Fresh noise of deviation ``std`` on the sum of all batches from ``start`` to this one."""

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
    """Of the sum that each batch completes."""
    running = mechanism.running_sum()
    for index in range(mechanism.schedule.batches):
        released = np.zeros(len(mechanism.covers(index)) * mechanism.layout.size)
        part = running.part(index, released)
        if part is not None:
            yield Noise(part.start, math.sqrt(part.variance))


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


class _Play:
    """One pass over the batches; holds the running sums and the regret so far."""

    def __init__(self, course: Course, problem: Problem, seed: int, trials: range) -> None:
        self._course = course
        self._most = most_sampled(problem)
        self._world = problem.world(seed, trials)
        key = np.random.SeedSequence(seed, spawn_key=(trials.start, 9))
        self._noise = np.random.default_rng(key)
        self._total = np.zeros((len(trials), course.layout.size))
        self._until = [self._total.copy()]
        """Contributions of the users before each batch."""
        self._known = [course.policy.start()]
        self._regret, self._uniform = np.zeros(len(trials)), np.zeros(len(trials))
        self._model = course.policy.first_model

    def run(self) -> SimulatedRegret:
        """All batches."""
        for span in self._course.schedule.spans():
            self._batch(span)
            self._learn(span.index)
        return SimulatedRegret(self._regret, self._uniform)

    def _batch(self, span: Span) -> None:
        rounds = sampled_rounds(span, self._most)
        weight = (span.stop - span.start) / sum(stop - start for start, stop in rounds)
        for start, stop in rounds:
            self._play_users(self._world.users(start, stop), weight)

    def _play_users(self, users: Users, weight: float) -> None:
        """Users who stand for ``weight`` each choose, are rewarded and contribute."""
        rounds = users.uniforms.shape[1]
        offered = self._course.layout.score_features(users.features)
        arm = self._course.policy.sample(self._model, offered, rounds, self._noise)
        mean = np.take_along_axis(users.means, arm[..., None], axis=-1)[..., 0]
        chosen = np.take_along_axis(offered, arm[..., None, None], axis=-2)[..., 0, :]
        # Rewards of weight many users vary less than weight times one user's.
        rewards = mean + ((users.uniforms < mean) - mean) / math.sqrt(weight)
        features = np.broadcast_to(chosen, (*rewards.shape, chosen.shape[-1]))
        self._total += weight * self._course.layout.encode(features, rewards).sum(axis=1)
        best = users.means.max(axis=-1)
        self._regret += weight * rounds * (best - mean).mean(axis=1)
        self._uniform += weight * rounds * (best - users.means.mean(axis=-1)).mean(axis=1)

    def _learn(self, index: int) -> None:
        """The model of all trials; the axis of length 1 stands for the rounds of a batch."""
        course, fresh = self._course, self._course.noise[index]
        self._until.append(self._total.copy())
        drawn = fresh.std * self._noise.standard_normal(self._total.shape)
        own = self._total - self._until[fresh.start] + drawn
        users = course.schedule.users(fresh.start, index + 1)
        moments = course.layout.decode(own[:, None], users)
        sums = ReleasedSums(moments.vector, moments.matrix, users, index + 1, fresh.std**2)
        self._known.append(course.policy.learn(self._known[fresh.start], sums))
        self._model = course.policy.model(self._known[-1])
