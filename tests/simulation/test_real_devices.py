from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest

from croupier.coins import Coins
from croupier.layouts import Layout
from croupier.plan import Plan
from croupier.protocols.amplified_gaussian import AmplifiedGaussianRelease
from croupier.protocols.base import Floats
from croupier.protocols.vector_release import VectorSumRelease
from croupier.shuffler import Messages
from croupier.simulation.real_devices import FALSE_ALARM, DeviceCheck, check_devices

SECONDS = 1.0


def plan(protocol: str) -> Plan:
    return Plan.calibrate(protocol, dim=3, batch_size=20, horizon=200, epsilon=4.0, delta=1e-3)


def contribution(layout: Layout) -> Floats:
    return layout.encode(np.array([0.6, -0.8, 0.0]), np.asarray(1.0))


def checked(made: Plan, release: object) -> DeviceCheck:
    planted = replace(made.mechanism, releases=(release,))  # type: ignore[arg-type]
    found = check_devices(planted, contribution(made.layout), SECONDS, seed=0)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "protocol", ["vector-sum", "amplified-gaussian", "noiseless", "concurrent-tree"]
)
def test_honest_devices_follow_the_law(protocol: str) -> None:
    made = plan(protocol)
    found = check_devices(made.mechanism, contribution(made.layout), SECONDS, seed=0)
    assert found is not None
    # Devices cannot be seeded, so this fails once in 100,000 runs.
    assert found.agrees
    assert found.runs >= 30


def test_a_baseline_has_no_devices() -> None:
    made = plan("local")
    assert check_devices(made.mechanism, contribution(made.layout), SECONDS, seed=0) is None


class Silent(VectorSumRelease):
    """Devices that send no noise."""

    def randomize(self, contribution: Floats, coins: Coins) -> Messages:
        quiet = VectorSumRelease(self.layout, self.users, self.grid, 0, self.bias)
        sent = quiet.randomize(contribution, coins)
        half = np.resize([1, 0], (self.noise_bits, 1)).astype(np.uint8)
        return {label: np.concatenate([bits, half]) for label, bits in sent.items()}


class OneDraw(AmplifiedGaussianRelease):
    """Devices that use one noise draw for all coordinates."""

    def randomize(self, contribution: Floats, coins: Coins) -> Messages:
        quiet = AmplifiedGaussianRelease(self.layout, self.users, 1e-6)
        noise = coins.discrete_gaussian(self.noise_units, 1)
        return {name: rows + noise for name, rows in quiet.randomize(contribution, coins).items()}


class Weak(AmplifiedGaussianRelease):
    """Devices whose noise is a third of what they say, which 30 runs on a busy machine show."""

    def randomize(self, contribution: Floats, coins: Coins) -> Messages:
        third = AmplifiedGaussianRelease(self.layout, self.users, self.sigma / 3)
        return third.randomize(contribution, coins)


def test_faults_of_devices_alone_are_seen() -> None:
    bits, reports = plan("vector-sum"), plan("amplified-gaussian")
    own = bits.release(0).parameters
    sigma = reports.release(0).parameters["sigma"]
    assert not checked(bits, Silent(bits.layout, 20, **own)).agrees
    assert not checked(reports, Weak(reports.layout, 20, sigma)).agrees
    assert not checked(reports, OneDraw(reports.layout, 20, sigma)).agrees


def test_a_check_agrees_down_to_its_false_alarm_rate() -> None:
    assert DeviceCheck(30, FALSE_ALARM).agrees
    assert not DeviceCheck(30, math.nextafter(FALSE_ALARM, 0.0)).agrees
