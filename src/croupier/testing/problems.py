"""Promises of a simulation problem: users are bounded and a pure function of their place."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from croupier.contribution import NORM_SLACK
from croupier.simulation.problem import BLOCK, Problem, Users, World
from croupier.testing.report import Complaints

Seeded = tuple[Problem, int]
TRIALS = range(3)


def _world(subject: Seeded, trials: range) -> World:
    problem, seed = subject
    return problem.world(seed, trials)


def _features_fit(subject: Seeded) -> Complaints:
    problem, users = subject[0], _block(*subject, 0)
    largest = float(np.linalg.norm(users.features, axis=-1).max())
    if users.features.shape[-2:] != (problem.arms, problem.dim):
        yield f"arm sets must be {(problem.arms, problem.dim)}, got {users.features.shape[-2:]}"
    if not largest <= problem.feature_norm * (1 + NORM_SLACK):
        yield f"features have norm {largest}, the problem says {problem.feature_norm}"


def _rewards_fit(subject: Seeded) -> Complaints:
    means = _block(*subject, 0).means
    if not (means.min() >= -NORM_SLACK and means.max() <= 1 + NORM_SLACK):
        yield f"mean rewards must be in [0, 1], got {means.min()} to {means.max()}"


def _order_does_not_matter(subject: Seeded) -> Complaints:
    forward, backward = _world(subject, TRIALS), _world(subject, TRIALS)
    rising = {index: forward.block(index) for index in (0, 1, 2)}
    falling = {index: backward.block(index) for index in (2, 1, 0)}
    for index, users in rising.items():
        if not _equal(users, falling[index]):
            yield f"block {index} differs when later blocks are asked for first"
        if not _equal(users, forward.block(index)):
            yield f"block {index} differs when it is asked for again"


def _trials_stand_alone(subject: Seeded) -> Complaints:
    together = _world(subject, TRIALS).users(0, BLOCK)
    for trial in TRIALS:
        alone = _world(subject, range(trial, trial + 1)).users(0, BLOCK)
        if not _equal(alone, _trial(together, trial)):
            yield f"trial {trial} differs when it is run alone"


def _rounds_stand_alone(subject: Seeded) -> Complaints:
    whole_block = _world(subject, TRIALS).users(0, BLOCK)
    part = _world(subject, TRIALS).users(3, 7)
    if not np.array_equal(part.uniforms, whole_block.uniforms[:, 3:7]):
        yield "rounds 3 to 7 differ when they are asked for alone"


def _trials_differ(subject: Seeded) -> Complaints:
    users = _world(subject, TRIALS).users(0, BLOCK)
    if np.array_equal(users.means[0], users.means[1]):
        yield "trials 0 and 1 meet the same users"
    if np.array_equal(users.uniforms[0], users.uniforms[1]):
        yield "trials 0 and 1 draw the same rewards"


def _seeds_differ(subject: Seeded) -> Complaints:
    problem, seed = subject
    if np.array_equal(_block(problem, seed, 0).means, _block(problem, seed + 1, 0).means):
        yield f"seeds {seed} and {seed + 1} give the same users"


PROBLEM_PROMISES: Mapping[str, Callable[[Seeded], Complaints]] = {
    "features keep to feature_norm and their shape": _features_fit,
    "mean rewards are probabilities": _rewards_fit,
    "users do not depend on the order in which they are asked for": _order_does_not_matter,
    "a trial does not depend on the others": _trials_stand_alone,
    "a round does not depend on the others": _rounds_stand_alone,
    "trials differ": _trials_differ,
    "seeds differ": _seeds_differ,
}


def _block(problem: Problem, seed: int, index: int) -> Users:
    return problem.world(seed, TRIALS).block(index)


def _trial(users: Users, trial: int) -> Users:
    one = slice(trial, trial + 1)
    return Users(users.features[one], users.means[one], users.uniforms[one])


def _equal(first: Users, second: Users) -> bool:
    names = ("features", "means", "uniforms")
    return all(np.array_equal(getattr(first, name), getattr(second, name)) for name in names)
