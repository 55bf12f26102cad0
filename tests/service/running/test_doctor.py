"""The doctor asks running services, and leaves no trace that an alert would take for an attack."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from croupier.service.admin import doctor
from croupier.service.admin.deployment_files import PORTS
from croupier.service.http.reasons import Reason
from croupier.wire import Transport

from .deployment import Deployment, Roles, reason


@pytest.fixture
def examine(
    services: Deployment,
    roles_of: Callable[[Transport], Roles],
    monkeypatch: pytest.MonkeyPatch,
) -> Callable[[str], dict[str, doctor.CheckResult]]:
    """The findings of a role's doctor, who reaches both applications at their addresses."""
    apps = {PORTS[0]: services.shuffler, PORTS[1]: services.analyzer}

    def get(url: str, **more: Any) -> httpx.Response:
        parsed = httpx.URL(url)
        assert parsed.port is not None
        return services.ask(apps[parsed.port], "GET", parsed.path, headers=more.get("headers"))

    monkeypatch.setattr(httpx, "get", get)
    directory = roles_of(Transport.BITS).directory

    def run(role: str) -> dict[str, doctor.CheckResult]:
        return {one.check: one for one in doctor.examine(directory / role / "settings.toml")}

    return run


Examine = Callable[[str], dict[str, doctor.CheckResult]]


def metrics(services: Deployment) -> list[str]:
    return [answer("/metrics").text for answer in (services.get, services.read)]


@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_the_doctor_is_counted_nowhere(services: Deployment, examine: Examine, role: str) -> None:
    before = metrics(services)
    found = examine(role)
    assert {name: found[name].ok for name in ("service", "peer", "access")} == {
        "service": True, "peer": True, "access": True,
    }  # fmt: skip
    assert metrics(services) == before


def test_a_wrong_token_is_found_and_not_counted_either(
    services: Deployment,
    examine: Examine,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    other = tmp_path / "token"
    other.write_text("another")
    other.chmod(0o600)
    monkeypatch.setenv("CROUPIER_PEER__TOKEN_FILE", str(other))
    before = metrics(services)
    access = examine("shuffler")["access"]
    assert (access.ok, "refuses the service token" in access.words) == (False, True)
    assert metrics(services) == before


def test_an_analyzer_that_does_not_know_the_question_is_no_success(
    services: Deployment, examine: Examine, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = httpx.get

    def get(url: str, **more: Any) -> httpx.Response:
        return httpx.Response(404) if url.endswith("/access") else asked(url, **more)

    monkeypatch.setattr(httpx, "get", get)
    access = examine("shuffler")["access"]
    assert (access.ok, "answers 404" in access.words) == (False, True)


def test_the_question_about_the_token_has_three_answers(services: Deployment) -> None:
    token = {"authorization": f"Bearer {services.shuffler.parts.peer_token}"}
    place = f"/v1/plans/{services.plan.id}/batches/access"
    answer = services.read(place, headers=token)
    assert (answer.status_code, answer.content) == (204, b"")
    assert reason(services.read(place)) == Reason.BAD_TOKEN.code
    other = f"/v1/plans/{'ab' * 16}/batches/access"
    assert reason(services.read(other, headers=token)) == Reason.WRONG_PLAN.code
