"""What a plan prints is worth is for a user in ``max_participations`` batches, not in one."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from croupier.cli import words
from croupier.cli.main import main
from croupier.plan import Plan
from croupier.simulation.audit import audit

OFTEN, DELTA = 4, 1e-3
MANY: dict[str, dict[str, Any]] = {
    "vector-sum": {},
    "concurrent-tree": {"levels": 2},
    "amplified-gaussian": {},
    "central": {},
    "local": {},
    "garcelon": {"batches": "fixed"},
}
EVERY_PLAN = pytest.mark.parametrize("protocol", MANY)
EVERYBODY = ("shuffle", "joint")


@cache
def plan(protocol: str) -> Plan:
    asked: dict[str, Any] = {"dim": 2, "batch_size": 100, "horizon": 2000, "epsilon": 1.0}
    return Plan.calibrate(
        protocol, **{**asked, "delta": DELTA, "max_participations": OFTEN, **MANY[protocol]}
    )


@cache
def worth(protocol: str, participations: int) -> dict[str, float]:
    """Epsilon of every guarantee, asked of the mechanism."""
    made = plan(protocol).mechanism
    found = {"shuffle": made.guarantee, "joint": made.joint_guarantee}
    return {name: told(participations).epsilon(DELTA) for name, told in found.items()}


@cache
def trusted(protocol: str) -> str:
    return "joint" if plan(protocol).mechanism.trust == "joint" else "shuffle"


@EVERY_PLAN
def test_users_who_return_are_worth_less_protection(protocol: str) -> None:
    once, often = worth(protocol, 1), worth(protocol, OFTEN)
    assert once["joint"] < 0.9 * often["joint"]
    assert often["joint"] <= 1 + 1e-9
    # In the central model the server sees everything: nothing is proved against it.
    assert once["shuffle"] < 0.9 * often["shuffle"] or protocol == "central"


@EVERY_PLAN
def test_a_plans_guarantees_are_for_as_many_batches_as_it_allows(protocol: str) -> None:
    found, often = plan(protocol).guarantees(), worth(protocol, OFTEN)
    assert {name: found[name].epsilon(DELTA) for name in EVERYBODY} == often
    assert plan(protocol).promise.epsilon(DELTA) == often[trusted(protocol)]
    for name in EVERYBODY:
        assert f"a user is in at most {OFTEN} of the batches" in str(found[name].assumptions)


@EVERY_PLAN
def test_a_plan_document_says_the_same(protocol: str) -> None:
    said = json.loads(plan(protocol).to_json())
    often = worth(protocol, OFTEN)
    assert said["max_participations"] == OFTEN
    for name in EVERYBODY:
        assert said["guarantees"][name]["epsilon"] == finite(often[name])


@EVERY_PLAN
def test_show_and_epsilon_print_the_same(
    protocol: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(plan(protocol).to_json())
    shown = words.plan_words(plan(protocol))
    printed = [shown, *(said_by(capsys, command, str(file)) for command in ("show", "epsilon"))]
    for text in printed:
        lines = {line.split()[0]: line for line in text.splitlines() if line.split()}
        for name in EVERYBODY:
            assert_says(lines[name], worth(protocol, OFTEN)[name])
    document = json.loads(said_by(capsys, "epsilon", str(file), "--json"))
    for name in EVERYBODY:
        epsilon = document["guarantees"][name]["epsilon"]
        assert epsilon == finite(worth(protocol, OFTEN)[name])


@pytest.mark.parametrize("protocol", ["vector-sum", "central"])
def test_an_audit_attacks_a_user_in_as_many_batches(protocol: str) -> None:
    report = audit(plan(protocol), trials=1000)
    assert report.batches == OFTEN
    assert report.guarantee.epsilon(DELTA) == worth(protocol, OFTEN)[trusted(protocol)]
    assert not report.flagged


def finite(epsilon: float) -> float | None:
    """As documents say it."""
    return epsilon if epsilon < float("inf") else None


def assert_says(line: str, epsilon: float) -> None:
    known = finite(epsilon)
    assert "not proved" in line if known is None else f"epsilon {known:.6g} at" in line


def said_by(capsys: pytest.CaptureFixture[str], *command: str) -> str:
    assert main(list(command)) == 0
    return capsys.readouterr().out
