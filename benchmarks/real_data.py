"""What private learning costs on real data: mean rewards, a table and a picture.

Every number is a mean over trials of the seed; a trial meets the same people in another order and
with other luck. Rows are kept in --out, so a run that was stopped goes on there.
"""

from __future__ import annotations

import argparse
import csv
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from croupier.figures.draw import pyplot
from croupier.figures.style import FONT, LINE_STYLES
from croupier.plan import Plan
from croupier.simulation import sweep
from croupier.simulation.data import PROBLEMS, DataProblem, sources
from croupier.simulation.data.base import split_in_half
from croupier.simulation.data.classification import Shipped
from croupier.simulation.data.movielens import MovieLens, film_statistics
from croupier.simulation.data.rewards import rewards
from croupier.simulation.data.sources import Ratings
from croupier.simulation.jobs import SweepJob
from croupier.simulation.problem import Users

EPSILON = 1.0
ALGORITHMS = {
    "non-private": "linucb",
    "central": "central",
    "shuffle": "vector-sum",
    "local": "local",
}
ORDER = ("movielens", "shuttle", "adult", "segments", "digits")
STEPS = (1_000, 3_000, 10_000, 30_000, 100_000, 300_000)
LONG = {"movielens": 1_000_000, "segments": 1_000_000}
"""One step further where it shows something: the local model, and 49 dimensions."""
WIDE = ("segments", "digits")
"""Problems of 50 dimensions, of which fewer trials are played."""


@dataclass(frozen=True)
class Row:
    """One algorithm on one data set for one number of users."""

    data: str
    users: int
    algorithm: str
    trials: int
    reward: float
    error: float
    last: float
    last_error: float

    @property
    def cells(self) -> tuple[object, ...]:
        """The values in the order of their names."""
        return tuple(vars(self).values())


def steps(problem: DataProblem, most: int) -> list[int]:
    """Numbers of users: everybody once, then as if there were more of them."""
    usual = {problem.players, *STEPS, LONG.get(problem.name, problem.players)}
    return sorted(users for users in usual if users <= max(most, problem.players))


def trials_of(problem: DataProblem, users: int) -> int:
    """Fewer where a trial takes long."""
    usual = 10 if problem.name in WIDE else 20
    return usual // 2 if users > 100_000 else usual


def jobs(problem: DataProblem, users: int) -> Iterator[SweepJob]:
    for label, protocol in ALGORITHMS.items():
        # Sized to its noise, the first of at most 64 batches would be too small for a million.
        first = users // 10_000 if label == "non-private" and users > 300_000 else None
        blocks = problem.blocks_of(problem.arms)
        plan = Plan.calibrate(
            protocol,
            honest_fraction=1.0,
            dim=problem.dim,
            blocks=blocks,
            constant_feature=problem.constant_of(problem.dim // (blocks or 1)),
            horizon=users,
            batch_size=first,
            epsilon=EPSILON,
            delta=1 / users**2,
        )
        yield SweepJob(label, plan, problem)


def measured(problem: DataProblem, users: int, trials: int, seed: int, out: Path) -> list[Row]:
    rows = []
    for job in jobs(problem, users):
        folder = out / "rows" / f"{problem.name}-{job.label}-{users}-{trials}-{seed}"
        (outcome,) = sweep.sweep([job], trials=trials, seed=seed, out=folder)
        found = rewards(outcome)
        overall, last = found.overall, found.last
        numbers = overall.value, overall.error, last.value, last.error
        rows.append(Row(problem.name, users, job.label, trials, *numbers))
        print(f"{problem.name} T={users} {job.label}: {overall}, last tenth {last}", flush=True)
    return rows


def public_alone(problem: DataProblem) -> float:
    """What the public half alone earns: its liked films, or least squares on its labels."""
    if isinstance(problem, MovieLens):
        return _liked_films(problem)
    assert isinstance(problem, Shipped)
    table, players = problem.table, problem.playing
    public, _ = split_in_half(len(table.labels), problem.split)
    classes = np.eye(problem.arms)[table.labels[public]]
    theta = np.linalg.lstsq(players.map(table.contexts[public]), classes, rcond=None)[0]
    return float(((players.contexts @ theta).argmax(axis=1) == players.labels).mean())


def _liked_films(problem: MovieLens) -> float:
    """Of every offer the film that the public half liked most, as far as features tell."""
    found = sources.ratings()
    known = np.isin(found.users, split_in_half(943, problem.split)[0])
    public = Ratings(found.users[known], found.films[known], found.stars[known])
    likes = film_statistics(public, 1682)[:, 0]
    theta = np.linalg.lstsq(problem.audience.films, likes, rcond=None)[0]
    world = problem.world(0, range(5))
    return float(np.mean([_earned(world.draw(index), theta) for index in range(40)]))


def _earned(users: Users, theta: np.ndarray) -> float:
    arm = (users.features @ theta).argmax(axis=-1)[..., None]
    return float(np.take_along_axis(users.means, arm, axis=-1).mean())


def write(rows: list[Row], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(Row.__dataclass_fields__)
        writer.writerows(row.cells for row in rows)


def tables(rows: list[Row]) -> str:
    """Markdown, one table a data set."""
    return "\n\n".join(_table(name, rows) for name in ORDER if any(r.data == name for r in rows))


def _table(name: str, rows: list[Row]) -> str:
    problem = PROBLEMS[name]()  # type: ignore[call-arg]
    mine = [row for row in rows if row.data == name]
    columns = sorted({row.users for row in mine})
    constant = problem.constant_reward
    lines = [
        f"`{name}`: uniform {problem.uniform_reward:.3f}, "
        + (f"best single arm {constant:.3f}, " if constant is not None else "")
        + f"public half alone {public_alone(problem):.3f}, best possible {problem.best_reward:.3f}",
        "",
        "| users T | " + " | ".join(f"{users:,}" for users in columns) + " |",
        "|---|" + "---|" * len(columns),
    ]
    for label in ALGORITHMS:
        found = {row.users: row for row in mine if row.algorithm == label}
        cells = (
            f"{found[u].reward:.3f} +- {found[u].error:.3f}" if u in found else "" for u in columns
        )
        lines.append(f"| {label} | " + " | ".join(cells) + " |")
    return "\n".join([*lines, "", _useful(mine, problem)])


def _useful(rows: list[Row], problem: DataProblem) -> str:
    """From how many users on an algorithm is half as far from chance as the non-private one."""
    free = {row.users: row.reward for row in rows if row.algorithm == "non-private"}
    halfway = {users: (problem.uniform_reward + reward) / 2 for users, reward in free.items()}
    words = f"Halfway from uniform play to non-private play from T = {_from(rows, halfway)}."
    if problem.constant_reward is None:
        return words
    single = dict.fromkeys(free, problem.constant_reward)
    return f"{words} Better than the best single arm from T = {_from(rows, single)}."


def _from(rows: list[Row], needed: dict[int, float]) -> str:
    words = []
    for label in ("central", "shuffle", "local"):
        mine = [row for row in rows if row.algorithm == label]
        reached = [row.users for row in mine if row.reward >= needed[row.users]]
        words.append(f"{min(reached):,} ({label})" if reached else f"never ({label})")
    return ", ".join(words)


def draw(rows: list[Row], path: Path) -> None:
    plt = pyplot()
    names = [name for name in ORDER if any(row.data == name for row in rows)]
    with plt.rc_context(FONT):
        canvas, axes = plt.subplots(
            1, len(names), figsize=(2.4 * len(names), 2.9), squeeze=False, layout="constrained"
        )
        for axis, name in zip(axes[0], names, strict=True):
            _panel(axis, PROBLEMS[name](), [row for row in rows if row.data == name])  # type: ignore[call-arg]
        axes[0][0].set_ylabel("mean reward of a round")
        handles, labels = axes[0][-1].get_legend_handles_labels()
        canvas.legend(handles, labels, loc="outside lower center", ncols=6, frameon=False)
        canvas.suptitle("Real data at epsilon 1, delta = 1/T$^2$", fontsize=9)
        canvas.savefig(path, dpi=200, metadata={"Software": None})
        plt.close(canvas)


def _panel(axis: Any, problem: DataProblem, rows: list[Row]) -> None:
    for label, protocol in ALGORITHMS.items():
        mine = [row for row in rows if row.algorithm == label]
        look = LINE_STYLES[protocol]
        axis.errorbar(
            [row.users for row in mine], [row.reward for row in mine],
            yerr=[row.error for row in mine], color=look.colour, marker=look.marker,
            markersize=3.5, linewidth=1, capsize=2, label=label,
        )  # fmt: skip
    axis.axhline(problem.uniform_reward, color="#8a8a8a", linestyle=":", label="uniform play")
    if problem.constant_reward is not None:
        axis.axhline(
            problem.constant_reward, color="#8a8a8a", linestyle="--", label="best single arm"
        )
    axis.set(xscale="log", title=f"{problem.name}, d = {problem.dim}", xlabel="users T")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", nargs="*", default=list(ORDER), choices=ORDER)
    parser.add_argument("--trials", type=int, help="3 to 20, by the time they take")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--most", type=int, default=1_000_000, help="users at most")
    parser.add_argument("--out", type=Path, default=Path("figures/real-data"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    rows: list[Row] = []
    for name in options.data:
        problem = PROBLEMS[name]()  # type: ignore[call-arg]
        for users in steps(problem, options.most):
            trials = options.trials or trials_of(problem, users)
            rows += measured(problem, users, trials, options.seed, options.out)
        write(rows, options.out / "real-data.csv")
    draw(rows, options.out / "real-data.png")
    print(tables(rows))


if __name__ == "__main__":
    main()
