"""Runs of ``simulate`` on data: which file, what it earned, and what its map cost."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rich.table import Table

from croupier.cli import screen
from croupier.plan import Plan
from croupier.privacy.composition import composed_epsilon
from croupier.privacy.guarantee import gaussian
from croupier.simulation.data import DataProblem, files, logged, own
from croupier.simulation.data.estimates import Estimate
from croupier.simulation.data.rewards import rewards
from croupier.simulation.data.sources import SOURCES
from croupier.simulation.outcomes import SweepOutcome
from croupier.simulation.problem import Problem


@dataclass(frozen=True)
class Named:
    """The file and columns that were named on the command line."""

    data: Path | None
    context: str | None
    label: str | None
    arm: str | None
    reward: str | None
    propensity: str | None
    bounds: str | None
    map_mu: float

    def __post_init__(self) -> None:
        """Columns are those of a file, and a file needs columns."""
        given = {name: value for name, value in vars(self).items() if name != "data" and value}
        if self.data is None and given:
            name, value = next(iter(given.items()))
            raise ValueError(f"{name.replace('_', '-')} is of --data, which is missing: {value!r}")
        if self.data is None:
            return
        if self.context is None:
            raise ValueError("context must name columns of --data, got None")
        if self.logged == (self.label is not None):
            raise ValueError(
                "data needs --label, or --arm, --reward and --propensity, and not both"
            )

    @property
    def logged(self) -> bool:
        """Whether the file is a log of what was played."""
        given = [value is not None for value in (self.arm, self.reward, self.propensity)]
        if any(given) and not all(given):
            raise ValueError("logged data needs all of --arm, --reward and --propensity")
        return all(given)

    @property
    def columns(self) -> list[str]:
        """The names in ``--context``."""
        return [name.strip() for name in (self.context or "").split(",") if name.strip()]

    def scaling(self, columns: tuple[str, ...]) -> own.Scaling:
        """How contexts are scaled."""
        if self.bounds is None:
            return own.Scaling(None, self.map_mu)
        return own.Scaling(own.declared(self.bounds, columns, self.columns), self.map_mu)


def problem_of(named: Named, plan: Plan, arms: int | None) -> Problem:
    """The labelled file as a problem in the plan's dimension."""
    if arms is not None:
        raise ValueError(f"arms are the values of --label and must be left out, got {arms}")
    plain = own.OwnFile.read(str(named.data), named.columns, str(named.label))
    return replace(plain, scaling_of=named.scaling(plain.table.columns)).fitted(plan)


def evaluate(named: Named, plan: Plan, seed: int, as_json: bool) -> None:
    """Print what a plan would have earned on a log."""
    columns = str(named.arm), str(named.reward), str(named.propensity)
    log = files.read_log(str(named.data), named.columns, *columns)
    found = logged.evaluate(plan, log, seed=seed, scaling=named.scaling(log.table.columns))
    charge = _charge(plan, named.map_mu)
    screen.emit({**found.document(), **charge}, _estimates(found.estimates), as_json)
    if not as_json:
        print(
            f"Replay accepted {found.accepted} of {found.replayed} rows, which filled "
            f"{found.batches} of the plan's {found.planned_batches} batches; the other estimates "
            "are those of the last model on the other rows."
        )
        print(
            f"The mean of 1/propensity is {found.mean_inverse:.2f}; with true propensities it is "
            f"near the number of arms, {found.arms}."
        )
        _print_scaling(found.scaling, charge)


def _estimates(estimates: tuple[Estimate, ...]) -> Table:
    table = Table("estimate", box=None, header_style="bold")
    for name in ("mean reward", "95 % from", "to", "rows"):
        table.add_column(name, justify="right")
    for one in estimates:
        numbers = (f"{value:.4f}" for value in (one.value, one.low, one.high))
        table.add_row(one.name, *numbers, str(one.rows))
    return table


def document(outcome: SweepOutcome, map_mu: float) -> dict[str, Any]:
    """What a run on data adds to the JSON of a run."""
    problem = outcome.job.problem
    if not isinstance(problem, DataProblem):
        return {}
    return {
        **rewards(outcome).document(),
        "players": problem.players,
        "scaling": problem.scaling,
        "licence": SOURCES[problem.name].licence if problem.name in SOURCES else None,
        **_charge(outcome.job.plan, map_mu),
    }


def print_rewards(outcome: SweepOutcome, map_mu: float) -> None:
    """Rewards of a run on data beside those of chance and of who knows all."""
    problem = outcome.job.problem
    if not isinstance(problem, DataProblem):
        return
    found = rewards(outcome)
    constant = "" if found.constant is None else f"best single arm {found.constant:.3f}, "
    print(
        f"Mean reward: {found.overall}, in the last tenth {found.last}; uniform play "
        f"{found.uniform:.3f}, {constant}best possible {found.best:.3f}."
    )
    rounds = outcome.job.plan.schedule.rounds
    print(
        f"{problem.players} people play, each {rounds / problem.players:.1f} times, as if somebody "
        f"new: the guarantee is that of {rounds} users who come once."
    )
    _print_scaling(problem.scaling, _charge(outcome.job.plan, map_mu))
    if problem.name in SOURCES:
        source = SOURCES[problem.name]
        print(f"Data: {source.file} of the installed {source.package}; {source.licence}.")


def _charge(plan: Plan, mu: float) -> dict[str, Any]:
    """Epsilon of plan and map together, where the map costs something."""
    if not mu or plan.budget is None:
        return {}
    delta = plan.budget.delta
    return {
        "map_mu": mu,
        "epsilon_with_map": composed_epsilon(
            [plan.promise, gaussian(mu, "means and squares with Gaussian noise")], delta
        ),
        "delta": delta,
    }


def _print_scaling(words: str, charge: dict[str, Any]) -> None:
    print(f"Features: scaled by a map that is {words}.")
    if charge:
        print(
            f"Plan and map together: epsilon {charge['epsilon_with_map']:.4g} at delta "
            f"{charge['delta']:g}."
        )
