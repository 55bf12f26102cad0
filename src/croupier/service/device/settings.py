"""What an app tells its device: the plan it agreed to, the shuffler, and the keys it pins."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from croupier.arguments import finite, positive, whole
from croupier.packing import raw
from croupier.plan import Plan
from croupier.service.http.addresses import require_safe_address
from croupier.service.messages.sealing import PUBLIC_KEY
from croupier.service.messages.signed_documents import Trusted, trusted_keys
from croupier.wire import PLAN_ID, Transport

OPEN_CHOICES = 64
TIMEOUT = 10.0
REPORT_DELAY = 30.0


@dataclass(frozen=True)
class DeviceSettings:
    """Pinned by the app, so that no service can talk a device into anything else.

    ``shuffler_keys``, ``analyzer_keys`` and ``witness_keys`` are raw public signing keys in hex,
    as ``croupier keys list`` shows them; rotations are followed from there. The shuffler is the
    only service that is talked to. With witnesses, a model is used only if one of them has signed
    a head that names it. ``token`` is the bearer token that the shuffler may want. A report leaves
    up to ``report_delay`` seconds after it could, at a moment that nobody else knows. Beyond
    ``open_choices`` choices without a reward the oldest is forgotten. ``allow_unproved`` takes a
    plan that promises nothing, such as ``noiseless``.
    """

    plan_id: str
    shuffler_url: str
    shuffler_keys: tuple[str, ...]
    analyzer_keys: tuple[str, ...]
    transport: Transport = Transport.BITS
    token: str | None = field(default=None, repr=False)
    open_choices: int = OPEN_CHOICES
    timeout: float = TIMEOUT
    report_delay: float = REPORT_DELAY
    witness_keys: tuple[str, ...] = ()
    allow_unproved: bool = False

    def __post_init__(self) -> None:
        """Refuse what no device could work with."""
        raw("plan_id", self.plan_id, PLAN_ID)
        whole("open_choices", self.open_choices, 1)
        positive("timeout", self.timeout)
        if finite("report_delay", self.report_delay) < 0:
            raise ValueError(f"report_delay must be at least 0, got {self.report_delay!r}")
        require_safe_address("shuffler_url", self.shuffler_url)
        for name in ("shuffler_keys", "analyzer_keys"):
            _require_some(name, getattr(self, name))
        for name in ("shuffler_keys", "analyzer_keys", "witness_keys"):
            _require_keys(name, getattr(self, name))

    def pinned(self, role: str) -> tuple[str, ...]:
        """The signing keys of a role that the app came with."""
        pins = {"shuffler": self.shuffler_keys, "analyzer": self.analyzer_keys}
        return {**pins, "witness": self.witness_keys}[role]

    @classmethod
    def of_deployment(cls, directory: str | Path) -> DeviceSettings:
        """For both roles on this machine, as ``croupier init`` laid them out: their public parts.

        A real app carries these values in itself. On one machine nobody watches the network, so
        that reports leave at once.
        """
        # What only a server needs is not imported into an app.
        from croupier.service.settings import read_settings

        home = Path(directory)
        shuffler = read_settings(home / "shuffler" / "settings.toml", environment={})
        plan = Plan.from_json(shuffler.plan.read_text(encoding="utf-8"))
        return cls(
            plan.id,
            f"http://{shuffler.listen.host}:{shuffler.listen.port}",
            _read_lines(home / "analyzer" / "shuffler-key"),
            _read_lines(home / "shuffler" / "analyzer-key"),
            shuffler.transport,
            report_delay=0.0,
        )


def read_trusted_keys(keys: tuple[str, ...]) -> Trusted:
    """Keys in hex, by their ids."""
    return trusted_keys(bytes.fromhex(key) for key in keys)


def _require_some(name: str, keys: tuple[str, ...]) -> None:
    if not keys:
        raise ValueError(f"{name} must name a signing key, got none")


def _require_keys(name: str, keys: tuple[str, ...]) -> None:
    for key in keys:
        raw(name, key, PUBLIC_KEY)


def _read_lines(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8").split())
