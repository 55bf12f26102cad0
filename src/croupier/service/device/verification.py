"""What a device believes: the plan it agreed to, and models in one chain.

A model is used only if the shuffler names its hash to everybody, the analyzer has signed it, it
descends from the one before, and, where the app pins witnesses, one of them has signed its head.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import NoReturn, TypeVar

from croupier.client import Client
from croupier.errors import CroupierError, SignatureError
from croupier.model import Model
from croupier.plan import Plan
from croupier.service.device.announced_keys import AnnouncedKeys
from croupier.service.device.http import WAIT, LaterRefusal, ShufflerClient
from croupier.service.device.settings import DeviceSettings
from croupier.service.device.store import MODEL, PLAN, DeviceFiles, Fork
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.messages import signed_documents
from croupier.service.messages.witnessed_heads import WitnessedHead

ANALYZER, WITNESS = "analyzer", "witness"

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


class VerifiedDocuments:
    """The plan and the newest model of one device, kept on disk for when it is offline."""

    def __init__(
        self,
        settings: DeviceSettings,
        services: ShufflerClient,
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
        """The agreed plan: from disk, else from the shuffler."""
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
        """The model that the shuffler names: that of its newest batch, or the plan's last."""
        try:
            return self.adopt(self._services.batch().model_hash)
        except Refusal as refusal:
            if refusal.reason is not Reason.PLAN_ENDED:
                raise
        return self._adopt(self._verify_model(self._services.last_model()))

    def adopt(self, model_hash: str) -> Model:
        """The model of that hash, which the shuffler has named."""
        known = self._known_model()
        named = known is not None and known.hash == model_hash
        return self._adopt(known if known and named else self._fetch_model(model_hash))

    def leave_fork(self) -> Model:
        """Go on with the model that the shuffler names, whatever was seen before."""
        fork = self._files.state.fork
        if fork is None:
            return self.refresh()
        batch, fresh = self._named()
        self._require_witnessed(fresh)
        self._files.ledger.leave_fork(self.plan.id, fresh.version, fresh.hash)
        self._keep_model(fresh)
        self._files.write(replace(self._files.state, fork=None, batch=batch))
        self.end_client()
        return fresh

    def _named(self) -> tuple[int, Model]:
        """The newest batch and its model, which is signed and fits, and no more."""
        try:
            offer = self._services.batch()
        except Refusal as refusal:
            if refusal.reason is not Reason.PLAN_ENDED:
                raise
            return self._files.state.batch, self._verify_model(self._services.last_model())
        return offer.index, self._fetch_model(offer.model_hash)

    def _adopt(self, fresh: Model) -> Model:
        known = self._known_model()
        is_new = known is None or known.hash != fresh.hash
        if known is not None and is_new:
            self._require_descent(fresh, known)
        # One that is here already may be older than the app's witnesses.
        self._require_witnessed(fresh)
        if is_new:
            self._keep_model(fresh)
        if self._files.state.fork is not None:
            self._files.write(replace(self._files.state, fork=None))
        return fresh

    def _keep_model(self, model: Model) -> None:
        self._files.write_text(MODEL, model.to_json())
        self._model = model

    def _fetch_model(self, model_hash: str) -> Model:
        """Signed, fitting, and the one that was asked for."""
        found = self._verify_model(self._services.model(model_hash))
        return _require_hash(found, model_hash)

    def _require_witnessed(self, model: Model) -> None:
        """Where witnesses are pinned, one of them has seen both services show this model."""
        seen = (model.hash, *self._settings.witness_keys)
        if not self._settings.witness_keys or self._files.state.witnessed == seen:
            return
        head = self._fetch_head()
        if head.plan != model.plan_id:
            raise Refusal(Reason.WRONG_PLAN, f"the witness has signed plan {head.plan}")
        if head.version == model.version and head.model != model.hash:
            self._note_fork(Fork(head.version, head.model, model.version, model.hash))
        if head.model != model.hash:
            told = f"version {model.version} is named, the witness has signed {head.version}"
            raise LaterRefusal(Reason.UNWITNESSED, WAIT, told)
        self._files.write(replace(self._files.state, witnessed=seen))

    def _fetch_head(self) -> WitnessedHead:
        try:
            text = self._services.witnessed()
        except Refusal as refusal:
            if refusal.reason is not Reason.NOT_FOUND:
                raise
            raise LaterRefusal(Reason.UNWITNESSED, WAIT, "no witness has signed yet") from refusal
        try:
            return WitnessedHead.verify(text, self._announced.trusted(WITNESS))
        except SignatureError:
            self._announced.refresh(WITNESS)
            return WitnessedHead.verify(text, self._announced.trusted(WITNESS))

    def _known_model(self) -> Model | None:
        if self._model is None:
            self._model = self._read_verified(MODEL, self._restore_model)
        return self._model

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
        plan, dim = self.plan, self.plan.layout.scored
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
        while step.previous != known.hash:
            if step.version <= known.version + 1:
                self._note_fork(Fork(known.version, known.hash, fresh.version, fresh.hash))
            step = self._predecessor(step)

    def _predecessor(self, model: Model) -> Model:
        """The model that a verified one names by its hash; its own signature may be of old keys."""
        found = signed_documents.read_model(self._services.model(model.previous)).model
        before = _require_hash(self._require_fitting(found), model.previous)
        if before.version >= model.version:
            raise Refusal(Reason.MALFORMED, f"version {model.version} has no predecessor")
        return before

    def _note_fork(self, fork: Fork) -> NoReturn:
        """On disk, for the app to be told, before anything is refused by it."""
        self._files.write(replace(self._files.state, fork=fork))
        raise Refusal(
            Reason.FORK,
            f"model {fork.named_version} does not descend from version {fork.seen_version}, "
            "which was seen before",
        )


def _require_hash(found: Model, wanted: str) -> Model:
    if found.hash != wanted:
        raise Refusal(Reason.MALFORMED, f"model {found.hash} came for {wanted}")
    return found
