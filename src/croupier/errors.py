"""The exceptions of croupier, drawn as a tree.

::

    CroupierError
    |-- GuaranteeError        a theorem's condition fails, or nothing can be promised
    |-- UnknownNameError      no protocol, problem, policy or figure has that name
    |-- DocumentError         a plan or model file is damaged or was altered
    |   `-- SignatureError    a signature is missing, or not by a key that is trusted
    |-- WireError             bytes are not what the format says
    |-- SealError             a sealed report does not open
    |-- KeyringError          a directory of keys is unsafe, damaged or another role's
    |-- ResultsError          a results file is damaged or belongs to another run
    |-- RefusedError          a role refuses a message: wrong plan, wrong batch, allowance spent
    |-- ProtocolError         check_protocol found a broken promise
    `-- MissingExtraError     an optional dependency is not installed

A bad argument is a plain ``ValueError`` that names the argument and shows the value.
"""

from __future__ import annotations

from collections.abc import Iterable


class CroupierError(Exception):
    """Base of every error that is not a plain bad argument."""


class GuaranteeError(CroupierError):
    """Outside a theorem's range, or nothing can be promised; the text has both numbers."""


class UnknownNameError(CroupierError):
    """No installed thing has that name."""

    def __init__(self, kind: str, name: str, known: Iterable[str]) -> None:
        super().__init__(f"unknown {kind} {name!r}; known: {', '.join(sorted(known))}")


class DocumentError(CroupierError):
    """A plan or model document cannot be trusted as it stands."""


class SignatureError(DocumentError):
    """A signed document or batch was not signed by a key that is trusted."""

    reason = "bad-signature"


class WireError(CroupierError):
    """Bytes that do not follow the format; ``reason`` is the word that a refusal is counted by."""

    def __init__(self, reason: str, text: str) -> None:
        super().__init__(text)
        self.reason = reason


class SealError(CroupierError):
    """Sealed for another key, batch, model or report, or altered on the way; nobody can say."""

    reason = "undecryptable"


class KeyringError(CroupierError):
    """A directory of keys cannot be used as it stands."""


class ResultsError(CroupierError):
    """A results directory is damaged or belongs to another run."""


class RefusedError(CroupierError):
    """A role refuses a message; the text says why."""


class ProtocolError(CroupierError):
    """``check_protocol`` or ``check_problem`` found promises that do not hold."""


class MissingExtraError(CroupierError):
    """An optional dependency is missing."""

    def __init__(self, module: str, extra: str) -> None:
        super().__init__(
            f"{module} is not installed; install it with: pip install 'croupier[{extra}]'"
        )
