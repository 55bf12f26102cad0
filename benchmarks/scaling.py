"""Processor time against rounds, arms and dimension, and the picture of it in the documentation."""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np

from croupier.plan import Plan
from croupier.simulation.kernels.trial import Trial
from croupier.simulation.synthetic import Pooled

POWERS = {
    "rounds": (1.1, "rounds"),
    "arms": (1.1, "arms"),
    "dim": (2.1, "the dimension"),
}
"""The greatest power by which cost may grow, with room for the error of a fit."""

PLACES: dict[str, list[int]] = {
    "rounds": [10_000, 30_000, 100_000, 300_000, 1_000_000],
    "arms": [10, 30, 100, 300, 1000],
    "dim": [5, 10, 20, 40, 70, 100],
}
FITTED = 3
"""The last places, where what does not grow plays no role."""

ALGORITHMS = {"linucb": 1, "vector-sum": 100}
"""With the users of a batch."""


def seconds(protocol: str, **setting: int) -> float:
    """Processor time of 20,000 rounds, or as many as are said, the better of two."""
    asked = {"rounds": 20_000, "arms": 100, "dim": 5, **setting}
    rounds, dim = asked["rounds"], asked["dim"]
    plan = Plan.calibrate(
        protocol, dim=dim, horizon=rounds, batch_size=ALGORITHMS[protocol], batches="fixed",
        policy="ucb", epsilon=1.0, delta=0.1,
    )  # fmt: skip
    problem = Pooled(dim, asked["arms"], 64)
    world = problem.world(0, range(1))
    times = []
    for _ in range(2):
        trial = Trial(plan, world, np.random.default_rng(0))
        start = time.process_time()
        trial.play(np.array([rounds]))
        times.append(time.process_time() - start)
    return min(times)


def measured(protocol: str, name: str) -> list[float]:
    """Processor time at every place of one axis."""
    seconds(protocol, rounds=500)
    rounds = {} if name == "rounds" else {"rounds": 20_000 if name == "arms" else 5_000}
    return [seconds(protocol, **{**rounds, name: place}) for place in PLACES[name]]


def power(places: list[int], times: list[float]) -> float:
    """The slope of the last places on logarithmic axes."""
    return float(np.polyfit(np.log(places[-FITTED:]), np.log(times[-FITTED:]), 1)[0])


def measured_power(name: str) -> float:
    """The larger of both algorithms'."""
    return max(power(PLACES[name], measured(protocol, name)) for protocol in ALGORITHMS)


def draw(out: Path) -> None:
    """Three panels, a line an algorithm."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(10, 3.4), layout="constrained")
    panels: Any = figure.subplots(1, 3)
    for panel, (name, (_, words)) in zip(panels, POWERS.items(), strict=True):
        for protocol, size in ALGORITHMS.items():
            times = measured(protocol, name)
            grown = power(PLACES[name], times)
            label = f"{protocol}, batches of {size}: power {grown:.2f}"
            panel.loglog(PLACES[name], times, marker="o", label=label)
        panel.set_xlabel(words)
        panel.legend(fontsize=7)
        panel.grid(alpha=0.3)
    panels[0].set_ylabel("CPU seconds")
    figure.savefig(out, dpi=130)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=Path("docs/pictures/scaling.png"))
    draw(parser.parse_args().out)
