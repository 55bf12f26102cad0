from __future__ import annotations

import pytest

from croupier.plan import Plan
from croupier.privacy.gdp import mu_of
from croupier.simulation.audit import audit
from croupier.simulation.engine import run
from croupier.simulation.synthetic import Sphere

PRIVATE = ("vector-sum", "amplified-gaussian", "local", "central")


def plan(protocol: str, batches: str = "growing", **more: object) -> Plan:
    asked: dict[str, object] = {"dim": 3, "epsilon": 2.0, "delta": 1e-4, "horizon": 3000, **more}
    return Plan.calibrate(protocol, batches=batches, **asked)  # type: ignore[arg-type]


@pytest.mark.parametrize("batches", ["growing", "doubling"])
@pytest.mark.parametrize("protocol", [*PRIVATE, "noiseless", "linucb"])
def test_every_batch_is_calibrated_for_its_own_size(protocol: str, batches: str) -> None:
    made = plan(protocol, batches)
    assert made.met
    assert [release.users for release in made.mechanism.releases] == list(made.schedule.sizes())
    assert Plan.from_json(made.to_json()) == made


def test_bits_stay_few_and_the_grid_grows_with_the_batch() -> None:
    releases = plan("vector-sum", honest_fraction=1.0).mechanism.releases
    grids = [release.parameters["grid"] for release in releases[:-1]]
    assert grids == sorted(grids)
    floor = 1.125**0.5 / mu_of(2.0, 1e-4)
    assert all(release.noise_std <= 1.05 * floor * (1 + 1e-9) for release in releases)


@pytest.mark.parametrize("protocol", PRIVATE)
def test_returning_users_are_paid_for_over_the_batches_there_are(protocol: str) -> None:
    once, often = plan(protocol), plan(protocol, max_participations=3)
    assert often.met
    assert often.release(0).privacy_noise_std > once.release(0).privacy_noise_std


def test_a_horizon_is_not_needed() -> None:
    made = plan("vector-sum", horizon=None)
    assert made.content["horizon"] is None
    assert made.schedule.batches == 64
    assert Plan.from_json(made.to_json()) == made


def test_all_rounds_are_played_and_released() -> None:
    made = plan("vector-sum")
    curves = run(made, Sphere(3, 5), 0, range(2), points=10)
    assert curves.rounds[-1] == 3000


def test_a_growing_plan_passes_its_audit() -> None:
    report = audit(plan("vector-sum"), trials=20_000)
    assert not report.flagged
