"""``trust``: what it costs to trust nobody, or saves to trust a shuffler or a server."""

from __future__ import annotations

from croupier.figures.data import (
    DotPanel,
    Figure,
    Row,
    arms_words,
    batches_words,
    epsilon_words,
    noise_words,
)
from croupier.simulation.compare import (
    BATCHED,
    BATCHED_CENTRAL,
    BATCHED_LOCAL,
    VECTOR,
    Arena,
    enter,
    uniform_play,
)

MODELS = {
    "non-private": (BATCHED, "server sees raw data,\npublishes exact models"),
    "central": (BATCHED_CENTRAL, "server sees raw data,\nis trusted to add the noise"),
    "shuffle": (VECTOR, "shuffler is trusted to mix, learns who sent;\nanalyzer sees noisy sums"),
    "local": (BATCHED_LOCAL, "nobody is trusted:\nevery report carries all its noise"),
}


def trust(arena: Arena) -> Figure:
    """Regret at the horizon by trust model, and whom it asks to trust with what."""
    rows = [Row(name, enter(entry, arena, name), what) for name, (entry, what) in MODELS.items()]
    learnt_nothing = Row("uniform play", uniform_play(arena), "nothing is sent")
    title = f"d = {arena.dim}, T = {arena.horizon:,}, {arms_words(arena)}, {batches_words(arena)}"
    heading = f"Whom to trust at {epsilon_words(arena)}, {noise_words(arena)}"
    return Figure("trust", heading, (DotPanel(title, (*rows, learnt_nothing)),))
