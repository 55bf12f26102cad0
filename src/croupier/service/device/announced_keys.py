"""The keys of a role: followed from the pinned ones through rotations, never back."""

from __future__ import annotations

import time
from dataclasses import replace

from croupier.service.device.http import ShufflerClient
from croupier.service.device.settings import DeviceSettings, read_trusted_keys
from croupier.service.device.store import DeviceFiles, KnownKeys
from croupier.service.http.reasons import Reason, Refusal
from croupier.service.keys.keylist import SEAL, KeyList
from croupier.service.messages.signed_documents import Trusted


class AnnouncedKeys:
    """Of the shuffler, the analyzer and witnesses, as the shuffler shows their signed lists."""

    def __init__(
        self, settings: DeviceSettings, services: ShufflerClient, files: DeviceFiles
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
