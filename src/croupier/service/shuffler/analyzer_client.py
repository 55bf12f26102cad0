"""The analyzer as the shuffler sees it: signed keys and models, and batches handed on."""

from __future__ import annotations

import base64
import binascii
from dataclasses import dataclass
from typing import Any

import httpx

from croupier.errors import CroupierError, DocumentError, SignatureError
from croupier.model import Model
from croupier.service.http.cookies import refuse_cookies
from croupier.service.http.media_types import BATCH_TYPE, SHARE_TYPE, SIGNATURE
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.keys.keylist import KeyList
from croupier.service.keys.peer_keys import PeerKeys
from croupier.service.messages import signed_documents
from croupier.service.messages.public_ledger import read_public_ledger
from croupier.service.messages.signed_documents import SignedModel
from croupier.service.shuffler.agreement import PublishedHead
from croupier.service.shuffler.rows import ReleasedBatch


class UndeliveredError(CroupierError):
    """The analyzer could not be asked, or refused; ``reason`` is its word for why."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


def reason_of(error: CroupierError) -> str:
    """A word for what went wrong, without anything that was sent."""
    if isinstance(error, Refusal):
        return error.reason.code
    return str(getattr(error, "reason", type(error).__name__))


@dataclass(frozen=True)
class LearntModel:
    """The analyzer has learnt from a batch: the model that devices use from now on."""

    model_version: int
    model_hash: str


@dataclass(frozen=True)
class OpenedReports:
    """The reports of a batch of shares that the analyzer could open, as packed flags."""

    flags: bytes


@dataclass(frozen=True, eq=False)
class PublishedDocument:
    """A model that is signed, or that a signed one names, and the bytes it was published as."""

    signed: signed_documents.SignedModel
    document: bytes

    @property
    def model(self) -> Model:
        """The model itself."""
        return self.signed.model


class AnalyzerClient:
    """Calls to one analyzer. Whatever it says is believed only with a trusted signature."""

    def __init__(
        self,
        url: str,
        token: str,
        trust: PeerKeys,
        timeout: float,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._trust = trust
        self.key_list = b""
        self._http = httpx.AsyncClient(
            base_url=url,
            timeout=timeout,
            transport=transport,
            trust_env=False,
            headers={"authorization": f"Bearer {token}", "user-agent": "croupier-shuffler"},
        )
        refuse_cookies(self._http.cookies.jar)

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def sealing_key(self) -> bytes:
        """The raw public key that inner seals are for now; rotations are followed."""
        return (await self._follow_keys()).sealing_key.public

    async def newest_model(self, plan_id: str) -> Model:
        """The model that is published now."""
        return (await self.fetch_newest(plan_id)).model

    async def head(self, plan_id: str, start: int) -> PublishedHead:
        """The newest model, and the ledger's entries from ``start`` on, chained to each other."""
        newest = await self.fetch_newest(plan_id)
        told = await self.get(f"/v1/plans/{plan_id}/ledger?from={start}")
        entries = read_public_ledger(told, plan_id, start)
        return PublishedHead(newest.signed, tuple(entries))

    async def fetch_newest(self, plan_id: str) -> PublishedDocument:
        """The same with its bytes."""
        return await self._read_model(plan_id, await self.get(f"/v1/plans/{plan_id}/model"))

    async def fetch_model(self, plan_id: str, model_hash: str) -> PublishedDocument:
        """What is published under that hash, signed."""
        found = await self._read_model(plan_id, await self.get(f"/v1/models/{model_hash}"))
        return _require_hash(found, model_hash)

    async def fetch_predecessor(self, model: Model) -> PublishedDocument:
        """The one before a signed model, which names it by its hash: the signature may be old."""
        text = await self.get(f"/v1/models/{model.previous}")
        return _require_hash(
            PublishedDocument(signed_documents.read_model(text), text), model.previous
        )

    async def require_published(self, plan_id: str, learnt: LearntModel) -> PublishedDocument:
        """Refuse what the analyzer says it has learnt unless that is published and signed."""
        found = await self.fetch_model(plan_id, learnt.model_hash)
        if found.model.version != learnt.model_version:
            raise DocumentError(f"{learnt.model_hash} is not version {learnt.model_version}")
        return found

    async def send(self, released: ReleasedBatch) -> LearntModel | OpenedReports:
        """Hand on a batch; sending the same bytes again is answered the same."""
        headers = {SIGNATURE: released.signature, "content-type": BATCH_TYPE}
        place = f"/v1/plans/{released.plan_id}/batches"
        return _read_outcome(await self._post(place, released.body, headers))

    async def send_share(
        self, plan_id: str, batch: int, share: bytes, signature: str
    ) -> LearntModel:
        """Hand on our part of a batch's sum."""
        headers = {SIGNATURE: signature, "content-type": SHARE_TYPE}
        place = f"/v1/plans/{plan_id}/batches/{batch}/share"
        outcome = _read_outcome(await self._post(place, share, headers))
        if not isinstance(outcome, LearntModel):
            raise UndeliveredError(Reason.MALFORMED.code, "the analyzer asks for another share")
        return outcome

    async def get(self, place: str) -> bytes:
        """The bytes of a public document, not believed yet."""
        return (await self._request(self._http.build_request("GET", place))).content

    async def _follow_keys(self) -> KeyList:
        """The list of keys, which is trusted from here on."""
        text = await self.get("/v1/keys")
        found = self._trust.take(text)
        self.key_list = text
        return found

    async def _post(self, place: str, body: bytes, headers: dict[str, str]) -> Any:
        request = self._http.build_request("POST", place, content=body, headers=headers)
        return _read_json(await self._request(request))

    async def _request(self, request: httpx.Request) -> httpx.Response:
        try:
            response = await self._http.send(request)
        except httpx.HTTPError as error:
            kind = type(error).__name__
            raise UndeliveredError("unreachable", f"the analyzer did not answer: {kind}") from error
        if not response.is_success:
            raise _read_refusal(response)
        return response

    async def _read_model(self, plan_id: str, text: bytes) -> PublishedDocument:
        signed = await self._verify_model(text)
        if signed.model.plan_id != plan_id:
            raise DocumentError(f"the analyzer's model is for plan {signed.model.plan_id}")
        return PublishedDocument(signed, text)

    async def _verify_model(self, text: bytes) -> SignedModel:
        """A model signed by a key that we know, or that those we know vouch for by now."""
        try:
            return signed_documents.verify_model(text, self._trust.keys)
        except SignatureError:
            await self._follow_keys()
            return signed_documents.verify_model(text, self._trust.keys)


def _require_hash(found: PublishedDocument, wanted: str) -> PublishedDocument:
    if found.model.hash != wanted:
        raise DocumentError(f"the analyzer published {found.model.hash} as {wanted}")
    return found


def _read_refusal(response: httpx.Response) -> UndeliveredError:
    """The analyzer's own reason, as far as it is one that we know."""
    code = f"status-{response.status_code}"
    try:
        told = str(response.json()["type"]).rpartition(":")[2]
        code = Reason.of(told).code
    except (ValueError, KeyError, TypeError):
        pass
    return UndeliveredError(code, f"the analyzer refused: {code}")


def _read_json(response: httpx.Response) -> Any:
    try:
        return response.json()
    except ValueError as error:
        raise UndeliveredError(Reason.MALFORMED.code, "the analyzer's answer is no JSON") from error


def _read_outcome(answer: Any) -> LearntModel | OpenedReports:
    """What an answer says, strictly."""
    try:
        if "opened" in answer:
            return OpenedReports(base64.b64decode(answer["opened"], validate=True))
        version, name = answer["model_version"], answer["model_hash"]
        if not isinstance(version, int) or len(bytes.fromhex(name)) != 32:
            raise ValueError(f"version {version!r}")
        return LearntModel(version, name)
    except (KeyError, TypeError, ValueError, binascii.Error) as error:
        raise UndeliveredError(Reason.MALFORMED.code, "the analyzer's answer is damaged") from error
