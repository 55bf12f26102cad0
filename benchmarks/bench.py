"""How fast the simulator is, as ratios measured in one run on one machine, and what it must reach.

The reference is the loop one would write first: Sherman-Morrison for the inverse, einsum for the
widths, one round at a time, arm sets from a prebuilt pool. Machines change their speed, so it is
timed before and after. Only processor time counts, of this process and of those it starts. Every
kernel is compiled before anything is timed. Ends with 1 where a goal is missed.
"""

from __future__ import annotations

import argparse
import math
import os
import resource
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scaling import POWERS, measured_power

from croupier.plan import Plan
from croupier.simulation import engine
from croupier.simulation.compare import ALL_ENTRIES, Arena, line_up
from croupier.simulation.problem import Problem
from croupier.simulation.sweep import simulate
from croupier.simulation.synthetic import Pooled

DIM, ARMS = 5, 100
ROUNDS = 200_000
FIGURE_TRIALS = 50
LARGE_DIM, LARGE_ARMS = 100, 50
LONG, SHORT = 10**7, 10**5

CERTIFIED = ("vector-sum", "local", "garcelon", "concurrent-tree")
"""Protocols that are also played as they are calibrated by default."""

ONE_THREAD = {f"{library}_NUM_THREADS": "1" for library in ("OPENBLAS", "OMP", "MKL")}
"""Read when numpy is imported; a library's waiting threads would count as processor time."""

TIMINGS = 5
"""Turns of loop and algorithm, each a fraction of a second: a machine's speed changes by phases."""


@dataclass(frozen=True)
class Goal:
    """What was measured against what is asked; ``least`` or ``most`` says which way is good."""

    name: str
    found: float
    least: float = -math.inf
    most: float = math.inf
    unit: str = ""

    @property
    def met(self) -> bool:
        """Whether it is."""
        return self.least <= self.found <= self.most

    def __str__(self) -> str:
        """One row of the table."""
        asked = f">= {self.least:g}" if self.least > -math.inf else f"<= {self.most:g}"
        word = "met" if self.met else "MISSED"
        return f"{self.name:<72}{self.found:>10.3f}{self.unit:<4}{asked:>9}  {word}"


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


def processor(who: int = resource.RUSAGE_SELF) -> float:
    """Seconds of processor time so far."""
    used = resource.getrusage(who)
    return used.ru_utime + used.ru_stime


def rate(work: Callable[[], object], rounds: int) -> float:
    """Rounds per CPU-second."""
    start = processor()
    work()
    return rounds / (processor() - start)


def reference() -> float:
    """Rounds per CPU-second of the plain loop."""
    return rate(partial(reference_loop, 10_000, 0), 10_000)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--remember", type=int, help="rounds to play; prints peak memory in MB")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--product", action="store_true", help="prints products per CPU-second")
    arguments = parser.parse_args()
    if arguments.remember or arguments.product:
        print(_peak(arguments.remember) if arguments.remember else _product())
        return
    warm_up()
    before = max(reference() for _ in range(TIMINGS))
    speeds = list(_speeds(arguments.rounds))
    judged = [*_figure(), *_workers(), *_memory(), _matrix_product(), *_scaling()]
    after = max(reference() for _ in range(TIMINGS))
    base = (before + after) / 2
    print(f"d = {DIM}, {ARMS} arms, a pool of 256 arm sets, {arguments.rounds:,} rounds each")
    print(f"plain numpy loop: {before:,.0f} then {after:,.0f} rounds per CPU-second\n")
    print(f"{'algorithm':<40}{'batch':>6}{'rounds/CPU-s':>14}{'ratio':>8}")
    for label, size, speed, ratio, _ in speeds:
        print(f"{label:<40}{size:>6}{speed:>14,.0f}{ratio:>8.1f}")
    goals = [*_ratios(speeds), *(goal(base) for goal in judged)]
    print(f"\n{'goal':<72}{'measured':>14}{'asked':>9}")
    for one in goals:
        print(one)
    sys.exit(not all(one.met for one in goals))


Speed = tuple[str, int, float, float, float]
Judged = Callable[[float], Goal]


def warm_up() -> None:
    """Compile every kernel, which is kept on disk for the next time."""
    for policy in ("ucb", "sampling"):
        for dim in (DIM, LARGE_DIM):
            plan = _plan("noiseless", dim=dim, policy=policy, horizon=300, batch_size=100)
            engine.run(plan, Pooled(dim, 10), 0, range(1))
    whole = _plan("noiseless", policy="ucb", horizon=300, batch_size=100)
    engine.Run(whole, Pooled(DIM, 10).world(0, range(2)), 2, np.random.default_rng(0)).play(1)


def _plan(protocol: str, **changes: Any) -> Plan:
    asked: dict[str, Any] = {"dim": DIM, "batch_size": 20, "batches": "fixed"}
    budget = {"epsilon": 1.0, "delta": 0.1, "calibration": "certified"}
    return Plan.calibrate(protocol, **{**asked, **budget, **changes})


def _speeds(rounds: int) -> Iterator[Speed]:
    """Every algorithm, with the least ratio that is asked of it.

    The paper's have the constants of its script. Others are certified and have the policy that
    plans have where none is named.
    """
    arena = Arena(
        dim=DIM, horizon=rounds, batch_size=20, epsilon=1.0, delta=0.1,
        calibration="released", arms=ARMS,
    )  # fmt: skip
    for job in line_up(ALL_ENTRIES, arena):
        size = job.plan.schedule.first
        yield job.label, size, *_speed(job.plan), _asked(job.plan.protocol, size)
    for protocol in CERTIFIED:
        plan = _plan(protocol, horizon=rounds, policy="sampling")
        yield f"{protocol}, certified, sampling", 20, *_speed(plan), _asked(protocol, 20)


def _asked(protocol: str, size: int) -> float:
    if protocol == "linucb":
        return 30.0 if size == 1 else 28.0
    return 15.0


def _speed(plan: Plan) -> tuple[float, float]:
    """Through the public ``simulate``, and its ratio to the loop: medians of turns of the two."""
    problem, rounds = Pooled(DIM, ARMS), plan.schedule.rounds
    speeds, ratios = [], []
    for _ in range(TIMINGS):
        base = reference()
        speeds.append(rate(lambda: simulate(plan, problem, trials=1), rounds))
        ratios.append(speeds[-1] / base)
    return statistics.median(speeds), statistics.median(ratios)


def _ratios(speeds: list[Speed]) -> Iterator[Goal]:
    for label, size, _, ratio, least in speeds:
        yield Goal(f"{label}, batches of {size}: ratio to the loop", ratio, least)


def _figure() -> Iterator[Judged]:
    """The paper's first figure through the command line, in a process of its own."""
    from croupier.figures import catalogue

    jobs = catalogue.figure("fig1").jobs
    rounds = FIGURE_TRIALS * sum(job.plan.schedule.rounds for job in jobs)
    with tempfile.TemporaryDirectory() as out:
        command = [str(Path(sys.executable).with_name("croupier")), "figure", "fig1"]
        start = processor(resource.RUSAGE_CHILDREN)
        subprocess.run(
            [*command, "--trials", str(FIGURE_TRIALS), "--workers", "1", "--out", out],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        spent = processor(resource.RUSAGE_CHILDREN) - start
    name = f"croupier figure fig1 ({spent:.0f} CPU-s): share of the loop's time"
    yield lambda base: Goal(name, spent * base / rounds, most=0.1)


def _workers() -> Iterator[Judged]:
    """The same sweep on one process and on two, which have to start and to load the kernels."""
    plan, problem = _plan("vector-sum", horizon=100_000, policy="sampling"), Pooled(DIM, ARMS)
    spent = []
    for workers in (1, 2):
        start = processor() + processor(resource.RUSAGE_CHILDREN)
        simulate(plan, problem, trials=800, workers=workers)
        spent.append(processor() + processor(resource.RUSAGE_CHILDREN) - start)
    name = f"CPU time of two workers over that of one ({spent[0]:.0f} CPU-s)"
    yield lambda _: Goal(name, spent[1] / spent[0], most=1.15)


def _memory() -> Iterator[Judged]:
    long, short = (_remembered(rounds) for rounds in (LONG, SHORT))
    name, ratio = f"vector-sum, d = 10, {LONG:,} rounds: peak memory", f"... over {SHORT:,} rounds'"
    yield lambda _: Goal(name, long, most=500, unit=" MB")
    yield lambda _: Goal(ratio, long / short, most=1.1)


def _remembered(rounds: int) -> float:
    return _alone("--remember", str(rounds))


def _alone(*arguments: str, **settings: str) -> float:
    """What this program prints with these arguments, in a process of its own."""
    ran = subprocess.run(
        [sys.executable, __file__, *arguments],
        check=True,
        capture_output=True,
        text=True,
        env={**os.environ, **settings},
    )
    return float(ran.stdout)


def _peak(rounds: int) -> float:
    """Megabytes at the most while 10 arms are played for as many rounds."""
    plan = _plan("vector-sum", dim=10, horizon=rounds, batch_size=1000, policy="sampling")
    simulate(plan, Pooled(10, 10), trials=1)
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def _matrix_product() -> Judged:
    """Rounds of d = 100 against one product of as many operations, 2 d^2 for every arm.

    The product has a process of one thread, the simulator is as users run it.
    """
    rounds = 20_000
    plan = _plan("linucb", dim=LARGE_DIM, horizon=rounds, batch_size=1000, policy="ucb")
    problem: Problem = Pooled(LARGE_DIM, LARGE_ARMS, 64)
    found = max(rate(lambda: simulate(plan, problem, trials=1), rounds) for _ in range(2))
    product = _alone("--product", **ONE_THREAD)
    name = f"d = {LARGE_DIM}, {LARGE_ARMS} arms: speed over a matrix product's, one thread"
    return lambda _: Goal(name, found / product, least=0.5)


def _product() -> float:
    """Rounds per CPU-second of which a matrix product could compute the widths of all arms."""
    rounds = 2000
    matrix = np.ones((LARGE_DIM, LARGE_DIM))
    arms = np.ones((LARGE_DIM, LARGE_ARMS * rounds))
    return max(rate(lambda: matrix @ arms, rounds) for _ in range(5))


def _scaling() -> Iterator[Judged]:
    for name, (most, words) in POWERS.items():
        power = measured_power(name)
        label = f"cost grows with {words} to the power"
        yield partial(_within, Goal(label, power, most=most))


def _within(goal: Goal, _: float) -> Goal:
    """A goal that does not depend on the reference."""
    return goal


if __name__ == "__main__":
    main()
