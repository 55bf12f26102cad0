"""A user's own file as a problem, and the ways in which its columns come into the unit ball."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import ClassVar, Self

import numpy as np

from croupier.simulation.data.base import Floats
from croupier.simulation.data.classification import Classification, Players, mapped_half
from croupier.simulation.data.files import digest, read_labelled
from croupier.simulation.data.maps import BallMap, charged, from_bounds
from croupier.simulation.data.sources import LabelledTable

_NOISE = 12

Bounds = tuple[tuple[float, float], ...]


@dataclass(frozen=True)
class Scaling:
    """How a file's columns are scaled: by a public half, by declared ``bounds``, or charged.

    ``bounds`` has a pair for every column of numbers; with ``mu`` above 0 means and squares of the
    players are released within them at that cost. Without bounds half of the rows are public.
    """

    bounds: Bounds | None = None
    mu: float = 0.0

    def __post_init__(self) -> None:
        """Noise needs something to be bounded by."""
        for low, high in self.bounds or ():
            if not low < high:
                raise ValueError(f"bounds must be LOW:HIGH with LOW below HIGH, got {low}:{high}")
        if not 0 <= self.mu < np.inf:
            raise ValueError(f"map-mu must be at least 0 and finite, got {self.mu!r}")
        if self.mu and self.bounds is None:
            raise ValueError(f"map-mu needs --bounds, within which noise is added, got {self.mu!r}")

    def ball(self, rows: Floats, seed: int) -> BallMap:
        """The map by bounds, with the noise of ``seed`` where it is charged."""
        if self.bounds is None or len(self.bounds) != rows.shape[1]:
            found = None if self.bounds is None else len(self.bounds)
            raise ValueError(f"bounds must be given for {rows.shape[1]} columns, got {found}")
        low, high = np.array(self.bounds, dtype=np.float64).T
        if not self.mu:
            return from_bounds(low, high)
        key = np.random.SeedSequence(seed, spawn_key=(_NOISE,))
        return charged(rows, low, high, self.mu, np.random.default_rng(key))


@dataclass(frozen=True)
class OwnFile(Classification):
    """Rows of a CSV or Parquet file; the plan's dimension says how many directions are kept."""

    path: str
    context: tuple[str, ...]
    target: str
    content: str
    scaling_of: Scaling = Scaling()
    split: int = 0
    name: ClassVar[str] = "file"

    @classmethod
    def read(
        cls,
        path: str | Path,
        context: Sequence[str],
        label: str,
        scaling: Scaling | None = None,
        split: int = 0,
    ) -> Self:
        """The problem with all columns of the file's contexts."""
        table = _table(str(path), tuple(context), label, digest(path))
        arms = len(table.classes)
        dim = arms * (len(table.columns) + 1)
        named = str(path), tuple(context), label, digest(path)
        return cls(dim, arms, *named, scaling or Scaling(), split)

    @property
    def label(self) -> str:
        """The file with its classes and columns."""
        columns = len(self.table.columns)
        return f"{self.path} ({self.arms} classes, {columns} columns of contexts)"

    @property
    def table(self) -> LabelledTable:
        """All rows."""
        return _table(self.path, self.context, self.target, self.content)

    @property
    def least_kept(self) -> int:
        """Directions follow from data, so declared bounds keep all columns."""
        return 1 if self.scaling_of.bounds is None else len(self.table.columns)

    @property
    def playing(self) -> Players:
        """The half that is not public, or everybody if the map needs no public half."""
        return _players(self)


@cache
def _table(path: str, context: tuple[str, ...], label: str, content: str) -> LabelledTable:
    table = read_labelled(path, context, label)
    if digest(path) != content:
        raise ValueError(f"{path} has changed since it was first read")
    return table


@cache
def _players(problem: OwnFile) -> Players:
    table = problem.table
    if problem.scaling_of.bounds is None:
        return mapped_half(table, problem.kept, problem.split)
    ball = problem.scaling_of.ball(table.contexts, problem.split)
    return Players(ball(table.contexts), table.labels, ball)


def declared(text: str, columns: Sequence[str], context: Sequence[str]) -> Bounds:
    """Bounds of every column from ``a=0:100,b=-1:1``; those of 0 and 1 need not be named."""
    named = dict(_bound(part) for part in text.split(","))
    for name in named:
        if name not in columns:
            raise ValueError(f"bounds must name columns of numbers in --context, got {name!r}")
    missing = [name for name in columns if name in context and name not in named]
    if missing:
        raise ValueError(f"bounds must name every column of numbers, {missing[0]!r} has none")
    return tuple(named.get(name, (0.0, 1.0)) for name in columns)


def _bound(text: str) -> tuple[str, tuple[float, float]]:
    name, _, ends = text.partition("=")
    low, _, high = ends.partition(":")
    try:
        return name.strip(), (float(low), float(high))
    except ValueError as error:
        raise ValueError(f"bounds must be NAME=LOW:HIGH,..., got {text!r}") from error
