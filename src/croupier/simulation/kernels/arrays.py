"""What kernels read and write: arrays in named bundles, one trial each."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]
Mask = NDArray[np.bool_]

OPTIMIST, SAMPLER, WIDENER, THOMPSON = 0, 1, 2, 3
"""The policies ``ucb``, ``sampling``, ``randucb`` and ``thompson``."""

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

    Each completes a released sum, of ``users`` users; ``noise (batches, size)`` is that of the sum,
    without rows where there is none, and ``variances`` what it varies by. ``codes (batches, levels,
    5)`` say how contributions are rounded for each of the ``sums`` that a batch is in, ``closing``
    of which it completes: the last of these is the released one. ``regularizers`` and ``scales``
    are those of models.
    """

    stops: Whole
    sizes: Whole
    users: Whole
    noise: Floats
    variances: Floats
    codes: Floats
    sums: Whole
    closing: Whole
    regularizers: Floats
    scales: Floats


class Coding(NamedTuple):
    """The layout of contributions; ``rounded`` where they are rounded to a grid at random.

    ``factors (scored,)`` are those on features before products are made of them, and ``rows`` and
    ``columns (size - summed,)`` say of which two each entry of the matrix is. ``shrink`` undoes
    what was done to each coordinate of the moments; ``known`` is what every user adds to the entry
    of the matrix that is not sent, 0 where all are. ``offset`` stands after the features, 0 where
    none does. ``correlated`` sums are of all users so far.
    """

    centre: float
    offset: float
    known: float
    factors: Floats
    rows: Whole
    columns: Whole
    stretch: Floats
    shrink: Floats
    low: Floats
    high: Floats
    rounded: bool
    correlated: bool


class Prior(NamedTuple):
    """What policies with a posterior start from, and how moments are measured.

    Where there are ``blocks``, all are alike. ``features`` of a block may drift; models have the
    first ``told`` numbers of its mean.
    """

    units: Floats
    matrix_noise: float
    drift: float
    features: int
    told: int
    blocks: int


class PosteriorRoom(NamedTuple):
    """What is known before the open sum of each level, and room for an update of one block.

    ``precisions (levels, blocks, p, p)`` and ``linears (levels, blocks, p)``; ``old_precision`` and
    ``old_linear`` are those that an update starts from, blurred by drift, and ``gram`` and
    ``vector`` the block's moments.
    """

    precisions: Floats
    linears: Floats
    gram: Floats
    vector: Floats
    old_precision: Floats
    old_linear: Floats
    precision: Floats
    linear: Floats
    covariance: Floats
    mean: Floats
    design: Floats
    noise: Floats
    gain: Floats
    room: Floats
    axes: Floats
    spare: Floats


class TrialState(NamedTuple):
    """The state of a trial, and room to work in.

    ``part (size,)`` adds up contributions. Where they are rounded, ``steps (levels, size)`` are
    those of open sums in steps of their grids, and ``code (size,)`` the contribution of a user
    above its range's end. ``totals (levels, size)`` are all sums before the open ones, ``total``
    those with the last. ``entries`` are the features that were played, and the offset.
    ``matrix`` is the model's, or its root for ``sampling``; ``half`` its half. What devices have
    of the model is in the arrays that are ``shown``, the same ones where every model is published.
    """

    part: Floats
    total: Floats
    code: Floats
    steps: Floats
    totals: Floats
    entries: Floats
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


class Shape(NamedTuple):
    """The sizes of a trial's arrays."""

    scored: int
    summed: int
    size: int
    arms: int
    levels: int


def empty_state(shape: Shape, *, every: bool) -> TrialState:
    """An empty one; ``every`` model of it is published."""
    dim, summed = shape.scored, shape.summed
    vectors = {name: np.zeros(dim) for name in ("theta", "weights", "strayed")}
    moments = {name: np.zeros(summed) for name in ("entries", "vector")}
    squares = {name: np.zeros((dim, dim)) for name in ("values", "axes", "matrix", "half")}
    shown = {
        f"shown_{name}": rows if every else rows.copy()
        for name, rows in {**vectors, **squares}.items()
        if name in ("theta", "matrix", "half")
    }
    sums = {name: np.zeros(shape.size) for name in ("part", "total", "code")}
    nodes = {name: np.zeros((shape.levels, shape.size)) for name in ("steps", "totals")}
    rows = {name: np.zeros(shape.arms) for name in ("scores", "spare")}
    numbers, counts = np.zeros(5), np.array([0, 0, 0, 0, -1, EVERY, 0], dtype=np.int64)
    return TrialState(
        **vectors, **moments, **squares, **shown, **sums, **nodes, **rows,
        gram=np.zeros((summed, summed)), numbers=numbers, counts=counts,
    )  # fmt: skip


def posterior_room(levels: int, precisions: Floats) -> PosteriorRoom:
    """The same prior ``(blocks, p, p)`` before the sums of every level."""
    blocks, p, _ = precisions.shape
    squares = (
        "gram", "old_precision", "precision", "covariance", "design", "noise", "gain", "room",
        "axes",
    )  # fmt: skip
    vectors = ("vector", "old_linear", "linear", "mean", "spare")
    return PosteriorRoom(
        precisions=np.tile(precisions, (levels, 1, 1, 1)),
        linears=np.zeros((levels, blocks, p)),
        **{name: np.zeros((p, p)) for name in squares},
        **{name: np.zeros(p) for name in vectors},
    )


def ready(rows: Any) -> Floats:
    """The same as floats next to each other, which kernels were compiled for."""
    return np.require(rows, np.float64, ["C", "W"])
