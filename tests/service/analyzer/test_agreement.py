"""The analyzer asks the shuffler how far it is until that fits."""

from __future__ import annotations

import asyncio
from typing import Any

import httpx
import pytest

from croupier.service.analyzer import agreement
from croupier.service.analyzer.agreement import Agreement
from croupier.service.http.problems import problem_document
from croupier.service.http.reasons import Reason, Refusal

from ..noiseless_plans import noiseless

PLAN = noiseless(users=3, batches=9)
URL = "http://shuffler.test"


def batch(index: int) -> httpx.Response:
    return httpx.Response(200, json={"batch": index})


def refused(reason: Reason) -> httpx.Response:
    return httpx.Response(reason.status, json=problem_document(Refusal(reason)))


class Shuffler(httpx.AsyncBaseTransport):
    """Answers in turn; None is no answer."""

    def __init__(self, *answers: httpx.Response | None) -> None:
        self.left = list(answers)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        assert request.url.path == f"/v1/plans/{PLAN.id}/batch"
        answer = self.left.pop(0)
        if answer is None:
            raise httpx.ConnectError("down")
        return answer


def asking(shuffler: Shuffler, learnt: int, url: str | None = URL) -> Agreement:
    async def read_learnt() -> int:
        return learnt

    return Agreement(url, PLAN, read_learnt, shuffler)


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agreement, "ASK_AGAIN", 0.0)


@pytest.mark.parametrize("last", [batch(4), batch(3), refused(Reason.PLAN_ENDED)])
def test_it_asks_until_the_shuffler_has_said_what_fits(last: httpx.Response) -> None:
    shuffler = Shuffler(None, refused(Reason.BATCH_CLOSED), batch(6), None, batch(2), last)
    asks, seen = asking(shuffler, 4), []
    compare = asks.compare

    async def compare_and_note() -> bool:
        done = await compare()
        seen.append(asks.disagreement)
        return done

    changed: Any = asks
    changed.compare = compare_and_note
    asyncio.run(asks.run())
    assert shuffler.left == []
    assert [bool(words) for words in seen] == [False, False, True, True, True, False]
    assert "older copy of ours" in seen[3]  # no answer takes nothing back
    assert "older copy of the shuffler's" in seen[4]


@pytest.mark.parametrize(("learnt", "url"), [(9, URL), (4, None)])
def test_nobody_is_asked_after_the_last_batch_or_without_an_address(
    learnt: int, url: str | None
) -> None:
    asyncio.run(asking(Shuffler(), learnt, url).run())
