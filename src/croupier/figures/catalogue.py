"""Every figure by name, with the setting it is drawn in unless told otherwise."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from croupier.errors import UnknownNameError
from croupier.figures.data import Figure
from croupier.figures.drift import drift
from croupier.figures.frontier import frontier
from croupier.figures.horizon import horizon
from croupier.figures.ladder import ladder
from croupier.figures.paper import PAPER, batch_size, fig1, fig2, returning
from croupier.figures.trust import trust
from croupier.simulation.compare import Arena

MOVING = replace(PAPER, horizon=200_000, problem="contextual", arms=20)
LONG = replace(PAPER, horizon=1_000_000, delta=1e-6, problem="contextual", arms=20)


@dataclass(frozen=True)
class Recipe:
    """How a figure is made; ``own`` names what it sets itself."""

    make: Callable[[Arena], Figure]
    own: frozenset[str] = frozenset()
    arena: Arena = PAPER
    trials: int = 50


STEPS = frozenset({"calibration", "batches", "policy", "batch_size"})

FIGURES = {
    "fig1": Recipe(fig1, frozenset({"epsilon"})),
    "fig2": Recipe(fig2, frozenset({"dim"})),
    "batch-size": Recipe(batch_size, frozenset({"batches", "batch_size"})),
    "returning": Recipe(returning, frozenset({"batches", "batch_size", "problem", "arms"})),
    "frontier": Recipe(frontier, frozenset({"epsilon"})),
    "trust": Recipe(trust),
    "ladder": Recipe(ladder, STEPS | {"problem", "arms"}),
    "horizon": Recipe(horizon, STEPS, LONG, trials=20),
    "drift": Recipe(drift, STEPS | {"problem"}, MOVING, trials=20),
}


def find(name: str) -> Recipe:
    """The recipe of the figure called ``name``."""
    if name not in FIGURES:
        raise UnknownNameError("figure", name, FIGURES)
    return FIGURES[name]


def figure(name: str, **given: Any) -> Figure:
    """The figure called ``name`` in its own setting, but for what is ``given`` (None is not).

    The authors' constants are drawn on the authors' instances unless a problem is named.
    """
    recipe = find(name)
    changes = {field: value for field, value in given.items() if value is not None}
    for field in sorted(recipe.own & changes.keys()):
        raise ValueError(f"{field} is set by figure {name} itself, got {changes[field]!r}")
    if changes.get("calibration") == "released":
        changes.setdefault("problem", "released")
    return recipe.make(replace(recipe.arena, **changes))
