"""A gateway for `croupier init --accounts gateway`: the app's own sessions say who reports."""

import hmac
from collections.abc import Callable, Mapping

import httpx
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from croupier import wire
from croupier.service.http import guards, responses
from croupier.service.http.reasons import Reason, Refusal


def make_gateway(
    find_user: Callable[[Mapping[str, str]], str | None],  # by the session in a request's headers
    secret: bytes,  # gateway/account-secret: without it nobody can tell whose an account is
    sealed_length: Callable[[int], int],  # that of plan_transport(transport, plan)
    shuffler: httpx.AsyncClient,  # with its base_url, and gateway/upload-token as bearer token
) -> Starlette:
    async def forward(request: Request) -> Response:
        body = b""
        if request.method == "POST":
            if (user := find_user(request.headers)) is None:
                raise Refusal(Reason.BAD_TOKEN, "sign in first")
            account = hmac.digest(secret, user.encode(), "sha256")
            body = await guards.read_body(request.scope, request.receive, 2**20)
            body = wire.replace_account(body, sealed_length, account)
        answer = await shuffler.request(request.method, request.url.path, content=body)
        kept = {name: answer.headers[name] for name in responses.KEPT if name in answer.headers}
        return Response(answer.content, answer.status_code, kept)

    routes = [Route("/v1/{path:path}", forward, methods=["GET", "POST"])]
    return Starlette(routes=routes, exception_handlers=responses.EXCEPTION_HANDLERS)


print(__doc__)
