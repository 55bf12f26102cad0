"""Key rings that open without the quarter of a second that guessing a passphrase costs."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from croupier.service.keys import keystore
from croupier.service.keys.keyring import Keyring

PASSPHRASE = b"correct horse battery staple"


def cheap(salt: bytes, length: int, n: int, r: int, p: int) -> Scrypt:
    return Scrypt(salt=salt, length=length, n=2, r=1, p=1)


@pytest.fixture(autouse=True)
def quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cheaper passphrase function where what it costs is not what is tested."""
    if request.node.name != "test_the_known_keyring_opens_with_its_passphrase":
        monkeypatch.setattr(keystore, "Scrypt", cheap)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "keys"


@pytest.fixture
def ring(directory: Path) -> Keyring:
    made = Keyring.create(directory, "shuffler", PASSPHRASE)
    made.new()
    return made
