"""A plan on logged data: learnt by replay of one half of the log, valued on the other half.

Replay is rejection (Li, Chu, Langford and Wang 2011): the plan's policy chooses, and a row counts
only where the log shows the same arm. Where the log did not play uniformly a row is first kept
with a chance in inverse proportion to its propensity, so that what is left is as if it had.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from croupier.analyzer import Learner
from croupier.contribution import checked_constant
from croupier.model import Model
from croupier.plan import Plan
from croupier.simulation.data.base import Floats, Indices, directions, split_in_half
from croupier.simulation.data.estimates import (
    Estimate,
    average,
    bernstein,
    inverse_propensity,
    self_normalised,
)
from croupier.simulation.data.files import Log
from croupier.simulation.data.maps import BallMap, from_public
from croupier.simulation.data.own import Scaling
from croupier.simulation.problem import in_blocks

_STREAM = 13
_CHUNK = 1024


@dataclass(frozen=True)
class Evaluation:
    """Estimates of a plan on a log, and how much of the log could be used.

    ``mean_inverse`` is the mean of 1/propensity, which is near the number of arms if propensities
    are right and every arm had a chance.
    """

    estimates: tuple[Estimate, ...]
    accepted: int
    replayed: int
    batches: int
    planned_batches: int
    arms: int
    mean_inverse: float
    scaling: str

    def document(self) -> dict[str, Any]:
        """Plain values for JSON."""
        plain = {name: value for name, value in vars(self).items() if name != "estimates"}
        return {**plain, "estimates": [estimate.document() for estimate in self.estimates]}


@dataclass(frozen=True, eq=False)
class Rows:
    """Part of a log, mapped: ``contexts (rows, width)``, arms, rewards, propensities."""

    contexts: Floats
    arms: Indices
    rewards: Floats
    propensities: Floats


def evaluate(plan: Plan, log: Log, *, seed: int = 0, scaling: Scaling | None = None) -> Evaluation:
    """Learn by replay on half of the log, then value the last model on the other half."""
    arms = len(log.table.classes)
    held, replayed = split_in_half(len(log.rewards), seed)
    ball = _ball(plan, log, held, replayed, scaling or Scaling(), seed)
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(_STREAM,)))
    replay = Replay(plan, arms, rng)
    earned = replay.play(_rows(log, replayed[rng.permutation(replayed.size)], ball))
    rest = _rows(log, held, ball)
    agrees = (replay.choose(rest.contexts) == rest.arms).astype(np.float64)
    terms = rest.rewards, rest.propensities, agrees
    return Evaluation(
        estimates=(
            average("log itself", log.rewards),
            average("replay, while learning", earned),
            inverse_propensity(*terms),
            self_normalised(*terms),
            bernstein(*terms),
        ),
        accepted=earned.size,
        replayed=int(replayed.size),
        batches=replay.batches,
        planned_batches=plan.schedule.batches,
        arms=arms,
        mean_inverse=float((1 / log.propensities).mean()),
        scaling=ball.words,
    )


def _ball(
    plan: Plan, log: Log, held: Indices, replayed: Indices, scaling: Scaling, seed: int
) -> BallMap:
    """The map in the plan's dimension; the half that values the policy is the public one."""
    if plan.layout.feature_norm < 1:
        raise ValueError(f"feature_norm must be at least 1, got {plan.layout.feature_norm}")
    arms, columns = len(log.table.classes), len(log.table.columns)
    least = 1 if scaling.bounds is None else columns
    name = f"{arms} arms and {columns} columns of contexts"
    kept = directions(name, plan.layout.dim, arms, least, columns, arms * (columns + 1))
    if scaling.bounds is None:
        return from_public(log.table.contexts[held], kept, "rows that are not replayed")
    return scaling.ball(log.table.contexts[replayed], seed)


def _rows(log: Log, indices: Indices, ball: BallMap) -> Rows:
    return Rows(
        ball(log.table.contexts[indices]),
        log.table.labels[indices],
        log.rewards[indices],
        log.propensities[indices],
    )


class Replay:
    """Runs a plan's policy along a log and learns from the rows on which both agree."""

    def __init__(self, plan: Plan, arms: int, rng: np.random.Generator) -> None:
        self._plan, self._arms, self._rng = plan, arms, rng
        self._collector = plan.mechanism.collector(rng)
        self._running = plan.mechanism.running_sum(rng)
        self._known = Learner(plan, self._running).known()
        self._model: Model = plan.policy.first_model
        self.batches = 0

    def choose(self, contexts: Floats) -> Indices:
        """The arms that the newest model plays."""
        parts = [contexts[start : start + _CHUNK] for start in range(0, len(contexts), _CHUNK)]
        return np.concatenate([self._arms_of(part) for part in parts])

    def _arms_of(self, contexts: Floats) -> Indices:
        features = self._plan.layout.score_features(in_blocks(contexts, self._arms))[None]
        chosen = self._plan.policy.sample(self._model, features, len(contexts), self._rng)
        return np.asarray(np.broadcast_to(chosen, (1, len(contexts)))[0])

    def play(self, rows: Rows) -> Floats:
        """The rewards of the rows that were accepted, in order."""
        open_rows = _thinned(rows, self._rng)
        earned: list[Floats] = []
        for span in self._plan.schedule.spans():
            found, open_rows = self._batch(open_rows, span.stop - span.start)
            earned.append(found.rewards)
            if found.rewards.size < span.stop - span.start or not span.complete:
                break
            self._learn(span.index, found)
        return np.concatenate(earned)

    def _batch(self, rows: Rows, users: int) -> tuple[Rows, Rows]:
        """The next ``users`` rows on which the model agrees with the log, and what comes after."""
        agreed: list[int] = []
        used = 0
        for start, part in _parts(rows):
            agreed += (start + np.flatnonzero(self._arms_of(part.contexts) == part.arms)).tolist()
            used = start + len(part.arms)
            if len(agreed) >= users:
                used = agreed[users - 1] + 1
                break
        return _cut(rows, np.array(agreed[:users], dtype=np.intp)), _cut(rows, slice(used, None))

    def _learn(self, index: int, rows: Rows) -> None:
        indices = np.arange(rows.arms.size)
        features = in_blocks(rows.contexts, self._arms)[indices, rows.arms]
        checked_constant(self._plan.layout, features)
        layout = self._plan.layout
        given = layout.encode(layout.score_features(features), rows.rewards)
        released = self._collector.add(index, given[None])[:, None]
        known = self._known.add(self._running.part(index, released), index + 1)
        fresh = self._plan.policy.model(known)
        if self._plan.publication.due(self._model, fresh).all():
            self._model = fresh
        self.batches = index + 1


def _thinned(rows: Rows, rng: np.random.Generator) -> Rows:
    """Rows as of uniform play: each kept with the smallest propensity over its own."""
    kept = rng.random(rows.arms.size) < rows.propensities.min() / rows.propensities
    return _cut(rows, np.flatnonzero(kept))


def _parts(rows: Rows) -> Iterator[tuple[int, Rows]]:
    for start in range(0, rows.arms.size, _CHUNK):
        yield start, _cut(rows, slice(start, start + _CHUNK))


def _cut(rows: Rows, those: NDArray[np.intp] | slice) -> Rows:
    return Rows(*(getattr(rows, name)[those] for name in Rows.__dataclass_fields__))
