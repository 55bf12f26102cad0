"""The engine: batches of users and many trials at once, through the deployed model code."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.analyzer import Learner
from croupier.contribution import checked_constant
from croupier.model import Model
from croupier.plan import Plan
from croupier.protocols.base import RunningSum
from croupier.schedules import Span
from croupier.simulation.kernels.sampler import sampler
from croupier.simulation.kernels.support import supports
from croupier.simulation.kernels.trial import Trial
from croupier.simulation.problem import BLOCK, Problem, Users, World

Floats = NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class RegretCurves:
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


def run(
    plan: Plan,
    problem: Problem,
    seed: int,
    trials: range,
    points: int = 200,
    *,
    oracle: bool = False,
) -> RegretCurves:
    """Play the plan's horizon in every trial and record the regret at a few rounds.

    Compiled kernels play one trial after the other where they know the plan's parts; other plans
    are played in all trials at once. The ``oracle`` plays every trial alone and without kernels,
    on the same users and with the same noise.
    """
    fitted = fitting_plan(plan, problem)
    if oracle:
        return joined([_alone(fitted, problem, seed, trial, points) for trial in trials])
    if supports(fitted):
        return joined([_compiled(fitted, problem, seed, trial, points) for trial in trials])
    world = problem.world(seed, trials)
    return Run(fitted, world, len(trials), _noise(seed, trials)).play(points)


def _alone(plan: Plan, problem: Problem, seed: int, trial: int, points: int) -> RegretCurves:
    one = range(trial, trial + 1)
    return Run(plan, problem.world(seed, one), 1, _noise(seed, one), oracle=True).play(points)


def _compiled(plan: Plan, problem: Problem, seed: int, trial: int, points: int) -> RegretCurves:
    one = range(trial, trial + 1)
    played = Trial(plan, problem.world(seed, one), _noise(seed, one))
    rounds = checkpoints(plan.schedule.rounds, points)
    regret = played.play(rounds)[None]
    return RegretCurves(rounds, regret, played.repairs, np.array([played.publications]))


def joined(parts: Sequence[RegretCurves]) -> RegretCurves:
    """Curves of some trials after those of others."""
    return RegretCurves(
        parts[0].rounds,
        np.concatenate([part.regret for part in parts]),
        sum(part.repairs for part in parts),
        np.concatenate([part.publications for part in parts]),
    )


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

    def __init__(
        self,
        plan: Plan,
        world: World,
        trials: int,
        noise: np.random.Generator,
        *,
        oracle: bool = False,
    ) -> None:
        self._plan = plan
        self._world = world
        self._trials = trials
        self._sample: Any = plan.policy.sample if oracle else sampler(plan.policy)
        # Streams of their own, so that kernels can draw of each as far ahead as they like.
        self._noise, released, server = noise.spawn(3)
        self._collector = plan.mechanism.collector(released)
        self._running: RunningSum = plan.mechanism.running_sum(server)
        self._known = Learner(plan, self._running).known()
        self._first = self._model = self._first_model()
        self._publications = np.zeros(trials, dtype=np.int64)
        self._regret = np.zeros(trials)
        self._repairs = 0

    def play(self, points: int) -> RegretCurves:
        """All batches, the open one included."""
        rounds = checkpoints(self._plan.schedule.rounds, points)
        curves = np.empty((self._trials, rounds.size))
        for span in self._plan.schedule.spans():
            for start, stop in segments(span):
                steps = self._play(span, self._world.users(start, stop))
                inside = slice(*np.searchsorted(rounds, [start + 1, stop + 1]))
                paid = np.cumsum(steps, axis=1)
                curves[:, inside] = self._regret[:, None] + paid[:, rounds[inside] - start - 1]
                self._regret += paid[:, -1]
            if span.complete:
                self._learn(span)
        return RegretCurves(rounds, curves, self._repairs, self._publications)

    def _play(self, span: Span, users: Users) -> Floats:
        """Some rounds of a batch; their regret ``(trials, rounds)``."""
        contributions, regret = self._rounds(users)
        if span.complete:
            self._collector.take(span.index, contributions)
        return regret

    def _rounds(self, users: Users) -> tuple[Floats, Floats]:
        """Choose, reward, contribute: contributions ``(trials, rounds, size)`` and regret."""
        layout = self._plan.layout
        offered = layout.score_features(checked_constant(layout, users.features))
        rounds = users.uniforms.shape[1]
        chosen = self._chosen(offered, rounds, users.available)
        arm = chosen[..., None]
        mean = np.take_along_axis(users.means, arm, axis=-1)[..., 0]
        played = np.take_along_axis(offered, arm[..., None], axis=-2)[..., 0, :]
        rewards = (users.uniforms < mean).astype(np.float64)
        regret = np.broadcast_to(users.best - mean, rewards.shape)
        features = np.broadcast_to(played, (*rewards.shape, played.shape[-1]))
        return layout.encode(features, rewards), regret

    def _chosen(
        self, features: Floats, rounds: int, available: NDArray[np.bool_] | None = None
    ) -> NDArray[np.intp]:
        """Arms by the published models; trials that have none yet still play the first one."""
        # A policy that knows no masks can still play problems without any.
        offered = {} if available is None else {"mask": available}
        waiting = self._publications == 0
        chosen: NDArray[np.intp] = self._sample(
            self._model, features, rounds, self._noise, **offered
        )
        if waiting.all() or not waiting.any():
            return chosen
        # Policies play uniformly before anything is learnt, and a model says so for all trials.
        first = self._sample(self._first, features, rounds, self._noise, **offered)
        return np.where(waiting[:, None], first, chosen)

    def _learn(self, span: Span) -> None:
        released = self._collector.close(span.index)
        # The axis of length 1 stands for the rounds of a batch, which all see one model.
        part = self._running.part(span.index, released[:, None])
        fresh = self._plan.policy.model(self._known.add(part, span.index + 1))
        self._repairs += fresh.repairs
        due = self._plan.publication.due(self._model, fresh)
        self._model = replaced(self._model, fresh, due)
        self._publications += due[:, 0]

    def _first_model(self) -> Model:
        """Of all trials."""
        first, shape = self._plan.policy.first_model, (self._trials, 1)
        theta = np.broadcast_to(first.theta, (*shape, *first.theta.shape))
        matrix = np.broadcast_to(first.matrix, (*shape, *first.matrix.shape))
        return replace(first, theta=theta, matrix=matrix)


def segments(span: Span) -> Iterator[tuple[int, int]]:
    """The rounds of a batch, cut at the blocks in which users are drawn."""
    start = span.start
    while start < span.stop:
        stop = min(span.stop, (start // BLOCK + 1) * BLOCK)
        yield start, stop
        start = stop


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
