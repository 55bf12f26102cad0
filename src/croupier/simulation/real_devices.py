"""Runs real devices, shuffler and analyzer for a while and compares them with the audited law.

An audit measures hundreds of thousands of runs through shortcuts that keep the law of the real
path. This is the check that they do: a fault that lives in the device's code alone shows here.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from croupier.coins import SystemCoins
from croupier.protocols.base import Mechanism, ShuffleRelease

Floats = NDArray[np.float64]

FALSE_ALARM = 1e-5
"""How often honest devices are blamed."""

EXACT = 1e-6
"""Noise below what fixed point on a device changes is none."""

SAME = 1e-9
LEAST_RUNS = 30
LAW_RUNS = 20_000


@dataclass(frozen=True)
class DeviceCheck:
    """How many real batches were run, and how likely their difference from the law is."""

    runs: int
    chance: float

    @property
    def agrees(self) -> bool:
        """Whether the difference can be chance."""
        return self.chance >= FALSE_ALARM


def check_devices(
    mechanism: Mechanism, contribution: Floats, seconds: float, seed: int
) -> DeviceCheck | None:
    """Batch sums of real devices against ``sample_sum``; None for a baseline, which has none.

    One user has ``contribution (size,)``, all others none; at least 30 batches are run.
    """
    release = mechanism.release(0)
    if not isinstance(release, ShuffleRelease):
        return None
    batch = np.zeros((release.users, contribution.size))
    batch[0] = contribution
    rng = np.random.default_rng(np.random.SeedSequence(seed, spawn_key=(99,)))
    law = np.concatenate([_law(release, batch, rng) for _ in range(10)])
    real = _real(release, batch, seconds)
    return DeviceCheck(len(real), _chance(real, law))


def _law(release: ShuffleRelease, batch: Floats, rng: np.random.Generator) -> Floats:
    most = max(LEAST_RUNS, min(LAW_RUNS // 10, 10**7 // batch.size))
    return release.sample_sum(np.broadcast_to(batch, (most, *batch.shape)), rng)


def _real(release: ShuffleRelease, batch: Floats, seconds: float) -> Floats:
    """As many real batches as fit into the time."""
    coins, end = SystemCoins(), time.monotonic() + seconds
    sums: list[Floats] = []
    while len(sums) < LEAST_RUNS or time.monotonic() < end:
        sums.append(ShuffleRelease.run(release, batch, coins))
    return np.array(sums)


def _chance(real: Floats, law: Floats) -> float:
    """The smallest p-value of means, variances and correlations, times their number."""
    noisy = law.std(axis=0) > EXACT
    scores = [_means(real, law), _spreads(real[:, noisy], law[:, noisy])]
    difference = fisher(real[:, noisy], EXACT) - fisher(law[:, noisy], EXACT)
    scores.append(difference * math.sqrt(len(real) - 3))
    every = np.abs(np.concatenate(scores))
    return float(min(1.0, 2 * every.size * ndtr(-every.max())))


def _means(real: Floats, law: Floats) -> Floats:
    spread = np.maximum(law.std(axis=0), EXACT)
    runs = 1 / (1 / len(real) + 1 / len(law))
    return np.asarray((real.mean(axis=0) - law.mean(axis=0)) / spread * math.sqrt(runs))


def _spreads(real: Floats, law: Floats) -> Floats:
    """Wilson and Hilferty's normal score of the variance, for the law's own kurtosis."""
    centred = law - law.mean(axis=0)
    variance = (centred**2).mean(axis=0)
    heavy = (centred**4).mean(axis=0) / variance**2 - 3
    freedom = 2 / (np.maximum(heavy, 0.0) / len(real) + 2 / (len(real) - 1))
    ratio = real.var(axis=0, ddof=1) / variance
    return np.asarray((np.cbrt(ratio) - 1 + 2 / (9 * freedom)) / np.sqrt(2 / (9 * freedom)))


def fisher(samples: Floats, exact: float) -> Floats:
    """Fisher's z of the correlation of every pair of coordinates of ``(runs, size)``.

    Deviations below ``exact`` are rounding.
    """
    centred = samples - samples.mean(axis=0)
    scaled = centred / np.maximum(centred.std(axis=0), exact)
    correlation = scaled.T @ scaled / len(samples)
    pairs = correlation[np.triu_indices(len(correlation), 1)]
    return np.asarray(np.arctanh(np.clip(pairs, -1 + SAME, 1 - SAME)))
