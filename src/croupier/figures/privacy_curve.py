"""Draws what a plan is worth: epsilon against delta, for each of its guarantees."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from croupier.figures.data import DELTA, EPSILON
from croupier.figures.draw import pyplot
from croupier.figures.style import FONT
from croupier.plan import Plan

DELTAS = np.geomspace(1e-12, 0.1, 45)
STYLES = {"shuffle": ("#d1495b", "-"), "joint": ("#1f3a93", "--"), "local": ("#8a949c", ":")}


def draw_curve(plan: Plan, path: str | Path) -> Path:
    """Write the curves of all proved guarantees, with the budget as a point."""
    plt = pyplot()
    with plt.rc_context(FONT):
        canvas, axis = plt.subplots(figsize=(3.4, 2.6), layout="constrained")
        for name, guarantee in plan.guarantees().items():
            colour, style = STYLES[name]
            values = [guarantee.epsilon(delta) if guarantee.proved else np.inf for delta in DELTAS]
            label = name if np.isfinite(values).any() else f"{name}: nothing is proved"
            finite = np.where(np.isfinite(values), values, np.nan)
            axis.plot(DELTAS, finite, style, color=colour, label=label)
        if plan.budget is not None:
            axis.plot(plan.budget.delta, plan.budget.epsilon, "kx", label="asked for")
        axis.set(
            xscale="log", xlabel=DELTA, ylabel=EPSILON, title=f"{plan.protocol}, plan {plan.id[:8]}"
        )
        axis.grid(alpha=0.3, linewidth=0.5)
        axis.set_ylim(bottom=0)
        axis.legend(frameon=False)
        canvas.savefig(path, dpi=200)
        plt.close(canvas)
    return Path(path)
