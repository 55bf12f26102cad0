"""The closed list of reasons for which a service refuses, and the error that carries one."""

from __future__ import annotations

from enum import Enum

from croupier.errors import CroupierError


class Reason(Enum):
    """Why something was refused: its code, HTTP status, title, and whether trying again helps.

    ``retry`` is about the same bytes sent again later. A status of 0 never leaves a device.
    """

    ID_CONFLICT = ("id-conflict", 409, "The id belongs to something else", False)
    WRONG_PLAN = ("wrong-plan", 404, "No such plan is served here", False)
    STALE_BATCH = ("stale-batch", 409, "That batch is not open", False)
    STALE_MODEL = ("stale-model", 409, "That is not the model of the open batch", False)
    WRONG_LENGTH = ("wrong-length", 400, "The length differs from the plan's", False)
    BAD_PADDING = ("bad-padding", 400, "Padding bits are set", False)
    UNDECRYPTABLE = ("undecryptable", 400, "The ciphertext does not open", False)
    UNKNOWN_KEY = ("unknown-key", 400, "The key is not in use", False)
    DUPLICATE_USER = ("duplicate-user", 409, "This user has reported in this batch", False)
    PARTICIPATION_LIMIT = ("participation-limit", 403, "This user's allowance is spent", False)
    PLAN_ENDED = ("plan-ended", 410, "The plan has ended", False)
    BODY_TOO_LARGE = ("body-too-large", 413, "The body is too large", False)
    TIMED_OUT = ("timed-out", 408, "The request did not arrive in time", True)
    QUEUE_FULL = ("queue-full", 503, "Too many reports are waiting", True)
    BATCH_CLOSED = ("batch-closed", 503, "The batch is complete and the next not open yet", True)
    BAD_TOKEN = ("bad-token", 401, "The bearer token is missing or wrong", False)
    ACCOUNT_TOKEN = ("account-token", 403, "The account's token is missing or wrong", False)
    BAD_SIGNATURE = ("bad-signature", 400, "The signature does not fit", False)
    MALFORMED = ("malformed", 400, "The bytes are not what they claim to be", False)
    BAD_VERSION = ("bad-version", 400, "This version of the protocol is not spoken", False)
    NOT_FOUND = ("not-found", 404, "There is nothing here", False)
    NEW_ACCOUNTS = ("new-accounts", 503, "The batch has its share of new accounts", True)
    ROLLED_BACK = ("rolled-back", 503, "The service's memory was set back", True)
    DRAINING = ("draining", 503, "The service is shutting down", True)
    OPTED_OUT = ("opted-out", 0, "The user has opted out", False)
    ROLLBACK = ("rollback", 0, "This goes back behind what was seen before", False)
    FORK = ("fork", 0, "The model is not in one chain with the one seen before", False)
    UNWITNESSED = ("unwitnessed", 0, "No witness has signed that model yet", False)
    GUARANTEE_NOT_MET = ("guarantee-not-met", 409, "The plan is worth less than it claims", False)

    def __init__(self, code: str, status: int, title: str, retry: bool) -> None:
        self.code = code
        self.status = status
        self.title = title
        self.retry = retry

    @property
    def type(self) -> str:
        """The name of the problem in an RFC 9457 document."""
        return f"urn:croupier:problem:{self.code}"

    @classmethod
    def of(cls, code: str) -> Reason:
        """The reason with that code."""
        return _BY_CODE[code]


_BY_CODE = {reason.code: reason for reason in Reason}


class Refusal(CroupierError):  # noqa: N818 - an answer, not a fault
    """A service refuses a request; ``detail`` says what was found."""

    def __init__(self, reason: Reason, detail: str = "") -> None:
        super().__init__(f"{reason.title}: {detail}" if detail else reason.title)
        self.reason = reason
        self.detail = detail
