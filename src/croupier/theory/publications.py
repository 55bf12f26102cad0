"""How many models rare publication replaces at most (MATH 6.2)."""

from __future__ import annotations

import math

from croupier.arguments import finite, positive, whole


def most_publications(
    dim: int,
    horizon: int,
    noise_bound: float,
    growth: float,
    regularizer: float | None = None,
    feature_norm: float = 1.0,
) -> float:
    """d ln(1 + T/(d S)) / ln(C/3) for lambda = 2S, C the ``growth``; no run has more.

    On the event that no prefix's noise matrix has a norm above S = ``noise_bound``, with
    r = (lambda + S)/(lambda - S), the matrices W_t = G_t + (lambda - S) I satisfy
    W_t <= V_t <= r W_t and never shrink. A publication says that x'V_t x > C x'V_tau x for some
    x, so x'W_t x > (C/r) x'W_tau x for it, and det W grows by more than C/r. All growth together
    is at most (1 + T |phi|^2 / (d (lambda - S)))^d, which is the bound. At lambda = 2S the r is
    3, at lambda = kappa S it is (kappa + 1)/(kappa - 1). From 2S on no eigenvalue of V_t is below
    lambda/2, so that the event also excludes every repair.
    """
    lowest, highest = _between(noise_bound, regularizer)
    factor = finite("growth", growth) * lowest / highest
    if factor <= 1:
        raise ValueError(f"growth must be above {highest / lowest:g}, got {growth!r}")
    spread = whole("horizon", horizon, 1) * positive("feature_norm", feature_norm) ** 2
    learnt = math.log1p(spread / (whole("dim", dim, 1) * lowest))
    return dim * learnt / math.log(factor)


def _between(noise_bound: float, regularizer: float | None) -> tuple[float, float]:
    """lambda - S and lambda + S, the paper's lambda_min and lambda_max."""
    if regularizer is None:
        positive("noise_bound", noise_bound)
        return noise_bound, 3 * noise_bound
    if finite("noise_bound", noise_bound) < 0:
        raise ValueError(f"noise_bound must be at least 0, got {noise_bound!r}")
    if positive("regularizer", regularizer) < 2 * noise_bound:
        raise ValueError(
            f"regularizer must be at least twice the noise_bound {noise_bound:g}, "
            f"got {regularizer!r}"
        )
    return regularizer - noise_bound, regularizer + noise_bound
