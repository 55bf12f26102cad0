"""Laws of a protocol's noise: each gives p-values, one a coordinate and data set."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping

import numpy as np
from scipy.special import ndtr

from croupier.simulation.real_devices import fisher
from croupier.testing.report import Floats
from croupier.testing.subject import PREFIX, Subject

LEAST_TRIALS = 458
"""From here on p <= 2 exp(-n D^2) for two samples of n (Wei and Dudley 2012)."""


def _unbiased(subject: Subject) -> Floats:
    # Noise that is stated but happens not to show must not make an estimate look exact.
    spread = np.maximum(subject.real.std(axis=1), subject.privacy_noise_std)
    error = subject.real.mean(axis=1) - subject.truth
    return _two_sided(error, spread / math.sqrt(subject.trials), subject.tolerance)


def _noise_is_at_most_stated(subject: Subject) -> Floats:
    most = (subject.noise_std + subject.tolerance) ** 2
    return _one_sided(subject.real.var(axis=1) - most, _variance_spread(subject.real))


def _noise_is_at_least_private(subject: Subject) -> Floats:
    least = np.maximum(0.0, subject.privacy_noise_std - subject.tolerance) ** 2
    return _one_sided(least - subject.real.var(axis=1), _variance_spread(subject.real))


def _same_mean(subject: Subject) -> Floats:
    spread = np.hypot(subject.real.std(axis=1), subject.quick.std(axis=1))
    gap = subject.quick.mean(axis=1) - subject.real.mean(axis=1)
    return _two_sided(gap, spread / math.sqrt(subject.trials), subject.tolerance)


def _same_variance(subject: Subject) -> Floats:
    spread = np.hypot(_variance_spread(subject.real), _variance_spread(subject.quick))
    gap = subject.quick.var(axis=1) - subject.real.var(axis=1)
    return _two_sided(gap, spread, subject.tolerance**2)


def _same_distribution(subject: Subject) -> Floats:
    """Two-sample Kolmogorov-Smirnov; ties make it conservative."""
    pairs = zip(_columns(subject.real), _columns(subject.quick), strict=True)
    apart = np.array([_distance(real, quick, subject.tolerance) for real, quick in pairs])
    return np.asarray(np.minimum(1.0, 2 * np.exp(-subject.trials * apart**2)))


def _same_in_parts(subject: Subject) -> Floats:
    """Two-sample Kolmogorov-Smirnov of whole batches and batches taken in parts."""
    pairs = zip(_columns(subject.parts), _columns(subject.quick), strict=True)
    apart = np.array([_distance(parts, quick, subject.tolerance) for parts, quick in pairs])
    return np.asarray(np.minimum(1.0, 2 * np.exp(-subject.trials * apart**2)))


def _same_correlation(subject: Subject) -> Floats:
    """Fisher's z of every pair of coordinates."""
    pairs = zip(subject.real, subject.quick, strict=True)
    exact = subject.tolerance
    gaps = [fisher(quick, exact) - fisher(real, exact) for real, quick in pairs]
    return _two_sided(np.array(gaps), np.asarray(math.sqrt(2 / (subject.trials - 3))), 0.0)


def _prefix_is_unbiased(subject: Subject) -> Floats:
    errors, _ = subject.prefix
    spread = np.maximum(errors.std(axis=0), PREFIX * subject.tolerance)
    return _two_sided(errors.mean(axis=0), spread / math.sqrt(subject.trials), 0.0)


def _prefix_noise_is_at_most_stated(subject: Subject) -> Floats:
    errors, variance = subject.prefix
    most = variance + (PREFIX * subject.tolerance) ** 2
    return _one_sided(errors.var(axis=0) - most, _variance_spread(errors[None])[0])


LAWS: Mapping[str, Callable[[Subject], Floats]] = {
    "the analyzer is unbiased": _unbiased,
    "the noise is at most noise_std": _noise_is_at_most_stated,
    "the noise is at least privacy_noise_std": _noise_is_at_least_private,
    "sample_sum has the mean of the real path": _same_mean,
    "sample_sum has the variance of the real path": _same_variance,
    "sample_sum has the distribution of the real path": _same_distribution,
    "sample_sum has the correlations of the real path": _same_correlation,
    "partial and finish have the distribution of sample_sum": _same_in_parts,
    "running_sum adds up": _prefix_is_unbiased,
    "the noise of running_sum is at most the variance it states": _prefix_noise_is_at_most_stated,
}


def _two_sided(gap: Floats, spread: Floats, slack: float) -> Floats:
    """Chance of a gap this large if the true one is within ``slack``."""
    excess = np.maximum(np.abs(gap) - slack, 0.0)
    return 2 * _one_sided(excess, spread)


def _one_sided(excess: Floats, spread: Floats) -> Floats:
    return np.asarray(ndtr(-excess / np.maximum(spread, 1e-300)))


def _variance_spread(samples: Floats) -> Floats:
    """Standard error ``(sets, size)`` of sample variances; never less than for Gaussian data."""
    centred = samples - samples.mean(axis=1, keepdims=True)
    square = np.mean(centred**2, axis=1) ** 2
    fourth = np.mean(centred**4, axis=1)
    return np.asarray(np.sqrt(np.maximum(fourth - square, 2 * square) / samples.shape[1]))


def _columns(samples: Floats) -> Floats:
    """Samples ``(sets, trials, size)`` as one sorted row a set and coordinate."""
    return np.sort(np.moveaxis(samples, 1, 2).reshape(-1, samples.shape[1]), axis=1)


def _distance(first: Floats, second: Floats, slack: float) -> float:
    """Kolmogorov-Smirnov distance of sorted samples, values within ``slack`` taken as equal."""
    points = np.concatenate([first, second])

    def above(low: Floats, high: Floats) -> float:
        gap = np.searchsorted(low, points, "right") - np.searchsorted(high, points + slack, "right")
        return float(gap.max()) / low.size

    return max(above(first, second), above(second, first))
