"""What the analyzer published, kept in the shuffler's database and served to devices.

Byte for byte, at the analyzer's own paths but for its keys; also of plans that have ended.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial

from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from croupier.service.http import responses
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.storage.database import Database

PLAN, MODEL, LEDGER, KEYS = "plan", "model", "ledger", "keys"
WITNESS, WITNESS_KEYS = "witness", "witness-keys"

Reader = Callable[[Callable[[], bytes]], Awaitable[bytes]]
"""Runs what waits for a database, off the event loop."""


def model_name(model_hash: str) -> str:
    """What a model is kept as besides being the newest."""
    return f"model/{model_hash}"


class MirroredDocuments:
    """Documents by plan and name, in the database of the shuffler."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def keep(self, plan_id: str, documents: Mapping[str, bytes]) -> None:
        """All of them or none."""
        with self._database.transaction() as transaction:
            transaction.many(
                """
                INSERT INTO mirror (plan, name, document) VALUES (?, ?, ?)
                ON CONFLICT (name, plan) DO UPDATE SET document = excluded.document
                """,
                [(plan_id, name, document) for name, document in documents.items()],
            )

    def find(self, plan_id: str, name: str) -> bytes | None:
        """A document of a plan."""
        with self._database.reading() as transaction:
            row = transaction.one(
                "SELECT document FROM mirror WHERE name = ? AND plan = ?", name, plan_id
            )
        return None if row is None else bytes(row[0])

    def plans_beside(self, plan_id: str) -> list[str]:
        """All other plans of which something is kept."""
        others = "SELECT DISTINCT plan FROM mirror WHERE plan <> ?"
        with self._database.reading() as transaction:
            return [found for (found,) in transaction.all(others, plan_id)]

    def require(self, plan_id: str, name: str) -> bytes:
        """A document that there must be."""
        found = self.find(plan_id, name)
        if found is None:
            raise Refusal(Reason.WRONG_PLAN if name == PLAN else Reason.NOT_FOUND)
        return found

    def require_model(self, model_hash: str) -> bytes:
        """A model of any plan."""
        with self._database.reading() as transaction:
            row = transaction.one(
                "SELECT document FROM mirror WHERE name = ?", model_name(model_hash)
            )
        if row is None:
            raise Refusal(Reason.NOT_FOUND, f"no model {model_hash} was published")
        return bytes(row[0])


def mirror_routes(documents: MirroredDocuments, plan_id: str, read: Reader) -> list[Route]:
    """Where devices fetch what the analyzer published, and a witness's word on it.

    Lists of keys are those of the plan that is served, everything else is of any plan.
    """

    def of_plan(name: str, caching: str) -> responses.Endpoint:
        async def endpoint(request: Request) -> Response:
            wanted = request.path_params.get("plan", plan_id)
            text = await read(partial(documents.require, wanted, name))
            return responses.tagged_response(request, text, responses.tag_of(text), caching)

        return endpoint

    async def model(request: Request) -> Response:
        name = request.path_params["hash"]
        text = await read(partial(documents.require_model, name))
        return responses.tagged_response(request, text, responses.tag_of(text), responses.SIGNED)

    return [
        Route("/v1/analyzer/keys", of_plan(KEYS, responses.REVALIDATED)),
        Route("/v1/witness/keys", of_plan(WITNESS_KEYS, responses.REVALIDATED)),
        Route("/v1/models/{hash}", model),
        Route("/v1/plans/{plan}", of_plan(PLAN, responses.IMMUTABLE)),
        Route("/v1/plans/{plan}/model", of_plan(MODEL, responses.REVALIDATED)),
        Route("/v1/plans/{plan}/ledger", of_plan(LEDGER, responses.REVALIDATED)),
        Route("/v1/plans/{plan}/witness", of_plan(WITNESS, responses.REVALIDATED)),
    ]
