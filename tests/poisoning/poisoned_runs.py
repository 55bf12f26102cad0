"""Runs of a plan, batch by batch, of which some users may be liars who send well-formed reports."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from croupier.analyzer import Analyzer
from croupier.plan import Plan
from croupier.protocols.vector_release import VectorSumRelease

Floats = NDArray[np.float64]

ARMS = 20


@dataclass(frozen=True)
class Crowd:
    """Who reports. Liars are a share of every batch from one on, and lie in one ``way``.

    ``ones``: every bit of the report is one. ``bits``: all bits of the vector against the truth,
    the matrix as if there were no feature. ``lie``: a device that lies about feature and reward.
    """

    liars: float = 0.0
    way: str = "ones"
    first: int = 0
    binary: bool = True
    moving: bool = False


@dataclass
class Outcome:
    """Regret of honest users per round, alarms by batch, the least chance of any batch."""

    regret: float = 0.0
    alarms: list[int] = field(default_factory=list)
    least: float = 1.0
    released: list[Floats] = field(default_factory=list)


class World:
    """Arm sets ``(users, arms, dim)`` with half of each feature constant, of one linear truth."""

    def __init__(self, dim: int, crowd: Crowd, seed: int) -> None:
        self.rng = np.random.default_rng(seed)
        self._crowd, self._dim = crowd, dim
        self.theta = self._lifted(1)[0]

    def _lifted(self, count: int) -> Floats:
        dim = self._dim
        rows = self.rng.standard_normal((count, dim - 1))
        rows /= np.linalg.norm(rows, axis=1, keepdims=True)
        return np.asarray(np.hstack([rows, np.ones((count, 1))]) * math.sqrt(0.5))

    def arm_sets(self, users: int, batch: int) -> Floats:
        """Of moving ones each batch sees another half of all directions."""
        found = self._lifted(users * ARMS)
        if self._crowd.moving:
            axis = batch % (self._dim - 1)
            found[:, axis] = np.abs(found[:, axis]) * (-1) ** batch
        return found.reshape(users, ARMS, self._dim)

    def rewards(self, means: Floats) -> Floats:
        """Zeros and ones, or numbers in between."""
        if self._crowd.binary:
            return np.asarray(self.rng.random(means.shape) < means, dtype=np.float64)
        return np.clip(means + self.rng.uniform(-0.2, 0.2, means.shape), 0.0, 1.0)


def play(plan: Plan, crowd: Crowd, seed: int, batches: int, quarantine: bool = True) -> Outcome:
    """A plan's first batches; what is suspicious is left out, unless told otherwise."""
    world, analyzer, outcome = World(plan.layout.dim, crowd, seed), Analyzer(plan), Outcome()
    honest, regret = 0, 0.0
    collector = plan.mechanism.collector(world.rng)
    for index in range(batches):
        users = plan.users(index)
        liars = round(crowd.liars * users) if index >= crowd.first else 0
        arms = world.arm_sets(users - liars, index)
        means, scored = arms @ world.theta, plan.layout.score_features(arms)
        chosen = plan.policy.sample(analyzer.model, scored[None], len(arms), world.rng)[0]
        rows = np.arange(len(arms)), np.broadcast_to(chosen, len(arms))
        regret, honest = regret + float((means.max(axis=1) - means[rows]).sum()), honest + len(arms)
        contributions = plan.layout.encode(scored[rows], world.rewards(means[rows]))
        if liars:
            released = poisoned(plan, index, contributions, liars, crowd.way, world)
        else:
            released = collector.add(index, contributions)
        analyzer = _learnt(plan, analyzer, outcome, released, quarantine)
    outcome.regret = regret / honest
    return outcome


def _learnt(
    plan: Plan, analyzer: Analyzer, outcome: Outcome, released: Floats, quarantine: bool
) -> Analyzer:
    index = analyzer.batch
    found = analyzer.examine(index, released)
    assert found is not None
    outcome.least = min(outcome.least, found.chance)
    if found.suspicious:
        outcome.alarms.append(index)
        if quarantine:
            out = analyzer.left_out | {index}
            known = (analyzer.model, analyzer.repairs)
            analyzer = Analyzer.resume(plan, outcome.released, *known, out)
    outcome.released.append(released)
    analyzer.learn(index, released)
    return analyzer


def poisoned(
    plan: Plan, index: int, contributions: Floats, liars: int, way: str, world: World
) -> Floats:
    """The sums of a batch of ``vector-sum`` with as many liars."""
    release = plan.release(index)
    assert isinstance(release, VectorSumRelease)
    counts = honest_counts(release, contributions, world.rng)
    towards = plan.layout.score_features(world.theta / np.linalg.norm(world.theta))
    every = release.signal_bits + release.noise_bits
    if way == "lie":
        told = plan.layout.encode(np.tile(-towards, (liars, 1)), np.ones(liars))
        counts = counts + honest_counts(release, told, world.rng)
    elif way == "bits":
        row = np.round(release.noise_bits * release.bias - release.grid * plan.layout.low)
        against = np.where(towards > 0, 0, every[: plan.layout.scored])
        row[: plan.layout.summed] = np.append(against, np.zeros(plan.layout.summed - len(against)))
        counts = counts + liars * row.astype(np.int64)
    else:
        counts = counts + liars * every
    return release.debias(counts)


def honest_counts(
    release: VectorSumRelease, contributions: Floats, rng: np.random.Generator
) -> NDArray[np.int64]:
    """Ones of each label, of devices that do as they should."""
    floor, left = release.steps(contributions)
    coins = rng.binomial(len(contributions) * release.noise_bits, release.bias, floor.shape[1])
    return np.asarray((floor + (rng.random(left.shape) < left)).sum(axis=0) + coins)
