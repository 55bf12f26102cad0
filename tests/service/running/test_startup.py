"""What must not be run is refused at the start, in one line."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from croupier.errors import CroupierError
from croupier.plan import Plan
from croupier.privacy.budget import Budget
from croupier.service.analyzer.parts import assemble_analyzer
from croupier.service.settings import KeySettings, PeerSettings, Settings
from croupier.service.shuffler.parts import assemble_shuffler
from croupier.service.startup import (
    StartError,
    check_clock,
    check_entropy,
    read_checked_plan,
    read_peer_keys,
)
from croupier.wire import Transport

from .deployment import Roles, made_plan


@pytest.fixture
def settings(roles_of: Callable[[Transport], Roles]) -> Settings:
    return roles_of(Transport.BITS).shuffler.settings


@pytest.fixture
def analyzer(roles_of: Callable[[Transport], Roles]) -> Settings:
    return roles_of(Transport.BITS).analyzer.settings


def refused(work: Callable[[], object], words: str) -> None:
    with pytest.raises(CroupierError) as found:
        work()
    assert words in str(found.value)
    assert "\n" not in str(found.value)


def with_plan(settings: Settings, tmp_path: Path, plan: Plan | str) -> Settings:
    path = tmp_path / "plan.json"
    path.write_text(plan if isinstance(plan, str) else plan.to_json())
    return replace(settings, plan=path)


def test_a_database_of_the_other_role_is_refused(settings: Settings, analyzer: Settings) -> None:
    shared = replace(settings, database=analyzer.database)
    refused(lambda: assemble_shuffler(shared), "is the analyzer's; the shuffler needs its own")


def test_keys_of_the_other_role_are_refused(settings: Settings, analyzer: Settings) -> None:
    shared = replace(settings, keys=analyzer.keys)
    refused(lambda: assemble_shuffler(shared), "has keys of the analyzer, not shuffler")


def test_settings_of_the_other_role_are_refused(settings: Settings, analyzer: Settings) -> None:
    refused(
        lambda: assemble_analyzer(settings), "the settings are for the shuffler, this is analyzer"
    )
    refused(
        lambda: assemble_shuffler(analyzer), "the settings are for the analyzer, this is shuffler"
    )


def test_a_plan_that_claims_more_than_it_keeps_is_refused(
    settings: Settings, tmp_path: Path
) -> None:
    """Its noise was made for epsilon 8; its document is otherwise in order."""
    given = with_plan(settings, tmp_path, replace(made_plan(), budget=Budget(1.0, 0.01)))
    refused(
        lambda: read_checked_plan(given), "claims epsilon 1 at delta 0.01, its guarantee computed"
    )


def test_a_plan_whose_claim_was_altered_is_refused(settings: Settings, tmp_path: Path) -> None:
    document = json.loads(made_plan().to_json())
    document["budget"]["epsilon"] = 0.01
    given = with_plan(settings, tmp_path, json.dumps(document))
    refused(lambda: read_checked_plan(given), "plan id is")


def test_a_baseline_is_refused(settings: Settings, tmp_path: Path) -> None:
    plan = Plan.calibrate(
        "local", dim=3, batch_size=10, horizon=20, calibration="released", epsilon=1.0, delta=0.1
    )
    given = with_plan(settings, tmp_path, plan)
    refused(lambda: read_checked_plan(given), "local is a baseline for simulations")


@pytest.mark.parametrize(
    ("protocol", "transport", "fitting"),
    [
        ("vector-sum", Transport.SEALED, "bits, shares"),
        ("amplified-gaussian", Transport.BITS, "sealed"),
        ("amplified-gaussian", Transport.SHARES, "sealed"),
    ],
)
def test_a_transport_that_does_not_fit_the_protocol_is_refused(
    roles_of: Callable[[Transport], Roles], protocol: str, transport: Transport, fitting: str
) -> None:
    kept = Transport.BITS if protocol == "vector-sum" else Transport.SEALED
    given = replace(roles_of(kept).shuffler.settings, transport=transport, trust_devices=True)
    refused(lambda: read_checked_plan(given), f"transport must be one of {fitting} for {protocol}")


def test_a_missing_plan_is_named(settings: Settings, tmp_path: Path) -> None:
    given = replace(settings, plan=tmp_path / "none.json")
    refused(lambda: read_checked_plan(given), "none.json: No such file")


def test_a_wrong_passphrase_and_open_keys_are_refused(settings: Settings, tmp_path: Path) -> None:
    wrong = tmp_path / "passphrase"
    wrong.write_text("wrong")
    wrong.chmod(0o600)
    given = replace(settings, keys=KeySettings(settings.keys.directory, wrong))
    refused(lambda: assemble_shuffler(given), "the passphrase is wrong")
    shutil.copytree(settings.keys.directory, tmp_path / "keys")
    (tmp_path / "keys").chmod(0o755)
    given = replace(settings, keys=KeySettings(tmp_path / "keys", settings.keys.passphrase_file))
    refused(lambda: assemble_shuffler(given), "is open to others")


def test_a_machine_without_randomness_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    def nothing(_count: int, _flags: int) -> bytes:
        raise BlockingIOError("not seeded")

    monkeypatch.setattr(os, "getrandom", nothing)
    refused(check_entropy, "gives no randomness")
    monkeypatch.setattr(os, "getrandom", lambda count, _flags: bytes(count))
    refused(check_entropy, "repeats itself")


def test_a_clock_before_this_software_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(time, "time", lambda: 1.6e9)
    with pytest.raises(StartError, match="the clock says 1600000000 seconds since 1970"):
        check_clock()


def test_several_signing_keys_are_trusted_around_a_rotation(tmp_path: Path) -> None:
    path = tmp_path / "keys"
    path.write_text(f"{'ab' * 32}\n{'cd' * 32}\n")
    assert len(read_peer_keys(PeerSettings(signing_key_file=path))) == 2
    path.write_text("\n")
    refused(lambda: read_peer_keys(PeerSettings(signing_key_file=path)), "has no key")
    refused(lambda: read_peer_keys(PeerSettings(signing_key="abc")), "must be 64 hex digits")
    refused(
        lambda: read_peer_keys(PeerSettings(signing_key_file=tmp_path / "x")),
        "cannot read peer.signing",
    )
