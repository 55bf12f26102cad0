"""Both services answer whatever is thrown at them as their OpenAPI documents say."""

from __future__ import annotations

from typing import Any

import pytest
import schemathesis
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from schemathesis.checks import not_a_server_error
from schemathesis.specs.openapi.checks import (
    content_type_conformance,
    response_schema_conformance,
    status_code_conformance,
)

from croupier.service.http.media_types import BATCH_TYPE, RECORDS_TYPE, SHARE_TYPE

from .deployment import Deployment

CHECKS = [
    not_a_server_error, content_type_conformance, response_schema_conformance,
    status_code_conformance,
]  # fmt: skip

for media_type in (RECORDS_TYPE, BATCH_TYPE, SHARE_TYPE):
    schemathesis.serializer.alias(media_type, "application/octet-stream")


def drive(services: Deployment, role: str, examples: int) -> set[int]:
    """Call every operation with generated requests; the statuses that were seen."""
    schema = schemathesis.openapi.from_asgi("/openapi.json", getattr(services, role))
    seen: set[int] = set()
    operations: list[Any] = list(schema.get_all_operations())
    for found in operations:
        _drive(services, found.ok().as_strategy(), examples, seen)
    return seen


def _drive(services: Deployment, cases: Any, examples: int, seen: set[int]) -> None:
    token = f"Bearer {services.shuffler.parts.peer_token}"

    @given(case=cases, ours=st.booleans())
    @settings(
        max_examples=examples,
        phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
        database=None,
    )
    def run(case: Any, ours: bool) -> None:
        """Half of the time for the plan that is served, and with the right token."""
        headers = {}
        if ours and "plan" in (case.path_parameters or {}):
            case.path_parameters["plan"] = services.plan.id
            headers = {"authorization": token}
        response = case.call(headers=headers)
        seen.add(response.status_code)
        case.validate_response(response, checks=CHECKS)

    run()


@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_generated_requests_are_answered_as_described(services: Deployment, role: str) -> None:
    assert drive(services, role, examples=8) >= {200, 404, 400}


@pytest.mark.slow
@pytest.mark.parametrize("role", ["shuffler", "analyzer"])
def test_many_generated_requests_are_answered_as_described(services: Deployment, role: str) -> None:
    assert drive(services, role, examples=300) >= {200, 404, 400}
