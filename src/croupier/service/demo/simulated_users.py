"""Simulated users of a problem, each with a device, an account and a directory of their own.

Run as a module it plays the users of one worker process and prints a line of JSON for each.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import numpy as np

from croupier.service.device.device import Device
from croupier.service.device.settings import DeviceSettings
from croupier.service.device.upload import UploadOutcome
from croupier.wire import Transport

if TYPE_CHECKING:
    from croupier.simulation.problem import Users

THREADS = 8
PATIENCE = 120.0


@dataclass(frozen=True)
class WorkerTask:
    """Who takes part: users ``first``, ``first + step``, ... of one seed's world."""

    settings: DeviceSettings
    directory: str
    dim: int
    arms: int
    seed: int
    users: int
    first: int = 0
    step: int = 1

    def to_json(self) -> str:
        """One line."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> WorkerTask:
        """Read it back."""
        told = json.loads(text)
        fixed = told["settings"]
        for name in ("shuffler_keys", "analyzer_keys", "witness_keys"):
            fixed[name] = tuple(fixed[name])
        fixed["transport"] = Transport(fixed["transport"])
        return cls(**{**told, "settings": DeviceSettings(**fixed)})


@dataclass(frozen=True)
class DeviceRound:
    """What one user's device did: the arm, what it is worth, and the batch that has its report.

    ``batch`` is None where the report did not get in; ``outcome`` says why.
    """

    user: int
    arm: int
    mean: float
    batch: int | None
    outcome: str


class SimulatedUsers:
    """The users of one seed: the same whatever anybody does."""

    def __init__(self, dim: int, arms: int, seed: int) -> None:
        # A service never simulates; only a demo makes its users up.
        from croupier.simulation.problem import BLOCK
        from croupier.simulation.synthetic import Contextual

        self.block = BLOCK
        self._world = Contextual(dim, arms).world(seed, range(1))
        self._blocks: dict[int, Users] = {}

    def user(self, index: int) -> tuple[np.ndarray, np.ndarray, float]:
        """Features ``(arms, dim)``, mean rewards ``(arms,)`` and the draw that decides rewards."""
        block, place = divmod(index, self.block)
        if block not in self._blocks:
            self._blocks[block] = self._world.block(block)
        found = self._blocks[block]
        return found.features[0, place], found.means[0, place], float(found.uniforms[0, place])


def demo_account(seed: int, user: int) -> bytes:
    """32 opaque bytes, as a deployer's authentication would give."""
    return hashlib.sha256(f"croupier demo account {seed} {user}".encode()).digest()


def play(crowd: WorkerTask, people: SimulatedUsers, user: int, http: httpx.Client) -> DeviceRound:
    """One user: fetch the model, play an arm, report the reward."""
    features, means, uniform = people.user(user)
    home = Path(crowd.directory) / f"{user:06d}"
    with Device(crowd.settings, demo_account(crowd.seed, user), home, http=http) as device:
        device.refresh()
        ticket = device.choose(features)
        device.reward(ticket, float(uniform < means[ticket.arm]))
        outcome = device.flush(PATIENCE)
        batch = device.accepted[-1] if outcome is UploadOutcome.ACCEPTED else None
        why = outcome.name.lower() if batch is not None else device.trouble or outcome.name.lower()
    return DeviceRound(user, ticket.arm, float(means[ticket.arm]), batch, why)


def play_all(crowd: WorkerTask, http: httpx.Client) -> Iterator[DeviceRound]:
    """Every user of the crowd, several at a time, in order."""
    people = SimulatedUsers(crowd.dim, crowd.arms, crowd.seed)
    wanted = range(crowd.first, crowd.users, crowd.step)
    for user in range(0, crowd.users, people.block):
        people.user(user)  # drawn before the threads start
    pool = ThreadPoolExecutor(THREADS)
    try:
        yield from pool.map(lambda user: play(crowd, people, user, http), wanted)
    finally:
        pool.shutdown(cancel_futures=True)


def main() -> None:
    """Play the crowd that the only argument describes."""
    with httpx.Client(trust_env=False) as http:
        for played in play_all(WorkerTask.from_json(sys.argv[1]), http):
            print(json.dumps(asdict(played)), flush=True)


if __name__ == "__main__":
    main()
