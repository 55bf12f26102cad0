"""Problems from data that installed packages ship, and from files of the user's own."""

from __future__ import annotations

from croupier.simulation.data.base import DataProblem
from croupier.simulation.data.classification import Adult, Digits, Segments, Shuttle
from croupier.simulation.data.movielens import MovieLens

PROBLEMS: dict[str, type[DataProblem]] = {
    kind.name: kind for kind in (Adult, Digits, MovieLens, Segments, Shuttle)
}

__all__ = ["PROBLEMS", "DataProblem"]
