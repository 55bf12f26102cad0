"""Whether the shuffler is as far as we are, asked when we start: either may have been set back."""

from __future__ import annotations

import httpx

TIMEOUT = 5.0


async def find_disagreement(
    url: str | None, plan_id: str, learnt: int, transport: httpx.AsyncBaseTransport | None = None
) -> str:
    """What does not fit, in words; empty where it fits or nobody answers.

    The shuffler's newest batch is the next that we learn from, or the last that we have learnt
    from while our answer has not arrived.
    """
    batch = None if url is None else await _ask_newest_batch(url, plan_id, transport)
    if batch is None or batch in {learnt, learnt - 1}:
        return ""
    whose = "ours" if batch > learnt else "the shuffler's"
    return (
        f"the shuffler is at batch {batch}, we have learnt from {learnt}: an older copy of "
        f"{whose} was restored"
    )


async def _ask_newest_batch(
    url: str, plan_id: str, transport: httpx.AsyncBaseTransport | None
) -> int | None:
    """None where the plan has ended, or what comes is no answer."""
    try:
        async with httpx.AsyncClient(
            base_url=url, timeout=TIMEOUT, transport=transport, trust_env=False
        ) as client:
            answer = await client.get(f"/v1/plans/{plan_id}/batch")
            return int(answer.json()["batch"]) if answer.is_success else None
    except (httpx.HTTPError, ValueError, KeyError, TypeError):
        return None
