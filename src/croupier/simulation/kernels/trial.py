"""One trial through the kernels: users and noise are drawn ahead in pieces, then played at once.

What is drawn, and in which order, is what :class:`croupier.simulation.engine.Run` draws for the
same trial alone, which makes that class the oracle of the kernels.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from croupier.contribution import checked_constant
from croupier.plan import Plan
from croupier.policies.base import Policy, uniform_arms
from croupier.policies.randucb import RandUcb
from croupier.policies.sampling import Sampling
from croupier.policies.ucb import Ucb
from croupier.protocols.base import FreshNoise, Mechanism, Release, RunningSum
from croupier.simulation.kernels.tables import (
    KNOWN,
    LESSON,
    OPTIMIST,
    REGRET,
    REPAIRS,
    SAMPLER,
    SCALE,
    WEIGHT,
    WIDENER,
    Coding,
    Crowd,
    Floats,
    Lessons,
    Mask,
    Memory,
    Track,
    Whole,
    memory,
)
from croupier.simulation.problems import BLOCK, Users, World
from croupier.theory.schedules import Schedule

KINDS: dict[type[Policy], int] = {Ucb: OPTIMIST, Sampling: SAMPLER, RandUcb: WIDENER}

AT_ONCE = 16 * BLOCK
"""Rounds that are played in one call where arm sets are prebuilt, and batches drawn ahead."""

NUMBERS_AHEAD = 2**18
"""Numbers of noise that are drawn ahead."""

NO_ARMS = np.zeros(0, dtype=np.int64)


def fits(plan: Plan) -> bool:
    """Whether kernels can play the plan: its policy, its publication and how it adds noise."""
    if type(plan.policy) not in KINDS or plan.publication.name != "every":
        return False
    mechanism = plan.mechanism
    # A subclass that changes a law but not its shortcut must not be played by the shortcut.
    plain = type(mechanism).collector is Mechanism.collector
    running = type(mechanism.running_sum(np.random.default_rng(0)))
    releases = {type(release) for release in mechanism.releases}
    return (
        plain
        and _said_with(running, RunningSum, "ahead", "add")
        and all(_said_with(kind, Release, "noise_ahead", "sample_sum") for kind in releases)
    )


def _said_with(kind: type, seam: type, shortcut: str, law: str) -> bool:
    """Whether the class that says a law says its shortcut too."""
    return vars(seam)[shortcut] is not getattr(kind, shortcut) and _author(
        kind, shortcut
    ) is _author(kind, law)


def _author(kind: type, name: str) -> type:
    return next(one for one in kind.__mro__ if name in vars(one))


class Batches:
    """The complete batches of a schedule, a few at a time."""

    def __init__(self, schedule: Schedule) -> None:
        self.count = schedule.batches
        self._sizes = np.array(schedule.sizes(), dtype=np.int64)
        self._stops = np.cumsum(self._sizes)

    def sizes(self, first: int, count: int) -> Whole:
        """Users of batches ``first`` to ``first + count``."""
        return self._sizes[np.minimum(np.arange(first, first + count), self._sizes.size - 1)]

    def stops(self, first: int, count: int) -> Whole:
        """Rounds after which these batches end."""
        places = np.arange(first, first + count)
        last = self._sizes.size - 1
        beyond = np.maximum(places - last, 0) * self._sizes[last]
        return np.asarray(self._stops[np.minimum(places, last)] + beyond)


class Trial:
    """One pass over the horizon of one trial."""

    def __init__(self, plan: Plan, world: World, noise: np.random.Generator) -> None:
        self._plan = plan
        self._world = world
        self._draws, self._noise, server = noise.spawn(3)
        self._roundings = self._noise.spawn(1)[0]
        self._running = plan.mechanism.running_sum(server)
        self._batches = Batches(plan.schedule)
        self._kind = KINDS[type(plan.policy)]
        self._coding = _coding(plan)
        stated = max(release.noise_std for release in plan.mechanism.releases)
        self._silent = type(self._running) is FreshNoise and stated == 0
        self._pool = self._prebuilt()
        self._memory: Memory | None = None
        self._next = 0
        self._lessons = self._ahead()

    @property
    def repairs(self) -> int:
        """Eigenvalues raised."""
        return 0 if self._memory is None else int(self._memory.counts[REPAIRS])

    @property
    def publications(self) -> int:
        """Models that followed the first one: one a batch."""
        return self._batches.count

    def play(self, rounds: Whole, chosen: Whole = NO_ARMS) -> Floats:
        """Regret after the given rounds; ``chosen (horizon,)`` takes the arms if it is given."""
        from croupier.simulation.kernels.playing import play

        track = Track(rounds, np.empty(rounds.size))
        start, horizon = 0, self._plan.schedule.rounds
        while start < horizon:
            stop = self._stop(start, horizon)
            crowd = self._crowd(start, stop)
            kept = self._remembered(crowd)
            arms = chosen[start:stop]
            play(self._kind, start, crowd, self._lessons, self._coding, kept, track, arms)
            start = stop
        return track.curve

    def _stop(self, start: int, horizon: int) -> int:
        """As far as one call can go; draws what is needed of the next batches."""
        if start >= self._lessons.stops[-1] and self._next < self._batches.count:
            self._lessons = self._ahead()
            if self._memory is not None:
                self._memory.counts[LESSON] = 0
        length = BLOCK if self._pool is None else AT_ONCE
        stop = min(horizon, (start // length + 1) * length)
        return stop if self._next == self._batches.count else min(stop, self._lessons.stops[-1])

    def _remembered(self, crowd: Crowd) -> Memory:
        """The state, made with the first users; all of them have as many arms."""
        if self._memory is None:
            self._memory = _first(self._plan, crowd.features.shape[-1])
        return self._memory

    # Users

    def _prebuilt(self) -> tuple[Floats, Floats, Floats] | None:
        pool = self._world.pool()
        if pool is None:
            return None
        features, means = pool
        checked_constant(self._plan.layout, features)
        return _columns(features), _ready(means[0]), _ready(means[0].max(axis=-1))

    def _crowd(self, start: int, stop: int) -> Crowd:
        if self._pool is None:
            return self._fresh(self._world.users(start, stop), start)
        features, means, best = self._pool
        luck = _ready(self._world.luck(start, stop)[0])
        drawn = self._drawn(start, luck.size, len(means[0]), None)
        none = np.zeros((0, len(means[0])), dtype=np.bool_)
        first, common = start % len(features), len(features) == 1
        return Crowd(common, first, features, means, best, luck, none, *drawn)

    def _fresh(self, users: Users, start: int) -> Crowd:
        """Users whose arm sets were drawn for these rounds."""
        checked_constant(self._plan.layout, users.features)
        rounds, arms = users.uniforms.shape[1], users.means.shape[-1]
        features, means, best = _columns(users.features), users.means[0], users.best[0]
        offered = None if users.available is None else users.available[0]
        drawn = self._drawn(start, rounds, arms, offered)
        if offered is None:
            given = np.zeros((0, arms), dtype=np.bool_)
        else:
            sets = max(len(features), len(offered))
            features, means, best = (_repeated(rows, sets) for rows in (features, means, best))
            given = _repeated(offered, sets)
        luck = _ready(users.uniforms[0])
        return Crowd(False, 0, features, _ready(means), _ready(best), luck, given, *drawn)

    def _drawn(
        self, start: int, rounds: int, arms: int, offered: Mask | None
    ) -> tuple[Whole, Floats, Floats]:
        """Arms played at random, the policy's draws for the rounds after them, and roundings."""
        size = self._plan.layout.size
        first = self._at_random(start, rounds)
        mask = None if offered is None else offered[: first if len(offered) > 1 else 1]
        given = uniform_arms((first,), arms, self._draws, mask) if first else NO_ARMS
        width = {OPTIMIST: 0, SAMPLER: self._plan.layout.dim, WIDENER: 1}[self._kind]
        shape = (rounds - first, width) if width else (1, 1)
        draws = self._draws.standard_normal(shape) if width else np.zeros(shape)
        rounded = self._coding.rounded
        return given, draws, self._roundings.random((rounds, size) if rounded else (0, size))

    def _at_random(self, start: int, rounds: int) -> int:
        """Rounds before the first model; ``ucb`` has one from the start."""
        if self._kind == OPTIMIST:
            return 0
        return int(np.clip(self._batches.stops(0, 1)[0] - start, 0, rounds))

    # Batches

    def _ahead(self) -> Lessons:
        """The next batches, and what their models are made with."""
        plan, first = self._plan, self._next
        most = max(1, NUMBERS_AHEAD // plan.layout.size)
        count = min(self._batches.count - first, AT_ONCE, most)
        self._next += count
        stops = self._batches.stops(first, count)
        noise, variances = self._noise_ahead(first, count)
        regularizers, scales = _numbers(plan, stops, variances)
        spread = 1 + plan.layout.matrix_noise_factor**2 / 2
        return Lessons(
            stops,
            self._batches.sizes(first, count),
            noise,
            variances * spread,
            self._grids(first, count),
            regularizers,
            scales,
        )

    def _noise_ahead(self, first: int, count: int) -> tuple[Floats, Floats]:
        mechanism = self._plan.mechanism
        if self._silent:
            return np.zeros((0, self._plan.layout.size)), np.zeros(count)
        if len(mechanism.releases) == 1:
            fresh: Any = mechanism.release(first).noise_ahead(count, self._noise)
        else:
            places = range(first, first + count)
            drawn: Any = [mechanism.release(i).noise_ahead(1, self._noise) for i in places]
            fresh = np.concatenate(drawn)
        ahead: Any = self._running.ahead(fresh)
        noise, variances = ahead
        return _ready(noise), _ready(variances)

    def _grids(self, first: int, count: int) -> Floats:
        if not self._coding.rounded:
            return np.zeros(count)
        releases = self._plan.mechanism.releases
        places = np.minimum(np.arange(first, first + count), len(releases) - 1)
        known = {int(place): releases[place].rounding for place in np.unique(places)}
        return np.array([known[place] for place in places.tolist()])


def _first(plan: Plan, arms: int) -> Memory:
    """The state before anything is learnt."""
    layout = plan.layout
    made = memory(layout.dim, arms, layout.size)
    if isinstance(plan.policy, Ucb):
        regularizer, scale = plan.policy.numbers(0, 0.0, layout.dim)
        made.matrix[:] = np.eye(layout.dim) / regularizer
        made.half[:] = made.matrix
        made.numbers[SCALE], made.numbers[WEIGHT] = scale, regularizer
    made.numbers[REGRET], made.counts[KNOWN] = 0.0, -1
    return made


def _numbers(plan: Plan, users: Whole, variances: Floats) -> tuple[Floats, Floats]:
    """Regularisers and scales of the models after as many users, with noise of these variances."""
    policy = plan.policy
    if isinstance(policy, Ucb):
        found = policy.numbers(users, variances, plan.layout.dim)
    else:
        found = 0.0, policy.spread if isinstance(policy, Sampling) else 1.0
    first, second = (
        np.array(np.broadcast_to(number, users.shape), dtype=float) for number in found
    )
    return first, second


def _coding(plan: Plan) -> Coding:
    layout = plan.layout
    rounded = plan.mechanism.releases[0].rounding is not None
    stretch, low, high = layout.stretch, layout.low, layout.high
    return Coding(layout.offset, stretch, 1 / stretch, low, high, rounded)


def _columns(features: Floats) -> Floats:
    """Features ``(1, sets, arms, dim)`` of one trial as kernels read them."""
    return _ready(np.swapaxes(features[0], -1, -2))


def _ready(rows: Any) -> Floats:
    """The same as floats next to each other, which kernels were compiled for."""
    return np.require(rows, np.float64, ["C", "W"])


def _repeated(rows: Any, sets: int) -> Any:
    """One row for every arm set."""
    return np.require(np.broadcast_to(rows, (sets, *rows.shape[1:])), requirements=["C", "W"])
