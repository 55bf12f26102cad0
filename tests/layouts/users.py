"""Users of a layout: random ones, those that are told apart best, and how apps describe them."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from croupier.layouts import Layout, LightOffset, PapersLayout

Floats = NDArray[np.float64]

PLAIN = LightOffset(3)
DECLARED = LightOffset(4, constant=(2, 0.5))
LAYOUTS = [
    PLAIN,
    DECLARED,
    LightOffset(1),
    LightOffset(2, feature_norm=64.0, constant=(0, -40.0)),
    PapersLayout(3),
    PapersLayout(1),
    PapersLayout(3, feature_norm=math.sqrt(2), constant=(0, 0.5)),
]


def ball(rng: np.random.Generator, count: int, dim: int) -> Floats:
    """Random points of the unit ball, half of them on its surface."""
    points = rng.standard_normal((count, dim))
    points /= np.linalg.norm(points, axis=1, keepdims=True)
    points[: count // 2] *= rng.random((count // 2, 1))
    return points


def told(layout: Layout, scored: Floats) -> Floats:
    """Features ``(..., dim)`` of an app, from what a model scores of them."""
    if isinstance(layout, PapersLayout):
        return scored
    features = layout.feature_norm * scored
    if layout.constant is None:
        return features
    index, value = layout.constant
    return np.insert(features, index, value, axis=-1)


def worst_pair(layout: Layout) -> Floats:
    """Scored features ``(2, scored)`` of two users whose swap moves a contribution most."""
    cos = layout.worst_cosine
    pair = np.zeros((2, layout.scored))
    pair[0, 0] = 1.0
    pair[1, : min(layout.scored, 2)] = [cos, math.sqrt(1 - cos**2)][: layout.scored]
    return layout.norm * pair


def rotated(rng: np.random.Generator, vectors: Floats) -> Floats:
    """The vectors turned by a random rotation."""
    turn, _ = np.linalg.qr(rng.standard_normal((vectors.shape[1], vectors.shape[1])))
    return np.asarray(vectors @ turn)
