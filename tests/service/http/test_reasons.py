"""The closed list of refusals."""

from __future__ import annotations

from http import HTTPStatus

import pytest

from croupier.errors import CroupierError
from croupier.service.http.reasons import Reason, Refusal

DESIGNED = {
    "id-conflict": 409,
    "wrong-plan": 404,
    "stale-batch": 409,
    "stale-model": 409,
    "wrong-length": 400,
    "bad-padding": 400,
    "undecryptable": 400,
    "unknown-key": 400,
    "duplicate-user": 409,
    "participation-limit": 403,
    "plan-ended": 410,
    "body-too-large": 413,
    "timed-out": 408,
    "queue-full": 503,
    "batch-closed": 503,
    "bad-token": 401,
    "account-token": 403,
    "bad-signature": 400,
    "malformed": 400,
    "bad-version": 400,
    "not-found": 404,
    "new-accounts": 503,
    "rolled-back": 503,
    "draining": 503,
    "opted-out": 0,
    "rollback": 0,
    "fork": 0,
    "unwitnessed": 0,
    "guarantee-not-met": 409,
}


def test_the_list_is_the_designs() -> None:
    assert {reason.code: reason.status for reason in Reason} == DESIGNED


def test_codes_and_titles_tell_reasons_apart() -> None:
    assert len({reason.code for reason in Reason}) == len(list(Reason))
    assert len({reason.title for reason in Reason}) == len(list(Reason))


@pytest.mark.parametrize("reason", list(Reason))
def test_a_reason_is_found_by_its_code(reason: Reason) -> None:
    assert Reason.of(reason.code) is reason
    assert reason.type == f"urn:croupier:problem:{reason.code}"


def test_trying_again_helps_where_the_service_is_only_busy() -> None:
    busy = {HTTPStatus.SERVICE_UNAVAILABLE, HTTPStatus.REQUEST_TIMEOUT}
    assert {reason for reason in Reason if reason.retry} == {
        reason for reason in Reason if reason.status in busy
    }


def test_a_refusal_says_what_was_found() -> None:
    refusal = Refusal(Reason.STALE_BATCH, "batch 3 came, 4 is open")
    assert isinstance(refusal, CroupierError)
    assert str(refusal) == "That batch is not open: batch 3 came, 4 is open"
    assert str(Refusal(Reason.STALE_BATCH)) == "That batch is not open"
