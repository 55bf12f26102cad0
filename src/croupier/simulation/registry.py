"""The problems that come with croupier, by name."""

from __future__ import annotations

from croupier.errors import UnknownNameError
from croupier.simulation.disjoint import Disjoint
from croupier.simulation.moving import Drifting, Seasonal
from croupier.simulation.problem import Problem
from croupier.simulation.synthetic import Contextual, Pooled, ReleasedProblem, Returning, Sphere

PROBLEMS: dict[str, type[Problem]] = {
    kind.name: kind
    for kind in (
        Sphere,
        ReleasedProblem,
        Contextual,
        Pooled,
        Returning,
        Drifting,
        Seasonal,
        Disjoint,
    )
}


DATA = ("movielens", "adult", "shuttle", "segments", "digits")
"""Problems from data, which other packages ship; see ``simulation/data``."""


def find(name: str) -> type[Problem]:
    """The problem called ``name``."""
    if name in DATA:
        # Data problems are built on this module, and few runs need what they read with.
        from croupier.simulation import data

        return data.PROBLEMS[name]
    if name not in PROBLEMS:
        raise UnknownNameError("problem", name, [*PROBLEMS, *DATA])
    return PROBLEMS[name]
