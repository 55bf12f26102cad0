"""Mean rewards by batch for the analyzer's console, kept by the demo: nobody else knows them."""

from __future__ import annotations

import json
from pathlib import Path

from croupier.plan import Plan
from croupier.service.demo.simulated_users import DeviceRound

FILE = "rewards.json"
SETTING = f'rewards = "{FILE}"\n'


class RewardFile:
    """A file with the mean reward of every complete batch, replaced as a whole."""

    def __init__(self, path: Path, plan: Plan) -> None:
        self._path = path
        self._plan = plan
        self._means: dict[int, list[float]] = {}

    def add(self, played: DeviceRound) -> None:
        """Note a user; the file is written when that completes a batch."""
        if played.batch is None:
            return
        members = self._means.setdefault(played.batch, [])
        members.append(played.mean)
        if len(members) == self._plan.users(played.batch):
            self._write()

    def _write(self) -> None:
        told = [
            {"batch": batch, "mean": sum(means) / len(means)}
            for batch, means in sorted(self._means.items())
            if len(means) == self._plan.users(batch)
        ]
        draft = self._path.with_suffix(".draft")
        draft.write_text(json.dumps(told))
        draft.replace(self._path)
