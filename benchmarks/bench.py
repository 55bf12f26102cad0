"""Rounds per CPU-second of every algorithm, as a ratio to a plain numpy LinUCB loop.

The reference is the loop one would write first: Sherman-Morrison for the inverse, einsum for the
widths, one round at a time. It is timed in the same run, before and after, since machines change
their speed.
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Callable

import numpy as np

from croupier.plan import Plan
from croupier.simulation import engine, problems
from croupier.simulation.compare import ALL_ENTRIES, Arena, line_up

DIM, ARMS = 5, 100


def reference_loop(rounds: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    theta = rng.standard_normal(DIM) / 4
    pool = rng.standard_normal((256, ARMS, DIM)) / (2 * math.sqrt(DIM))
    inverse, total = np.eye(DIM), np.zeros(DIM)
    for index in range(rounds):
        features = pool[index % 256]
        widths = np.sqrt(np.einsum("kd,de,ke->k", features, inverse, features))
        chosen = features[np.argmax(features @ (inverse @ total) + widths)]
        reward = float(rng.random() < chosen @ theta + 0.5)
        step = inverse @ chosen
        inverse -= np.outer(step, step) / (1 + chosen @ step)
        total += reward * chosen


def rate(work: Callable[[], object], rounds: int) -> float:
    """Rounds per CPU-second."""
    start = time.process_time()
    work()
    return rounds / (time.process_time() - start)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--horizon", type=int, default=4000)
    parser.add_argument("--trials", type=int, default=25)
    arguments = parser.parse_args()
    rounds = arguments.horizon * arguments.trials
    before = rate(lambda: reference_loop(10_000, 0), 10_000)
    rows = [(label, name, *_rate(plan, name, arguments)) for label, plan, name in _work(arguments)]
    after = rate(lambda: reference_loop(10_000, 1), 10_000)
    base = (before + after) / 2
    print(f"d = {DIM}, {ARMS} arms, {arguments.trials} trials of {arguments.horizon} rounds")
    print(f"reference: plain numpy loop, {before:,.0f} then {after:,.0f} rounds per CPU-second\n")
    print(f"{'algorithm':<24}{'problem':<12}{'batch':>6}{'rounds/CPU-s':>14}{'ratio':>8}")
    for label, name, size, speed in rows:
        print(f"{label:<24}{name:<12}{size:>6}{speed:>14,.0f}{speed / base:>8.1f}")
    print(f"\n{rounds:,} rounds each; ratios are to the mean of the two reference timings")


def _work(arguments: argparse.Namespace) -> list[tuple[str, Plan, str]]:
    arena = Arena(
        dim=DIM, horizon=arguments.horizon, batch_size=20, epsilon=1.0, delta=0.1,
        calibration="released", arms=ARMS,
    )  # fmt: skip
    jobs = line_up(ALL_ENTRIES, arena)
    return [(job.label, job.plan, name) for name in ("sphere", "contextual") for job in jobs]


def _rate(plan: Plan, name: str, arguments: argparse.Namespace) -> tuple[int, float]:
    problem = problems.find(name).for_plan(plan, ARMS)
    trials = range(arguments.trials)
    rounds = arguments.horizon * arguments.trials
    return plan.schedule.first, rate(lambda: engine.run(plan, problem, 0, trials), rounds)


if __name__ == "__main__":
    main()
