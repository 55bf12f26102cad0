"""What a device believes: the plan it agreed to, models in one chain, keys that were announced."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import TypeVar

from croupier.client import Client
from croupier.errors import CroupierError, SignatureError
from croupier.model import Model
from croupier.plan import Plan
from croupier.service.device.http import ServiceClient
from croupier.service.device.settings import DeviceSettings, read_trusted_keys
from croupier.service.device.store import MODEL, PLAN, DeviceFiles, KnownKeys
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.keys.keylist import SEAL, KeyList
from croupier.service.messages import signed_documents
from croupier.service.messages.signed_documents import Trusted

ANALYZER = "analyzer"

Found = TypeVar("Found")


def require_agreed_plan(text: str, settings: DeviceSettings) -> Plan:
    """The plan of a document, if it is the pinned one and worth what it claims."""
    plan = _require_kept_promise(text)
    if plan.id != settings.plan_id:
        raise Refusal(Reason.WRONG_PLAN, f"{plan.id} came, the app pins {settings.plan_id}")
    if plan.budget is None and not settings.allow_unproved:
        raise Refusal(Reason.GUARANTEE_NOT_MET, f"{plan.protocol} promises nothing")
    return plan


@lru_cache(8)
def _require_kept_promise(text: str) -> Plan:
    """The guarantee is computed again, whatever the document says; once for equal documents."""
    plan = Plan.from_json(text)
    if not plan.deployable:
        raise Refusal(Reason.GUARANTEE_NOT_MET, f"{plan.protocol} is a baseline for simulations")
    if plan.budget is not None and not plan.met:
        found, delta = plan.promise.epsilon(plan.budget.delta), plan.budget.delta
        raise Refusal(
            Reason.GUARANTEE_NOT_MET,
            f"epsilon {plan.budget.epsilon:g} is claimed, {found:.4g} is proved at delta {delta:g}",
        )
    return plan


class AnnouncedKeys:
    """The keys of both roles: followed from the pinned ones, never back."""

    def __init__(
        self, settings: DeviceSettings, services: ServiceClient, files: DeviceFiles
    ) -> None:
        self._settings = settings
        self._services = services
        self._files = files
        self._lists: dict[str, KeyList] = {}

    def trusted(self, role: str) -> Trusted:
        """The keys that sign for a role."""
        return read_trusted_keys(self._known(role).trusted)

    def refresh(self, role: str) -> KeyList:
        """The role's list as it is now."""
        known = self._known(role)
        found = KeyList.verify(self._services.keys(role), role, read_trusted_keys(known.trusted))
        if found.sequence < known.sequence:
            raise Refusal(Reason.ROLLBACK, f"the {role}'s keys go back to list {found.sequence}")
        signing = tuple(key.public_bytes_raw().hex() for key in found.trusted().values())
        self._keep(role, KnownKeys(known.pinned, signing, found.sequence))
        self._lists[role] = found
        return found

    def require(self, role: str, public: bytes) -> bytes:
        """The raw sealing key, if the role has announced it to everybody."""
        if not (
            role in self._lists and _is_sealing_key(self._lists[role], public)
        ) and not _is_sealing_key(self.refresh(role), public):
            raise Refusal(Reason.UNKNOWN_KEY, f"the {role} has not announced {public.hex()}")
        return public

    def _known(self, role: str) -> KnownKeys:
        """An app with other pins starts from those."""
        pinned = self._settings.pinned(role)
        found = self._files.state.keys.get(role)
        return found if found and found.pinned == pinned else KnownKeys(pinned, pinned)

    def _keep(self, role: str, keys: KnownKeys) -> None:
        state = self._files.state
        if state.keys.get(role) != keys:
            self._files.write(replace(state, keys={**state.keys, role: keys}))


def _is_sealing_key(keys: KeyList, public: bytes) -> bool:
    now = time.time()
    return any(key.use == SEAL and key.public == public and not key.over(now) for key in keys.keys)


class VerifiedDocuments:
    """The plan and the newest model of one device, kept on disk for when it is offline."""

    def __init__(
        self,
        settings: DeviceSettings,
        services: ServiceClient,
        files: DeviceFiles,
        announced: AnnouncedKeys,
    ) -> None:
        self._settings = settings
        self._services = services
        self._files = files
        self._announced = announced
        self._plan: Plan | None = None
        self._model: Model | None = None
        self._client: Client | None = None

    def forget(self) -> None:
        """Hold nothing in memory."""
        self._plan = self._model = self._client = None

    @property
    def plan(self) -> Plan:
        """The agreed plan: from disk, else from the analyzer."""
        if self._plan is None:
            self._plan = self._read_verified(PLAN, self._require_agreed) or self._fetch_plan()
        return self._plan

    @property
    def client(self) -> Client:
        """The client of the report that is being made, from its choice until it is randomised."""
        if self._client is None:
            self._client = Client(self.plan)
        return self._client

    def end_client(self) -> None:
        """The next report begins afresh: what was spent is counted on disk, not by a client."""
        self._client = None

    @property
    def model(self) -> Model:
        """The newest model that was seen; the first one is fetched."""
        known = self._known_model()
        return self.refresh() if known is None else known

    def refresh(self) -> Model:
        """The newest model of the analyzer."""
        known = self._known_model()
        text = self._services.newest_model("" if known is None else known.hash)
        if text is not None:
            fresh = self._verify_model(text)
            if known is not None:
                self._require_descent(fresh, known)
            if known is None or fresh.hash != known.hash:
                self._files.write_text(MODEL, fresh.to_json())
            self._model = fresh
        return self._model if self._model is not None else self._missing()

    def _known_model(self) -> Model | None:
        if self._model is None:
            self._model = self._read_verified(MODEL, self._restore_model)
        return self._model

    def _missing(self) -> Model:
        raise Refusal(Reason.NOT_FOUND, "the analyzer says that we have a model, we do not")

    def _require_agreed(self, text: str) -> Plan:
        return require_agreed_plan(text, self._settings)

    def _fetch_plan(self) -> Plan:
        text = self._services.plan()
        plan = self._require_agreed(text)
        self._files.write_text(PLAN, text)
        return plan

    def _read_verified(self, name: str, read: Callable[[str], Found]) -> Found | None:
        """What was verified before it was written; damaged, it is fetched again."""
        text = self._files.read_text(name)
        try:
            return None if text is None else read(text)
        except CroupierError:
            return None

    def _restore_model(self, text: str) -> Model:
        return self._require_fitting(Model.from_json(text))

    def _verify_model(self, text: str) -> Model:
        """A model of this plan, signed by a key that is, or has just been announced to be, good."""
        try:
            return self._verify_signed(text)
        except SignatureError:
            self._announced.refresh(ANALYZER)
            return self._verify_signed(text)

    def _verify_signed(self, text: str) -> Model:
        return self._require_fitting(
            signed_documents.verify_model(text, self._announced.trusted(ANALYZER)).model
        )

    def _require_fitting(self, model: Model) -> Model:
        plan, dim = self.plan, self.plan.layout.dim
        if model.plan_id != plan.id:
            raise Refusal(Reason.WRONG_PLAN, f"a model of {model.plan_id} came")
        fits = model.theta.shape == (dim,) and model.matrix.shape == (dim, dim)
        known = model.policy == plan.policy.name
        if not (fits and known and 0 <= model.version <= plan.schedule.batches):
            raise Refusal(Reason.MALFORMED, "the model does not fit its plan")
        return model

    def _require_descent(self, fresh: Model, known: Model) -> None:
        """Refuse what goes back behind the known model or branches off before it."""
        step = fresh
        while step.hash != known.hash:
            if step.version <= known.version:
                raise Refusal(
                    Reason.ROLLBACK,
                    f"model {fresh.version} does not descend from version {known.version}, "
                    "which this device has seen",
                )
            if step.previous == known.hash:
                return
            step = self._predecessor(step)

    def _predecessor(self, model: Model) -> Model:
        before = self._verify_model(self._services.model(model.previous))
        if before.hash != model.previous or before.version >= model.version:
            raise Refusal(Reason.ROLLBACK, f"version {model.version} has no predecessor")
        return before
