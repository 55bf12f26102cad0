"""One trial through the kernels: users and noise are drawn ahead in pieces, then played at once.

What is drawn, and in which order, is what :class:`croupier.simulation.engine.Run` draws for the
same trial alone, which makes that class the oracle of the kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from croupier.contribution import checked_constant
from croupier.plan import Plan
from croupier.policies.base import uniform_arms
from croupier.simulation.kernels.arrays import (
    OPEN_BATCH,
    OPTIMIST,
    PUBLISHED,
    REPAIRS,
    Floats,
    Mask,
    RegretRecord,
    Shape,
    TrialState,
    UserBlock,
    Whole,
    ready,
)
from croupier.simulation.kernels.batches_ahead import AT_ONCE, BatchesAhead
from croupier.simulation.kernels.first_state import coding, first_posterior, first_state
from croupier.simulation.kernels.support import KINDS, draws_of
from croupier.simulation.problem import BLOCK, Users, World

NO_ARMS = np.zeros(0, dtype=np.int64)


class Trial:
    """One pass over the horizon of one trial."""

    def __init__(self, plan: Plan, world: World, noise: np.random.Generator) -> None:
        self._plan = plan
        self._world = world
        self._draws, released, server = noise.spawn(3)
        self._roundings = released.spawn(1)[0]
        self._ahead = BatchesAhead(plan, released, server)
        self._kind = KINDS[type(plan.policy)]
        self._coding = coding(plan)
        self._prior, self._room = first_posterior(plan, self._shape(1))
        self._pool = self._prebuilt()
        self._state: TrialState | None = None
        self._batches = self._ahead.draw()

    @property
    def repairs(self) -> int:
        """Eigenvalues raised."""
        return self._counted(REPAIRS)

    @property
    def publications(self) -> int:
        """Models that followed the first one."""
        return self._counted(PUBLISHED)

    def _counted(self, place: int) -> int:
        return 0 if self._state is None else int(self._state.counts[place])

    def play(self, rounds: Whole, chosen: Whole = NO_ARMS) -> Floats:
        """Regret after the given rounds; ``chosen (horizon,)`` takes the arms if it is given."""
        from croupier.simulation.kernels.trial_loop import play

        track = RegretRecord(rounds, np.empty(rounds.size))
        start, horizon = 0, self._plan.schedule.rounds
        while start < horizon:
            stop = self._stop(start, horizon)
            block = self._block(start, stop)
            state = self._state_for(block)
            arms = chosen[start:stop]
            play(
                self._kind, start, block, self._batches, self._coding, self._prior, state,
                self._room, track, arms,
            )  # fmt: skip
            start = stop
        return track.curve

    def _stop(self, start: int, horizon: int) -> int:
        """As far as one call can go; draws what is needed of the next batches."""
        if start >= self._batches.stops[-1] and not self._ahead.over:
            self._batches = self._ahead.draw()
            if self._state is not None:
                self._state.counts[OPEN_BATCH] = 0
        length = BLOCK if self._pool is None else AT_ONCE
        stop = min(horizon, (start // length + 1) * length)
        if start >= self._batches.stops[-1]:
            return stop
        if self._waits:
            return min(stop, int(self._batches.stops[self._counted(OPEN_BATCH)]))
        return stop if self._ahead.over else min(stop, self._batches.stops[-1])

    @property
    def _waits(self) -> bool:
        """Whether arms are played at random until a model is published, nobody knows when."""
        random, every = self._kind != OPTIMIST, self._plan.publication.name == "every"
        return random and not every and self.publications == 0

    def _state_for(self, block: UserBlock) -> TrialState:
        """The state, made with the first users; all of them have as many arms."""
        if self._state is None:
            self._state = first_state(self._plan, self._shape(block.features.shape[-1]))
        return self._state

    def _shape(self, arms: int) -> Shape:
        layout = self._plan.layout
        return Shape(layout.scored, layout.summed, layout.size, arms, self._ahead.levels)

    # Users

    def _prebuilt(self) -> tuple[Floats, Floats, Floats] | None:
        pool = self._world.pool()
        if pool is None:
            return None
        features, means = pool
        return self._offered(features), ready(means[0]), ready(means[0].max(axis=-1))

    def _block(self, start: int, stop: int) -> UserBlock:
        if self._pool is None:
            return self._fresh(self._world.users(start, stop), start)
        features, means, best = self._pool
        luck = ready(self._world.luck(start, stop)[0])
        drawn = self._drawn(start, luck.size, len(means[0]), None)
        none = np.zeros((0, len(means[0])), dtype=np.bool_)
        first, common = start % len(features), len(features) == 1
        return UserBlock(common, first, features, means, best, luck, none, *drawn)

    def _fresh(self, users: Users, start: int) -> UserBlock:
        """Users whose arm sets were drawn for these rounds."""
        rounds, arms = users.uniforms.shape[1], users.means.shape[-1]
        features, means, best = self._offered(users.features), users.means[0], users.best[0]
        offered = None if users.available is None else users.available[0]
        drawn = self._drawn(start, rounds, arms, offered)
        if offered is None:
            given = np.zeros((0, arms), dtype=np.bool_)
        else:
            sets = max(len(features), len(offered))
            features, means, best = (_repeated(rows, sets) for rows in (features, means, best))
            given = _repeated(offered, sets)
        luck = ready(users.uniforms[0])
        return UserBlock(False, 0, features, ready(means), ready(best), luck, given, *drawn)

    def _offered(self, features: Floats) -> Floats:
        """Features ``(trials, sets, arms, dim)`` as they enter, ``(sets, dim, arms)``."""
        layout = self._plan.layout
        return _columns(layout.score_features(checked_constant(layout, features)))

    def _drawn(
        self, start: int, rounds: int, arms: int, offered: Mask | None
    ) -> tuple[Whole, Floats, Floats]:
        """Arms played at random, the policy's draws for the rounds after them, and roundings."""
        size = self._plan.layout.size
        first = self._at_random(start, rounds)
        mask = None if offered is None else offered[: first if len(offered) > 1 else 1]
        given = uniform_arms((first,), arms, self._draws, mask) if first else NO_ARMS
        width = draws_of(self._kind, self._plan.layout.scored)
        shape = (rounds - first, width) if width else (1, 1)
        draws = self._draws.standard_normal(shape) if width else np.zeros(shape)
        return given, draws, self._roundings.random((self._rows(start, rounds), size))

    def _rows(self, start: int, rounds: int) -> int:
        """Sums that the users of these rounds are in."""
        stops, sums = self._batches.stops, self._batches.sums
        if sums.min() == sums.max():
            return rounds * int(sums[0])
        batches = np.searchsorted(stops, np.arange(start, start + rounds), side="right")
        return int(sums[np.minimum(batches, stops.size - 1)].sum())

    def _at_random(self, start: int, rounds: int) -> int:
        """Rounds before the first model; ``ucb`` has one from the start."""
        if self._kind == OPTIMIST:
            return 0
        if self._plan.publication.name != "every":
            return rounds if self._waits else 0
        return int(np.clip(self._ahead.batches.stops(0, 1)[0] - start, 0, rounds))


def _columns(features: Floats) -> Floats:
    """Features ``(1, sets, arms, dim)`` of one trial as kernels read them."""
    return ready(np.swapaxes(features[0], -1, -2))


def _repeated(rows: Any, sets: int) -> Any:
    """One row for every arm set."""
    return np.require(np.broadcast_to(rows, (sets, *rows.shape[1:])), requirements=["C", "W"])
