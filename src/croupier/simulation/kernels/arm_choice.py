"""Arms of many trials and rounds whose models are given."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from croupier.simulation.kernels.arrays import Floats, Mask
from croupier.simulation.kernels.compilation import allocating
from croupier.simulation.kernels.scoring import first_best, score, withhold


@allocating
def choose_all(
    kind: int,
    features: Floats,
    theta: Floats,
    matrix: Floats,
    scale: Floats,
    draws: Floats,
    available: Mask,
    chosen: NDArray[np.intp],
) -> None:
    """Fill ``chosen (trials, rounds)``; an axis of length 1 elsewhere stands for all rounds.

    ``matrix`` is the root of the covariance for ``sampling`` and the symmetric half otherwise.
    """
    trials, rounds = chosen.shape
    _, sets, dim, arms = features.shape
    scores, spare, strayed = np.empty(arms), np.empty(arms), np.empty(dim)
    offered = available.shape[1]
    for trial in range(trials):
        for index in range(rounds):
            x = features[trial, index if sets > 1 else 0]
            draw = draws[trial, index if draws.shape[1] > 1 else 0]
            own = matrix[trial]
            score(kind, x, draw, scale[trial], theta[trial], own, own, strayed, scores, spare)
            if offered > 0:
                withhold(scores, available[trial, index if offered > 1 else 0])
            chosen[trial, index] = first_best(scores)
