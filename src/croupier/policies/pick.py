"""The arm that scores choose, where close scores are ties."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from croupier.policies.base import Choice, Floats

TIE = 1e-9
"""Scores this close to the best, relative to it, are ties; rounding decides no choice."""


def pick(scores: Floats, widths: Floats, mask: NDArray[np.bool_] | None) -> Choice:
    """The lowest index among the best available arms; see ``TIE``."""
    if np.isnan(scores).any():
        raise ValueError("features must be finite, got a score that is not a number")
    if mask is not None:
        if not np.all(np.any(mask, axis=-1)):
            raise ValueError("mask must leave an arm, got one without any")
        scores = np.where(mask, scores, -np.inf)
    best = np.max(scores, axis=-1, keepdims=True)
    arm = np.argmax(scores >= best - TIE * np.abs(best), axis=-1)
    return Choice(arm, scores, widths)
