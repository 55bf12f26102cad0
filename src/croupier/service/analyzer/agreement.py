"""Whether the shuffler is as far as we are, asked when we start: either may have been set back."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

import httpx

from croupier.plan import Plan
from croupier.service.http import logs
from croupier.service.http.problems import read_reason
from croupier.service.http.reasons import Reason

TIMEOUT = 5.0

ASK_AGAIN = 10.0
"""Seconds to the next question, as long as nobody has said that it fits."""


class Agreement:
    """Asks until what the shuffler says fits; ``disagreement`` says what does not, in words.

    ``read_learnt`` says from how many batches we have learnt.
    """

    def __init__(
        self,
        url: str | None,
        plan: Plan,
        read_learnt: Callable[[], Awaitable[int]],
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._url = url
        self._plan = plan
        self._read_learnt = read_learnt
        self._transport = transport
        self._log = logs.logger("analyzer")
        self.disagreement = ""

    async def run(self) -> None:
        """Either side may bring its newest copy back, and then goes on."""
        while not await self.compare():
            await asyncio.sleep(ASK_AGAIN)

    async def compare(self) -> bool:
        """Ask once; whether there is no more to ask."""
        if self._url is None or await self._read_learnt() == self._plan.schedule.batches:
            return True
        found = await self._find_disagreement(self._url)
        if found is None:
            return False
        self.disagreement = found
        if found:
            self._log.error("rolled back", found=found)
        return not found

    async def _find_disagreement(self, url: str) -> str | None:
        """Empty where it fits, None where the shuffler does not say.

        Its newest batch is the next that we learn from, or the last that we have learnt from
        while our answer has not arrived. How far we are is read last: it only ever grows.
        """
        try:
            batch = await self._ask_newest_batch(url)
        except (httpx.HTTPError, ValueError, KeyError, TypeError):
            return None
        learnt = await self._read_learnt()
        if batch is None or batch in {learnt, learnt - 1}:
            return ""
        whose = "ours" if batch > learnt else "the shuffler's"
        return (
            f"the shuffler is at batch {batch}, we have learnt from {learnt}: an older copy of "
            f"{whose} was restored"
        )

    async def _ask_newest_batch(self, url: str) -> int | None:
        """None where the plan has ended; what is no answer raises."""
        async with httpx.AsyncClient(
            base_url=url, timeout=TIMEOUT, transport=self._transport, trust_env=False
        ) as client:
            answer = await client.get(f"/v1/plans/{self._plan.id}/batch")
        if read_reason(answer.content) is Reason.PLAN_ENDED:
            return None
        return int(answer.raise_for_status().json()["batch"])
