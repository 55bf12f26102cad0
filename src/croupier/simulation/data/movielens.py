"""``movielens``: 20 films that the user really rated, of which to show one that will be liked."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from croupier.plan import Plan
from croupier.simulation.data import sources
from croupier.simulation.data.base import (
    DataProblem,
    DataWorld,
    Floats,
    Indices,
    refused_dim,
    split_in_half,
)
from croupier.simulation.data.maps import CONSTANT, BallMap, from_public
from croupier.simulation.data.sources import Ratings
from croupier.simulation.problem import BLOCK, Users, arms_innermost

OFFERED, DIM, LIKED = 20, 5, 4
_CHOICE = 4
_PRIOR = 5.0
"""Ratings of an average film that are added to every film's own, as few have many."""


@dataclass(frozen=True, eq=False)
class Audience:
    """Who plays: ``rated (people, most)`` films, of which ``counts (people,)`` are filled.

    ``likes (people, most)`` is 1 where the film got 4 stars or more; ``films (films, dim)`` are
    the features.
    """

    rated: Indices
    likes: Floats
    counts: Indices
    films: Floats
    map: BallMap


@dataclass(frozen=True)
class MovieLens(DataProblem):
    """MovieLens-100k: 943 users, half of them public; reward 1 for at least 4 stars.

    A film's features are what the public half thought of it: share of likes, mean above the
    rater's own mean, share of 5 stars, logarithm of the number of ratings; the last is constant.
    """

    dim: int = DIM
    arms: int = OFFERED
    split: int = 0
    name: ClassVar[str] = "movielens"
    usual_arms: ClassVar[int] = OFFERED

    def __post_init__(self) -> None:
        """Everybody rated at least 20 films."""
        super().__post_init__()
        if self.arms > OFFERED:
            raise ValueError(f"arms must be at most {OFFERED} for 'movielens', got {self.arms}")

    @classmethod
    def constant_of(cls, dim: int) -> tuple[int, float] | None:
        """The last one."""
        return dim - 1, CONSTANT

    @classmethod
    def for_plan(cls, plan: Plan, arms: int) -> Self:
        """The one dimension it has."""
        return cls(arms=arms).fitted(plan)

    def fitted(self, plan: Plan) -> Self:
        """The plan must have dimension 5."""
        if plan.layout.dim != self.dim:
            raise refused_dim("'movielens'", str(self.dim), plan.layout.dim, self.dim)
        return self

    @property
    def audience(self) -> Audience:
        """The half that is not public."""
        return _audience(self.split)

    @property
    def uniform_reward(self) -> float:
        """The mean share of likes, every user counted once."""
        seen = self.audience
        return float((seen.likes.sum(axis=1) / seen.counts).mean())

    @property
    def best_reward(self) -> float:
        """How often at least one of the films on offer is liked."""
        seen = self.audience
        likes = seen.likes.sum(axis=1).astype(np.intp)
        pairs = zip(seen.counts.tolist(), likes.tolist(), strict=True)
        return float(np.mean([1 - _none_liked(rated, liked, self.arms) for rated, liked in pairs]))

    @property
    def constant_reward(self) -> None:
        """Another 20 films every time: there is no single arm."""
        return

    @property
    def players(self) -> int:
        """People who play."""
        return len(self.audience.counts)

    @property
    def scaling(self) -> str:
        """What the map says of itself."""
        return self.audience.map.words

    def world(self, seed: int, trials: range) -> CinemaWorld:
        """The same users in another order and with other offers in every trial."""
        return CinemaWorld(self, seed, trials)


def _none_liked(rated: int, liked: int, offered: int) -> float:
    return math.comb(rated - liked, offered) / math.comb(rated, offered)


class CinemaWorld(DataWorld):
    """Users who are offered films that they rated."""

    def __init__(self, problem: MovieLens, seed: int, trials: range) -> None:
        super().__init__(problem, seed, trials)
        self._offered = problem.arms
        self._audience = problem.audience

    def draw(self, index: int) -> Users:
        """The users whose turn it is, each with films of their own."""
        seen = self._audience
        who = self.visitors(index, len(seen.counts))
        pairs = zip(self._trials, who, strict=True)
        offers = np.array([self._offers(trial, people, index) for trial, people in pairs])
        offered = who[..., None], offers
        features = arms_innermost(seen.films[seen.rated[offered]])
        return Users(features, seen.likes[offered], self.uniforms(index))

    def _offers(self, trial: int, who: Indices, index: int) -> Indices:
        draws = self.generator(trial, _CHOICE, index).random((self._offered, BLOCK))
        return subsets(self._audience.counts[who], draws)


def subsets(counts: Indices, draws: Floats) -> Indices:
    """Uniform subsets ``(rows, chosen)`` of ``range(counts[row])`` from ``draws (chosen, rows)``.

    Floyd's way: a place that was taken before gives way to the last one that is allowed now.
    """
    chosen = np.full((counts.size, len(draws)), -1, dtype=np.intp)
    for step, draw in enumerate(draws):
        last = counts - len(draws) + step
        place = (draw * (last + 1)).astype(np.intp)
        taken = (chosen == place[:, None]).any(axis=1)
        chosen[:, step] = np.where(taken, last, place)
    return chosen


@cache
def _audience(split: int) -> Audience:
    ratings = sources.ratings()
    public, playing = split_in_half(int(ratings.users.max()) + 1, split)
    known = np.isin(ratings.users, public)
    statistics = film_statistics(_of(ratings, known), int(ratings.films.max()) + 1)
    # Weighed by public ratings, so that films count as often as they are seen.
    whose = f"ratings of {public.size} users who never play"
    ball = from_public(statistics[ratings.films[known]], DIM - 1, whose)
    return _seats(_of(ratings, ~known), playing, ball, ball(statistics))


def _of(ratings: Ratings, those: NDArray[np.bool_]) -> Ratings:
    return Ratings(ratings.users[those], ratings.films[those], ratings.stars[those])


def film_statistics(ratings: Ratings, films: int) -> Floats:
    """Likes, mean above the rater's mean, 5 stars, log of ratings: ``(films, 4)``, shrunk."""
    liked, best = ratings.stars >= LIKED, ratings.stars == 5
    given = np.bincount(ratings.users)
    own = np.bincount(ratings.users, ratings.stars) / np.maximum(given, 1)
    above = ratings.stars - own[ratings.users]
    count = np.bincount(ratings.films, minlength=films)
    columns = [_shrunk(ratings.films, values, count) for values in (liked, above, best)]
    return np.stack([*columns, np.log1p(count)], axis=1)


def _shrunk(films: Indices, values: NDArray[np.generic], count: Indices) -> Floats:
    """Means by film, drawn to the mean of all."""
    numbers = values.astype(np.float64)
    total = np.bincount(films, numbers, minlength=len(count))
    return np.asarray((total + _PRIOR * numbers.mean()) / (count + _PRIOR))


def _seats(ratings: Ratings, playing: Indices, ball: BallMap, films: Floats) -> Audience:
    """Every player's ratings in a row of their own."""
    order = np.argsort(ratings.users, kind="stable")
    row = np.searchsorted(playing, ratings.users[order])
    counts = np.bincount(row, minlength=len(playing))
    column = np.arange(order.size) - np.repeat(np.cumsum(counts) - counts, counts)
    rated = np.zeros((len(playing), int(counts.max())), dtype=np.intp)
    likes = np.zeros(rated.shape)
    rated[row, column] = ratings.films[order]
    likes[row, column] = ratings.stars[order] >= LIKED
    return Audience(rated, likes, counts, films, ball)
