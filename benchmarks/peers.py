"""LinUCB with one linear model for all arms: other bandit libraries and croupier in one run.

Everybody has the same regulariser, the same width and the same users. Libraries that have one
model per arm are declared with one arm, whose bound is asked for at every arm's features. First
all are shown the same history and must choose the same arms; then each plays by itself, on arm sets
from a pool that is drawn before, and its CPU time is taken. Run by `make bench-peers`, in an
environment of its own.
"""

from __future__ import annotations

import argparse
import os
import time
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from importlib import import_module
from importlib.metadata import version
from typing import Any, ClassVar

import numpy as np
from bench import reference_loop
from numpy.typing import NDArray

from croupier.model import ReleasedSums
from croupier.plan import Plan
from croupier.policies.ucb import Ucb
from croupier.simulation.problem import BLOCK
from croupier.simulation.sweep import simulate
from croupier.simulation.synthetic import Pooled

DIM, ARMS, BATCH = 5, 100, 20
WIDTH = REGULARIZER = 1.0
TIE = 1e-9
Floats = NDArray[np.float64]
Arms = NDArray[np.intp]


class Peer(ABC):
    """A library's LinUCB that has learnt nothing yet."""

    name: ClassVar[str]
    package: ClassVar[str]

    @abstractmethod
    def choose(self, features: Floats) -> Arms:
        """Arms ``(rounds,)`` for ``features (rounds, arms, dim)``."""

    @abstractmethod
    def learn(self, features: Floats, rewards: Floats) -> None:
        """Rewards ``(rounds,)`` of the features ``(rounds, dim)`` that were chosen."""


class MabWiser(Peer):
    """One arm, fitted once to a row of zeros, which teaches nothing."""

    name, package = "MABWiser LinUCB", "mabwiser"

    def __init__(self) -> None:
        module = import_module("mabwiser.mab")
        policy = module.LearningPolicy.LinUCB(alpha=WIDTH, l2_lambda=REGULARIZER)
        self._bandit: Any = module.MAB([0], policy)
        self._bandit.fit([0], [0.0], np.zeros((1, DIM)))

    def choose(self, features: Floats) -> Arms:
        """The best of the only arm's expectations."""
        expected = self._bandit.predict_expectations(features.reshape(-1, DIM))
        return best(np.fromiter((row[0] for row in expected), np.float64, len(expected)))

    def learn(self, features: Floats, rewards: Floats) -> None:
        """All at once."""
        self._bandit.partial_fit(np.zeros(len(rewards)), rewards, features)


class ContextualBandits(Peer):
    """Two arms, since it insists on that; the second one is never played."""

    name, package = "contextualbandits LinUCB", "contextualbandits"

    def __init__(self) -> None:
        self._bandit: Any = import_module("contextualbandits.online").LinUCB(
            nchoices=2, alpha=WIDTH, lambda_=REGULARIZER, fit_intercept=False, use_float=False,
            ucb_from_empty=True, beta_prior=None, random_state=1,
        )  # fmt: skip
        self.learn(np.zeros((1, DIM)), np.zeros(1))

    def choose(self, features: Floats) -> Arms:
        """The best of the first arm's bounds."""
        return best(self._bandit.decision_function(features.reshape(-1, DIM))[:, 0])

    def learn(self, features: Floats, rewards: Floats) -> None:
        """All at once."""
        self._bandit.partial_fit(features, np.zeros(len(rewards), dtype=np.int64), rewards)


class LinearRegression(Peer):
    """The regression below that LinUCB, without its bandit."""

    name, package = "contextualbandits linreg", "contextualbandits"

    def __init__(self) -> None:
        linear = import_module("contextualbandits.linreg").LinearRegression
        settings = {"fit_intercept": False, "method": "sm", "use_float": False}
        self._model: Any = linear(lambda_=REGULARIZER, **settings)
        self.learn(np.zeros((1, DIM)), np.zeros(1))

    def choose(self, features: Floats) -> Arms:
        """The best upper bound."""
        return best(self._model.predict_ucb(features.reshape(-1, DIM), WIDTH))

    def learn(self, features: Floats, rewards: Floats) -> None:
        """All at once."""
        self._model.partial_fit(np.ascontiguousarray(features), rewards)


class Coba(Peer):
    """Arms are their features; its regulariser is always 1."""

    name, package = "coba LinUCBLearner", "coba"

    def __init__(self) -> None:
        learners = import_module("coba.learners")
        self._learner: Any = learners.LinUCBLearner(alpha=WIDTH, features=["a"])

    def choose(self, features: Floats) -> Arms:
        """One user at a time."""
        return np.array([self._choose(rows.tolist()) for rows in features])

    def _choose(self, actions: list[list[float]]) -> int:
        return actions.index(self._learner.predict(None, actions)[0])

    def learn(self, features: Floats, rewards: Floats) -> None:
        """One reward at a time."""
        for action, reward in zip(features.tolist(), rewards.tolist(), strict=True):
            self._learner.learn(None, action, reward, 1.0)


def best(scores: Floats) -> Arms:
    """The first best arm of every round ``(rounds,)``."""
    arms: Arms = np.argmax(scores.reshape(-1, ARMS), axis=1)
    return arms


PEERS: tuple[type[Peer], ...] = (MabWiser, ContextualBandits, LinearRegression, Coba)

UNABLE = {
    "river": "LinUCBDisjoint shows all arms one context, gives no bound to ask for, and adds the "
    "noise of a reward to the width",
    "obp": "LinUCB shows all arms one context and gives no bound to ask for; needs torch",
}
"""Libraries whose LinUCB cannot have one linear model for all arms, and why."""


@dataclass(frozen=True)
class Visits:
    """Users of a problem, one after the other.

    ``features (rounds, arms, dim)``, ``means (rounds, arms)``, ``uniforms (rounds,)``.
    """

    features: Floats
    means: Floats
    uniforms: Floats

    @classmethod
    def drawn(cls, rounds: int, seed: int) -> Visits:
        """What the simulator's first trial meets."""
        world = Pooled(DIM, ARMS).world(seed, range(1))
        starts = range(0, rounds, BLOCK)
        blocks = [world.users(start, min(start + BLOCK, rounds)) for start in starts]
        return cls(
            np.ascontiguousarray(np.concatenate([block.features[0] for block in blocks])),
            np.concatenate([block.means[0] for block in blocks]),
            np.concatenate([block.uniforms[0] for block in blocks]),
        )

    def __len__(self) -> int:
        return len(self.uniforms)

    def outcome(self, rounds: slice, arms: Arms) -> tuple[Floats, Floats]:
        """Features ``(rounds, dim)`` and rewards ``(rounds,)`` of the arms that were chosen."""
        index = np.arange(len(arms))
        rewards = self.uniforms[rounds] < self.means[rounds][index, arms]
        return self.features[rounds][index, arms], rewards.astype(np.float64)


def plan_for(rounds: int, batch: int) -> Plan:
    """Croupier's own LinUCB with the same numbers."""
    plan = Plan.calibrate(
        "linucb", dim=DIM, batch_size=batch, horizon=rounds, calibration="released"
    )
    if not isinstance(plan.policy, Ucb):
        raise TypeError(f"policy must be ucb, got {plan.policy.name}")
    return replace(plan, policy=replace(plan.policy, regularizer=REGULARIZER, radius=WIDTH))


def history(visits: Visits, batch: int) -> tuple[Arms, NDArray[np.bool_]]:
    """What croupier's deployed policy chooses, and where another arm was as good."""
    policy = plan_for(len(visits), batch).policy
    vector, matrix = np.zeros(DIM), np.zeros((DIM, DIM))
    chosen, tied = [], []
    for rounds in spans(len(visits), batch):
        model = policy.model(ReleasedSums(vector, matrix, rounds.start, rounds.start // batch, 0.0))
        choices = [policy.choose(model, features) for features in visits.features[rounds]]
        arms = np.array([int(choice.arm) for choice in choices])
        tops = np.array([np.partition(choice.scores, -2)[-2:] for choice in choices])
        features, rewards = visits.outcome(rounds, arms)
        vector, matrix = vector + rewards @ features, matrix + features.T @ features
        chosen.append(arms)
        tied.append(tops[:, 1] - tops[:, 0] < TIE * np.abs(tops[:, 1]))
    return np.concatenate(chosen), np.concatenate(tied)


def spans(rounds: int, batch: int) -> list[slice]:
    """The batches of some rounds."""
    return [slice(start, min(start + batch, rounds)) for start in range(0, rounds, batch)]


def agreement(peer: Peer, visits: Visits, batch: int, chosen: Arms) -> NDArray[np.bool_]:
    """Where a peer that is shown croupier's history would have chosen the same arm."""
    said = []
    for rounds in spans(len(visits), batch):
        said.append(peer.choose(visits.features[rounds]))
        peer.learn(*visits.outcome(rounds, chosen[rounds]))
    same: NDArray[np.bool_] = np.concatenate(said) == chosen
    return same


def peer_rate(peer: Peer, visits: Visits, batch: int) -> float:
    """Rounds per CPU-second of a peer that plays by itself; drawing the users is not counted."""
    start = time.process_time()
    for rounds in spans(len(visits), batch):
        peer.learn(*visits.outcome(rounds, peer.choose(visits.features[rounds])))
    return len(visits) / (time.process_time() - start)


def croupier_rate(rounds: int, trials: int, batch: int) -> float:
    """Rounds per CPU-second of ``simulate``, drawing the pool and the rewards included."""
    problem = Pooled(DIM, ARMS)
    simulate(plan_for(2 * batch, batch), problem, trials=2)  # compiled before the clock starts
    start = time.process_time()
    simulate(plan_for(rounds, batch), problem, trials=trials)
    return rounds * trials / (time.process_time() - start)


def reference_rate(rounds: int) -> float:
    """Rounds per CPU-second of the plain numpy loop."""
    start = time.process_time()
    reference_loop(rounds, 0)
    return rounds / (time.process_time() - start)


def check_simulator(visits: Visits, batch: int, chosen: Arms) -> float:
    """The regret of croupier's choices; ``simulate`` must have the same."""
    means = visits.means
    regret = float((means.max(axis=1) - means[np.arange(len(chosen)), chosen]).sum())
    outcome = simulate(plan_for(len(visits), batch), Pooled(DIM, ARMS), trials=1)
    if not np.isclose(outcome.regret[0, -1], regret, rtol=1e-9):
        raise SystemExit(f"simulate has regret {outcome.regret[0, -1]}, the policy has {regret}")
    return regret


def present() -> list[type[Peer]]:
    """Peers that are installed; says of the others why not."""
    found = []
    for peer in PEERS:
        try:
            peer()
        except ImportError as error:
            print(f"{peer.name}: left out, {error}")
        else:
            found.append(peer)
    for package, reason in UNABLE.items():
        print(f"{package}: left out, cannot share one linear model: {reason}")
    return found


def compare(peers: list[type[Peer]], batch: int, options: argparse.Namespace) -> None:
    """One table: who chose the same, and how fast."""
    checked, timed = Visits.drawn(options.checked, 0), Visits.drawn(options.rounds, 1)
    chosen, tied = history(checked, batch)
    regret = check_simulator(checked, batch, chosen)
    print(
        f"\nbatches of {batch}: {tied.sum()} of {len(chosen)} rounds are ties; `simulate` has the"
    )
    print(f"policy's regret, {regret:.2f}")
    rows: list[tuple[str, str, float]] = []
    for peer in peers:
        same = agreement(peer(), checked, batch, chosen)[~tied]
        words = f"{same.sum()} of {same.size}"
        rows.append(
            (f"{peer.name} {version(peer.package)}", words, peer_rate(peer(), timed, batch))
        )
    if batch == 1:
        rows.append(("plain numpy loop", "", reference_rate(options.rounds)))
    own = croupier_rate(options.horizon, options.trials, batch)
    rows.append((f"croupier {version('croupier')} simulate", "", own))
    print(f"{'':<34}{'same arms':>16}{'rounds/CPU-s':>14}{'croupier is':>14}")
    for name, words, speed in rows:
        print(f"{name:<34}{words:>16}{speed:>14,.0f}{own / speed:>12.1f} x")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--checked", type=int, default=2000, help="rounds of the common history")
    parser.add_argument("--rounds", type=int, default=4000, help="rounds that peers are timed for")
    parser.add_argument("--horizon", type=int, default=40_000, help="rounds of a croupier trial")
    parser.add_argument("--trials", type=int, default=10)
    options = parser.parse_args()
    threads = os.environ.get("OPENBLAS_NUM_THREADS", "all")
    print(
        f"d = {DIM}, {ARMS} arms, lambda = {REGULARIZER:g}, alpha = {WIDTH:g}, threads: {threads}"
    )
    peers = present()
    for batch in (1, BATCH):
        compare(peers, batch, options)


if __name__ == "__main__":
    main()
