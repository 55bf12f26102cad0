"""What an app tells its device: the plan it agreed to, the two services, and the keys it pins."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from croupier.arguments import positive, whole
from croupier.packing import raw
from croupier.plan import Plan
from croupier.service.http.addresses import require_safe_address
from croupier.service.messages.sealing import PUBLIC_KEY
from croupier.service.messages.signed_documents import Trusted, trusted_keys
from croupier.wire import PLAN_ID, Transport

if TYPE_CHECKING:
    from croupier.service.settings import Settings

OPEN_CHOICES = 64
TIMEOUT = 10.0


@dataclass(frozen=True)
class DeviceSettings:
    """Pinned by the app, so that no service can talk a device into anything else.

    ``shuffler_keys`` and ``analyzer_keys`` are raw public signing keys in hex, as ``croupier
    keys list`` shows them; rotations are followed from there. ``token`` is the bearer token
    that the shuffler may want. Beyond ``open_choices`` choices without a reward the oldest is
    forgotten. ``allow_unproved`` takes a plan that promises nothing, such as ``noiseless``.
    """

    plan_id: str
    shuffler_url: str
    analyzer_url: str
    shuffler_keys: tuple[str, ...]
    analyzer_keys: tuple[str, ...]
    transport: Transport = Transport.BITS
    token: str | None = field(default=None, repr=False)
    open_choices: int = OPEN_CHOICES
    timeout: float = TIMEOUT
    allow_unproved: bool = False

    def __post_init__(self) -> None:
        """Refuse what no device could work with."""
        raw("plan_id", self.plan_id, PLAN_ID)
        whole("open_choices", self.open_choices, 1)
        positive("timeout", self.timeout)
        for name in ("shuffler_url", "analyzer_url"):
            require_safe_address(name, getattr(self, name))
        for name in ("shuffler_keys", "analyzer_keys"):
            _require_keys(name, getattr(self, name))

    def pinned(self, role: str) -> tuple[str, ...]:
        """The signing keys of a role that the app came with."""
        return self.shuffler_keys if role == "shuffler" else self.analyzer_keys

    @classmethod
    def of_deployment(cls, directory: str | Path) -> DeviceSettings:
        """For both roles on this machine, as ``croupier init`` laid them out: their public parts.

        A real app carries these values in itself.
        """
        # What only a server needs is not imported into an app.
        from croupier.service.settings import read_settings

        home = Path(directory)
        shuffler, analyzer = (
            read_settings(home / role / "settings.toml") for role in ("shuffler", "analyzer")
        )
        plan = Plan.from_json(shuffler.plan.read_text(encoding="utf-8"))
        return cls(
            plan.id,
            _service_url(shuffler),
            _service_url(analyzer),
            _read_lines(home / "analyzer" / "shuffler-key"),
            _read_lines(home / "shuffler" / "analyzer-key"),
            shuffler.transport,
        )


def read_trusted_keys(keys: tuple[str, ...]) -> Trusted:
    """Keys in hex, by their ids."""
    return trusted_keys(bytes.fromhex(key) for key in keys)


def _require_keys(name: str, keys: tuple[str, ...]) -> None:
    if not keys:
        raise ValueError(f"{name} must name a signing key, got none")
    for key in keys:
        raw(name, key, PUBLIC_KEY)


def _service_url(settings: Settings) -> str:
    return f"http://{settings.listen.host}:{settings.listen.port}"


def _read_lines(path: Path) -> tuple[str, ...]:
    return tuple(path.read_text(encoding="utf-8").split())
