"""What a demo's users would have got without privacy, or without any learning at all."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from croupier.analyzer import Analyzer
from croupier.client import Client
from croupier.plan import Plan
from croupier.service.demo.simulated_users import DeviceRound, SimulatedUsers
from croupier.shuffler import Batch, gather


@dataclass(frozen=True)
class BatchMeans:
    """Mean rewards of a batch's users: as they played, not private, and by arms at random."""

    batch: int
    users: int
    private: float
    not_private: float
    uniform: float


def compare(plan: Plan, played: Sequence[DeviceRound], people: SimulatedUsers) -> list[BatchMeans]:
    """Three policies on the same users in the same batches.

    Rewards are the means that decide the draws, so that luck is left out.
    """
    free = _without_noise(plan)
    learner = Analyzer(free)
    return [
        BatchMeans(
            index,
            len(members),
            float(np.mean([one.mean for one in members])),
            _reward_of_learner(free, learner, index, [one.user for one in members], people),
            float(np.mean([people.user(one.user)[1].mean() for one in members])),
        )
        for index, members in _complete_batches(plan, played)
    ]


def _complete_batches(
    plan: Plan, played: Iterable[DeviceRound]
) -> Iterable[tuple[int, list[DeviceRound]]]:
    members: dict[int, list[DeviceRound]] = {}
    for one in played:
        if one.batch is not None:
            members.setdefault(one.batch, []).append(one)
    return [
        (index, members[index])
        for index in sorted(members)
        if len(members[index]) == plan.users(index)
    ]


def _without_noise(plan: Plan) -> Plan:
    """The same batches and policy, and nothing added."""
    return Plan.calibrate(
        "noiseless",
        dim=plan.layout.dim,
        batch_size=plan.schedule.first,
        batches=plan.schedule.name,
        horizon=plan.schedule.horizon,
        policy=plan.policy.name,
        constant_feature=plan.layout.constant,
    )


def _reward_of_learner(
    free: Plan, learner: Analyzer, index: int, users: Sequence[int], people: SimulatedUsers
) -> float:
    """The mean reward of a batch by the model so far, which then learns from it."""
    reports, rewards = [], []
    for user in users:
        features, means, uniform = people.user(user)
        device = Client(free)
        device.update(learner.model, index)
        arm = int(device.choose(features).arm)
        rewards.append(means[arm])
        reports.append(device.report(features[arm], float(uniform < means[arm])).messages)
    learner.receive(Batch(free.id, index, gather(reports)))
    return float(np.mean(rewards))
