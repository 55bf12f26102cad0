"""``ucb``: Algorithm 1 of the paper, optimism with a regulariser and radius sized to the noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from croupier.arguments import fraction, positive, whole
from croupier.coins import Coins
from croupier.layouts import PapersLayout
from croupier.model import Model, ReleasedSums
from croupier.policies.base import Choice, Floats, Policy, Setting
from croupier.policies.pick import pick
from croupier.theory import confidence as bounds
from croupier.theory import released

REGULARIZERS = ("fixed", "growing")


@dataclass(frozen=True)
class Ucb(Policy):
    """Plays the arm with the largest ``<phi, theta> + radius * |phi|_{V^-1}`` (lines 5 and 14-16).

    ``regularizer`` is lambda; with ``growing`` it is max(1, 2 S_m) after m batches instead.
    ``radius`` is a constant, or None for beta_m of lemma ``thm:general``, times ``exploration``.
    ``matrix_noise`` is the noise of V per svec coordinate for noise 1 per released coordinate.
    """

    regularizer: float
    growing: bool
    radius: float | None
    exploration: float
    confidence: float
    batches: int
    matrix_noise: float
    noise_bound: float
    features: int
    name: ClassVar[str] = "ucb"

    def __post_init__(self) -> None:
        """Refuse numbers that make no ellipsoid."""
        positive("regularizer", self.regularizer)
        positive("exploration", self.exploration)
        fraction("confidence", self.confidence)
        whole("batches", self.batches, 1)

    @classmethod
    def calibrate(
        cls,
        setting: Setting,
        regularizer: str = "fixed",
        exploration: float = 1.0,
        **options: Any,
    ) -> Self:
        """The theorem's lambda = max(1, 2 S_M) and beta_m, or the authors' constants."""
        if options:
            raise ValueError(f"policy ucb has no option {next(iter(options))!r}")
        if regularizer not in REGULARIZERS:
            raise ValueError(f"regularizer must be one of {REGULARIZERS}, got {regularizer!r}")
        if not isinstance(setting.layout, PapersLayout):
            raise ValueError("policy ucb has a radius for the paper's layout alone (|theta*| <= 1)")
        layout, batches = setting.layout, setting.schedule.batches
        std = math.sqrt(setting.noise_variance) * layout.matrix_noise_factor
        bound = bounds.matrix_noise_bound(std, layout.dim, batches, setting.confidence)
        shared: dict[str, Any] = {
            "exploration": exploration,
            "confidence": setting.confidence,
            "batches": batches,
            "matrix_noise": layout.matrix_noise_factor,
            "noise_bound": bound,
            "features": layout.dim,
        }
        if setting.released is None:
            growing = regularizer == "growing"
            return cls(float(bounds.regularizer(bound)), growing, None, **shared)
        scale, rounds = setting.released.scale, setting.schedule.rounds
        radius = released.radius(scale, layout.dim, rounds, layout.norm)
        return cls(setting.released.regularizer, False, radius, **shared)

    @property
    def options(self) -> dict[str, Any]:
        """What ``calibrate`` was asked for."""
        growing = "growing" if self.growing else "fixed"
        return {"regularizer": growing, "exploration": self.exploration}

    def start(self) -> ReleasedSums:
        """Nothing."""
        dim = self.features
        return ReleasedSums(np.zeros(dim), np.zeros((dim, dim)), 0, 0, 0.0)

    def learn(self, known: ReleasedSums, sums: ReleasedSums) -> ReleasedSums:
        """Running sums."""
        return known.plus(sums)

    def model(self, known: ReleasedSums) -> Model:
        """theta = V^-1 u with V = released matrix + lambda I, repaired where it is not positive."""
        dim = self.features
        regularizer, scale = map(float, self.numbers(known.users, known.noise_variance, dim))
        gram = known.matrix + regularizer * np.eye(dim)
        inverse, repairs = invert_above(gram, regularizer / 2)
        theta = np.einsum("...de,...e->...d", inverse, known.vector)
        return Model(
            self.name,
            theta,
            inverse,
            scale,
            version=known.batches,
            users=known.users,
            repairs=repairs,
        )

    def numbers(self, users: Any, noise_variance: Any, dim: int) -> tuple[Any, Any]:
        """Regulariser and scale of a model, or of many where these are arrays."""
        bound = self._bound(noise_variance, dim)
        regularizer = bounds.regularizer(bound) if self.growing else self.regularizer
        radius = self._radius(users, noise_variance, dim, regularizer, bound)
        return regularizer, self.exploration * radius

    def _bound(self, noise_variance: Any, dim: int) -> Any:
        """S_m while lambda grows, S_M while it is fixed."""
        if not self.growing:
            return self.noise_bound
        std = np.sqrt(noise_variance) * self.matrix_noise
        return bounds.matrix_noise_bound(std, dim, self.batches, self.confidence)

    def _radius(
        self, users: Any, noise_variance: Any, dim: int, regularizer: Any, bound: Any
    ) -> Any:
        if self.radius is not None:
            return self.radius
        lowest, std = regularizer - bound, np.sqrt(noise_variance)
        noise = bounds.vector_noise_bound(std, dim, self.batches, self.confidence)
        return bounds.radius(
            users,
            dim,
            lowest=lowest,
            highest=regularizer + bound,
            drift=noise / np.sqrt(lowest),
            confidence=self.confidence,
        )

    def choose(
        self,
        model: Model,
        features: Floats,
        coins: Coins | None = None,
        mask: NDArray[np.bool_] | None = None,
    ) -> Choice:
        """The most optimistic available arm."""
        means, widths = means_and_widths(model, features)
        return pick(means + model.scale * widths, widths, mask)


def means_and_widths(model: Model, features: Floats) -> tuple[Floats, Floats]:
    """<phi, theta> and sqrt(phi' matrix phi) of every arm, ``(..., arms)``."""
    # einsum treats every arm alike; a BLAS product may round equal arms differently.
    # It is fastest where arms lie next to each other in memory, as the simulator lays them.
    columns = np.swapaxes(features, -1, -2)
    means = np.einsum("...dk,...d->...k", columns, model.theta)
    projected = np.einsum("...de,...ek->...dk", model.matrix, columns)
    squares = np.einsum("...dk,...dk->...k", projected, columns)
    return means, np.sqrt(np.maximum(squares, 0.0))


def invert_above(gram: Floats, floor: float) -> tuple[Floats, int]:
    """The inverse of ``gram (..., dim, dim)`` with eigenvalues raised to at least ``floor``.

    This is the one repair rule ("raise to half the regulariser"); the count of raised
    eigenvalues is returned so that no repair is silent.
    """
    shifted = gram - floor * np.eye(gram.shape[-1])
    try:
        np.linalg.cholesky(shifted)
    except np.linalg.LinAlgError:
        return _raised_inverse(gram, floor)
    return np.asarray(np.linalg.inv(gram), dtype=np.float64), 0


def _raised_inverse(gram: Floats, floor: float) -> tuple[Floats, int]:
    values, vectors = np.linalg.eigh(gram)
    raised = np.maximum(values, floor)
    inverse = np.einsum("...de,...e,...fe->...df", vectors, 1 / raised, vectors)
    return inverse, int(np.count_nonzero(values < floor))
