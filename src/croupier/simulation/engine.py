"""The engine: batches of users and many trials at once, through the deployed model code."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.analyzer import running_sums
from croupier.contribution import checked_constant
from croupier.model import Model, ReleasedSums
from croupier.plan import Plan
from croupier.protocols.base import RunningSum
from croupier.simulation.problems import BLOCK, Problem, Users, World
from croupier.theory.schedules import Span

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Curves:
    """Cumulative pseudo-regret ``(trials, points)`` after the rounds ``(points,)``.

    ``publications (trials,)``: models that followed the first one.
    """

    rounds: NDArray[np.int64]
    regret: Floats
    repairs: int
    publications: NDArray[np.int64]


def checkpoints(horizon: int, points: int) -> NDArray[np.int64]:
    """At most ``points`` rounds, evenly spread, the last one included."""
    return np.unique(np.linspace(0, horizon, min(points, horizon) + 1).round().astype(np.int64))[1:]


def run(plan: Plan, problem: Problem, seed: int, trials: range, points: int = 200) -> Curves:
    """Play the plan's horizon in every trial and record the regret at a few rounds."""
    fitted = fitting_plan(plan, problem)
    world = problem.world(seed, trials)
    return Run(fitted, world, len(trials), _noise(seed, trials)).play(points)


def _noise(seed: int, trials: range) -> np.random.Generator:
    """The noise stream of a group of trials, apart from the streams of its users."""
    return np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(trials.start, 9)))


def fitting_plan(plan: Plan, problem: Problem) -> Plan:
    """The plan for this problem's features; norms above the plan's only where it is declared."""
    if problem.dim != plan.layout.dim:
        raise ValueError(f"dim must be that of the plan {plan.layout.dim}, got {problem.dim}")
    if problem.feature_norm <= plan.layout.feature_norm:
        return plan
    if problem.name != "released":
        raise ValueError(
            f"features of problem {problem.name!r} must have norm at most "
            f"{plan.layout.feature_norm}, got {problem.feature_norm}"
        )
    return plan.with_feature_norm(problem.feature_norm)


class Run:
    """One pass over the horizon; holds the running sums and the regret so far."""

    def __init__(self, plan: Plan, world: World, trials: int, noise: np.random.Generator) -> None:
        self._plan = plan
        self._world = world
        self._trials = trials
        self._noise = noise
        self._collector = plan.mechanism.collector(noise)
        self._running: RunningSum = plan.mechanism.running_sum(noise)
        self._first = self._model = self._first_model()
        self._publications = np.zeros(trials, dtype=np.int64)
        self._regret = np.zeros(trials)
        self._repairs = 0

    def play(self, points: int) -> Curves:
        """All batches, the open one included."""
        rounds = checkpoints(self._plan.schedule.rounds, points)
        curves = np.empty((self._trials, rounds.size))
        for span in self._plan.schedule.spans():
            steps = self._play(span)
            inside = slice(*np.searchsorted(rounds, [span.start + 1, span.stop + 1]))
            paid = np.cumsum(steps, axis=1)[:, rounds[inside] - span.start - 1]
            curves[:, inside] = self._regret[:, None] + paid
            self._regret += steps.sum(axis=1)
        return Curves(rounds, curves, self._repairs, self._publications)

    def _play(self, span: Span) -> Floats:
        """One batch; the regret of its rounds ``(trials, rounds)``."""
        parts = [self._rounds(users) for users in self._segments(span)]
        if span.complete:
            self._learn(span, np.concatenate([given for given, _ in parts], axis=1))
        return np.concatenate([regret for _, regret in parts], axis=1)

    def _segments(self, span: Span) -> Iterator[Users]:
        """The batch cut at the blocks in which users are drawn."""
        start = span.start
        while start < span.stop:
            stop = min(span.stop, (start // BLOCK + 1) * BLOCK)
            yield self._world.users(start, stop)
            start = stop

    def _rounds(self, users: Users) -> tuple[Floats, Floats]:
        """Choose, reward, contribute: contributions ``(trials, rounds, size)`` and regret."""
        checked_constant(self._plan.layout, users.features)
        rounds = users.uniforms.shape[1]
        chosen = self._chosen(users.features, rounds)
        arm = chosen[..., None]
        mean = np.take_along_axis(users.means, arm, axis=-1)[..., 0]
        played = np.take_along_axis(users.features, arm[..., None], axis=-2)[..., 0, :]
        rewards = (users.uniforms < mean).astype(np.float64)
        regret = np.broadcast_to(users.means.max(axis=-1) - mean, rewards.shape)
        features = np.broadcast_to(played, (*rewards.shape, played.shape[-1]))
        return self._plan.layout.encode(features, rewards), regret

    def _chosen(self, features: Floats, rounds: int) -> NDArray[np.intp]:
        """Arms by the published models; trials that have none yet still play the first one."""
        sample, waiting = self._plan.policy.sample, self._publications == 0
        chosen = sample(self._model, features, rounds, self._noise)
        if waiting.all() or not waiting.any():
            return chosen
        # Policies play uniformly before anything is learnt, and a model says so for all trials.
        first = sample(self._first, features, rounds, self._noise)
        return np.where(waiting[:, None], first, chosen)

    def _learn(self, span: Span, contributions: Floats) -> None:
        released = self._collector.add(span.index, contributions)
        total, variance = self._running.add(span.index, released)
        # The axis of length 1 stands for the rounds of a batch, which all see one model.
        sums = running_sums(self._plan, total[:, None], variance, span.index + 1, span.stop)
        fresh = self._plan.policy.model(sums)
        self._repairs += fresh.repairs
        due = self._plan.publication.due(self._model, fresh)
        self._model = replaced(self._model, fresh, due)
        self._publications += due[:, 0]

    def _first_model(self) -> Model:
        dim = self._plan.layout.dim
        vector, matrix = np.zeros((self._trials, 1, dim)), np.zeros((self._trials, 1, dim, dim))
        return self._plan.policy.model(ReleasedSums(vector, matrix, 0, 0, 0.0))


def replaced(published: Model, fresh: Model, due: NDArray[np.bool_]) -> Model:
    """The fresh models of trials that are ``due (trials, 1)``, the published ones of the others."""
    if due.all():
        return fresh
    if not due.any():
        return published
    rows = due[..., None]
    # Trials with models of different ages have different radii; the axes are rounds and arms.
    scale: Any = np.where(rows, fresh.scale, published.scale)
    theta = np.where(rows, fresh.theta, published.theta)
    matrix = np.where(rows[..., None], fresh.matrix, published.matrix)
    return replace(fresh, theta=theta, matrix=matrix, scale=scale)
