"""What kernels read and write: arrays in named bundles, one trial each."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Mask = NDArray[np.bool_]

OPTIMIST, SAMPLER, WIDENER = 0, 1, 2
"""The policies ``ucb``, ``sampling`` and ``randucb``."""

SCALE, REGRET, WEIGHT = 0, 1, 2
"""Places in ``Memory.numbers``: the model's scale, regret so far, the regulariser of ``matrix``."""

LESSON, POINT, REPAIRS, STALE, KNOWN = 0, 1, 2, 3, 4
"""Places in ``Memory.counts``: the open batch, the next checkpoint, eigenvalues raised, rank-one
updates since the inverse was computed afresh, the arm that everybody plays or -1."""


class Crowd(NamedTuple):
    """Users of consecutive rounds, whose arm sets come in turn from the set ``first`` on.

    ``features (sets, dim, arms)``, ``means (sets, arms)``, ``best (sets,)`` of them that are
    available, ``uniforms (rounds,)``; ``available (sets, arms)`` has no rows where all arms are.
    ``common`` says that there is one set for all rounds of the trial. ``given`` are the arms of
    the first rounds, where a policy plays at random; the rows of ``draws`` belong to the rounds
    after them, those of ``roundings`` to all.
    """

    common: bool
    first: int
    features: Floats
    means: Floats
    best: Floats
    uniforms: Floats
    available: Mask
    given: Whole
    draws: Floats
    roundings: Floats


class Lessons(NamedTuple):
    """The next batches: the round that ends each, its users, and what its model is made with.

    ``noise (batches, size)`` is that of the whole prefix, without rows where there is none;
    ``hidden`` is its variance as the posterior counts it; ``grids`` are steps per unit.
    """

    stops: Whole
    sizes: Whole
    noise: Floats
    hidden: Floats
    grids: Floats
    regularizers: Floats
    scales: Floats


class Coding(NamedTuple):
    """The layout of contributions; ``rounded`` where they are rounded to a grid at random.

    ``shrink`` undoes ``stretch``.
    """

    offset: float
    stretch: Floats
    shrink: Floats
    low: Floats
    high: Floats
    rounded: bool


class Memory(NamedTuple):
    """The state of a trial, and room to work in.

    ``total (size,)`` adds up contributions, ``steps (size,)`` those of an open batch in steps of
    its grid. ``matrix`` is the model's, or its root for ``sampling``; ``half`` its half.
    """

    total: Floats
    steps: Floats
    played: Floats
    vector: Floats
    gram: Floats
    theta: Floats
    matrix: Floats
    half: Floats
    values: Floats
    axes: Floats
    weights: Floats
    strayed: Floats
    scores: Floats
    spare: Floats
    numbers: Floats
    counts: Whole


class Track(NamedTuple):
    """Regret ``curve (points,)`` after the rounds ``(points,)``, filled in as they are reached."""

    rounds: Whole
    curve: Floats


def memory(dim: int, arms: int, size: int) -> Memory:
    """An empty one."""
    vectors = {name: np.zeros(dim) for name in ("played", "vector", "theta", "weights", "strayed")}
    squares = {name: np.zeros((dim, dim)) for name in ("gram", "matrix", "half", "values", "axes")}
    sums = {name: np.zeros(size) for name in ("total", "steps")}
    rows = {name: np.zeros(arms) for name in ("scores", "spare")}
    counts = np.array([0, 0, 0, 0, -1], dtype=np.int64)
    return Memory(**vectors, **squares, **sums, **rows, numbers=np.zeros(3), counts=counts)
