"""A device of a plan that has ended, at a shuffler that serves the successor by now."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest

from croupier.service.device.upload import UploadOutcome

from ..in_process_deployment import Town, town
from .test_verification import ARMS, learn, plan

GRACE = 60.0


@pytest.fixture
def here() -> Iterator[Town]:
    """Its plan has ended."""
    with town(plan(horizon=4)) as made:
        with made.device(0) as device:
            device.reward(device.choose(ARMS), 1.0)
        learn(made, range(2, 4))
        learn(made, range(4, 6))
        yield made


def test_what_a_device_has_queued_ends_with_its_plan(here: Town) -> None:
    here.succeed(plan(epsilon=5.0))
    with here.device(0) as device:
        assert device.waiting
        assert device.flush() is UploadOutcome.ENDED
        assert not device.waiting
        assert device.refresh().version == 2


def test_a_new_device_still_finds_the_last_model_of_the_plan(here: Town) -> None:
    here.succeed(plan(epsilon=5.0))
    with here.device(9) as device:
        assert device.model.version == 2
        device.reward(device.choose(ARMS), 1.0)
        assert device.flush() is UploadOutcome.ENDED


def test_the_last_model_of_the_plan_is_signed_anew_after_a_rotation(here: Town) -> None:
    here.succeed(plan(epsilon=5.0))
    ring = here.analyzer.parts.keyring
    ring.new()
    ring.rotate(grace=GRACE)
    here.carry()
    with here.device(9) as device:
        ring.retire(time.time() + GRACE + 1)
        here.carry()
    with here.device(9, here.trusting_new_keys()) as device:
        assert device.model.version == 2
