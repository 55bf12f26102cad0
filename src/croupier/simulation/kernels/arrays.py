"""What kernels read and write: arrays in named bundles, one trial each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Mask = NDArray[np.bool_]

OPTIMIST, SAMPLER, WIDENER = 0, 1, 2
"""The policies ``ucb``, ``sampling`` and ``randucb``."""

EVERY, RARE, DETERMINANT = 0, 1, 2
"""The publication rules."""

SCALE, REGRET, WEIGHT, GROWTH, VOLUME = 0, 1, 2, 3, 4
"""Places in ``TrialState.numbers``: the model's scale, regret so far, the regulariser of
``matrix``, how much more must be known before a model is replaced, the log-determinant of the
published."""

OPEN_BATCH, POINT, REPAIRS, STALE, KNOWN, RULE, PUBLISHED = 0, 1, 2, 3, 4, 5, 6
"""Places in ``TrialState.counts``: the open batch, the next checkpoint, eigenvalues raised,
rank-one updates since the inverse was computed afresh, the arm that everybody plays or -1, the
publication rule, models that followed the first one."""

GRID, USERS, FLIPPED, KEPT, MOST = 0, 1, 2, 3, 4
"""Places in the last axis of ``BatchInputs.codes``, the fields of a ``Rounding``."""


class UserBlock(NamedTuple):
    """Users of consecutive rounds, whose arm sets come in turn from the set ``first`` on.

    ``features (sets, dim, arms)``, ``means (sets, arms)``, ``best (sets,)`` of them that are
    available, ``uniforms (rounds,)``; ``available (sets, arms)`` has no rows where all arms are.
    ``common`` says that there is one set for all rounds of the trial. ``given`` are the arms of
    the first rounds, where a policy plays at random; the rows of ``draws`` belong to the rounds
    after them, those of ``roundings (rows, size)`` to all, one for each sum that a user is in.
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


class BatchInputs(NamedTuple):
    """The next batches: the round that ends each, its users, and what its model is made with.

    ``noise (batches, size)`` is that of the whole prefix, without rows where there is none;
    ``hidden`` is its variance as the posterior counts it. ``codes (batches, levels, 5)`` say how
    contributions are rounded for each of the ``sums`` that a batch is in, ``closing`` of which
    it completes. The last of these replaces those of lower levels in the prefix.
    """

    stops: Whole
    sizes: Whole
    noise: Floats
    hidden: Floats
    codes: Floats
    sums: Whole
    closing: Whole
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


class TrialState(NamedTuple):
    """The state of a trial, and room to work in.

    ``total (size,)`` adds up contributions. Where they are rounded, ``steps (levels, size)`` are
    those of open sums in steps of their grids, ``closed (levels, size)`` the closed sums that the
    total is made of, and ``code (size,)`` the contribution of a user above its range's end.
    ``matrix`` is the model's, or its root for ``sampling``; ``half`` its half. What devices have
    of the model is in the arrays that are ``shown``, the same ones where every model is published.
    """

    total: Floats
    code: Floats
    steps: Floats
    closed: Floats
    played: Floats
    vector: Floats
    gram: Floats
    theta: Floats
    matrix: Floats
    half: Floats
    shown_theta: Floats
    shown_matrix: Floats
    shown_half: Floats
    values: Floats
    axes: Floats
    weights: Floats
    strayed: Floats
    scores: Floats
    spare: Floats
    numbers: Floats
    counts: Whole


class RegretRecord(NamedTuple):
    """Regret ``curve (points,)`` after the rounds ``(points,)``, filled in as they are reached."""

    rounds: Whole
    curve: Floats


def empty_state(dim: int, arms: int, size: int, levels: int, *, every: bool) -> TrialState:
    """An empty one; ``every`` model of it is published."""
    vectors = {name: np.zeros(dim) for name in ("played", "vector", "weights", "strayed")}
    squares = {name: np.zeros((dim, dim)) for name in ("gram", "values", "axes")}
    model = {"theta": np.zeros(dim), "matrix": np.zeros((dim, dim)), "half": np.zeros((dim, dim))}
    shown = {f"shown_{name}": rows if every else rows.copy() for name, rows in model.items()}
    sums = {name: np.zeros(size) for name in ("total", "code")}
    nodes = {name: np.zeros((levels, size)) for name in ("steps", "closed")}
    rows = {name: np.zeros(arms) for name in ("scores", "spare")}
    numbers, counts = np.zeros(5), np.array([0, 0, 0, 0, -1, EVERY, 0], dtype=np.int64)
    return TrialState(
        **vectors, **squares, **model, **shown, **sums, **nodes, **rows, numbers=numbers,
        counts=counts,
    )  # fmt: skip


def ready(rows: Any) -> Floats:
    """The same as floats next to each other, which kernels were compiled for."""
    return np.require(rows, np.float64, ["C", "W"])
