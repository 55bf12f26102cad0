"""The device: chooses with the published model, reports a randomised contribution."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from croupier.arguments import whole
from croupier.coins import Coins, SystemCoins
from croupier.contribution import checked_constant, checked_features, contribution
from croupier.errors import RefusedError
from croupier.model import Model
from croupier.plan import Plan
from croupier.policies.base import Choice
from croupier.protocols.base import require_protocol
from croupier.shuffler import Report


class Client:
    """One user's device. It keeps its own allowance and draws its own randomness."""

    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._protocol = require_protocol(plan.mechanism)
        self._coins: Coins = SystemCoins()
        self._model = plan.policy.first_model
        self._batch = 0
        self._reported: set[int] = set()

    @classmethod
    def _seeded(cls, plan: Plan, coins: Coins) -> Client:
        """For tests: a device whose randomness can be repeated."""
        client = cls(plan)
        client._coins = coins
        return client

    @property
    def remaining(self) -> int:
        """Reports that the plan still allows this user."""
        return self._plan.participations - len(self._reported)

    def update(self, model: Model, batch: int | None = None) -> None:
        """Take a newer model and the index of the open batch; going back is refused.

        Unless given, ``batch`` is the one after those that the model was learnt from. Where
        models are published rarely it is later.
        """
        if model.plan_id != self._plan.id:
            raise RefusedError(f"model is for plan {model.plan_id}, this is {self._plan.id}")
        if model.version < self._model.version:
            raise RefusedError(f"model version {model.version} is older than {self._model.version}")
        opened = model.version if batch is None else whole("batch", batch, model.version)
        if opened < self._batch:
            raise RefusedError(f"batch {opened} is older than {self._batch}")
        self._model, self._batch = model, opened

    def choose(self, features: ArrayLike, mask: ArrayLike | None = None) -> Choice:
        """The arm for this user's features ``(arms, dim)``; ``mask`` marks available arms."""
        layout = self._plan.layout
        checked = checked_constant(layout, checked_features(layout, features))
        if checked.ndim != 2 or len(checked) == 0:
            raise ValueError(f"features must have shape (arms, dim), got {checked.shape}")
        available = None if mask is None else np.asarray(mask, dtype=bool)
        if available is not None and available.shape != checked.shape[:1]:
            raise ValueError(f"mask must have shape {checked.shape[:1]}, got {available.shape}")
        scored = layout.score_features(checked)
        return self._plan.policy.choose(self._model, scored, self._coins, available)

    def report(self, feature: ArrayLike, reward: float) -> Report:
        """The randomised contribution for the open batch; spends one participation."""
        batch = self._batch
        if batch in self._reported:
            raise RefusedError(f"this device has already reported in batch {batch}")
        if self.remaining == 0:
            allowed = self._plan.participations
            raise RefusedError(f"this device has used all of its {allowed} participations")
        checked_constant(self._plan.layout, np.asarray(feature, dtype=float), "feature")
        row = contribution(self._plan.layout, feature, reward)
        messages = self._protocol.release(batch).randomize(row, self._coins)
        self._reported.add(batch)
        return Report(self._plan.id, batch, messages)
