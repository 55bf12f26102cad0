"""Keyrings: states in order, private keys never in the clear, one directory for one role."""

from __future__ import annotations

import json
import os
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.kdf.scrypt import Scrypt

from croupier.errors import DocumentError, KeyringError, SignatureError
from croupier.service.keys import keystore
from croupier.service.keys.keylist import ACTIVE, EXPIRED, PENDING, SEAL, SIGN, Key, KeyList
from croupier.service.keys.keyring import GRACE, Keyring
from croupier.service.messages import signed_documents
from croupier.service.messages.sealing import seal, unseal

PASSPHRASE = b"correct horse battery staple"
NOW = 1_000_000.0


def cheap(salt: bytes, length: int, n: int, r: int, p: int) -> Scrypt:
    return Scrypt(salt=salt, length=length, n=2, r=1, p=1)


@pytest.fixture(autouse=True)
def quick(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """A cheaper passphrase function where what it costs is not what is tested."""
    if request.function is not test_the_known_keyring_opens_with_its_passphrase:
        monkeypatch.setattr(keystore, "Scrypt", cheap)


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    return tmp_path / "keys"


@pytest.fixture
def ring(directory: Path) -> Keyring:
    made = Keyring.create(directory, "shuffler", PASSPHRASE)
    made.new()
    return made


def states(ring: Keyring, use: str = SEAL) -> list[str]:
    return [key.state for key in ring.list() if key.use == use]


def reopened(directory: Path, role: str = "shuffler", passphrase: bytes = PASSPHRASE) -> Keyring:
    return Keyring.open(directory, role, passphrase)


def test_the_first_pair_is_active_and_the_next_waits(ring: Keyring) -> None:
    assert [(key.use, key.state) for key in ring.list()] == [(SEAL, ACTIVE), (SIGN, ACTIVE)]
    made = ring.new()
    assert [(key.use, key.state) for key in made] == [(SEAL, PENDING), (SIGN, PENDING)]
    assert states(ring) == [ACTIVE, PENDING]


def test_rotation_moves_every_key_one_step(ring: Keyring) -> None:
    ring.new()
    first, second = (key.id for key in ring.list() if key.use == SEAL)
    ring.rotate(now=NOW)
    assert states(ring) == states(ring, SIGN) == [EXPIRED, ACTIVE]
    assert signed_documents.key_id(ring.sealing_key.public_bytes_raw()) == second
    assert {key.expires for key in ring.list() if key.id == first} == {NOW + GRACE}
    ring.new()
    ring.rotate(now=NOW + 5)
    assert states(ring) == [EXPIRED, EXPIRED, ACTIVE]
    assert ring.list()[0].expires == NOW + GRACE


def test_only_one_pair_waits_and_nothing_rotates_without_one(ring: Keyring) -> None:
    with pytest.raises(KeyringError, match="no key is pending"):
        ring.rotate()
    ring.new()
    with pytest.raises(KeyringError, match="a pending key is waiting"):
        ring.new()


def test_an_expired_key_opens_until_its_time_is_over(ring: Keyring) -> None:
    old = ring.list()[0].id
    sealed = seal(b"report", ring.sealing_key, b"info")
    ring.new()
    ring.rotate(grace=100, now=NOW)
    key = ring.opener(old, NOW + 99)
    assert key is not None
    assert unseal(sealed, key, b"info") == b"report"
    assert ring.opener(old, NOW + 100) is None


def test_tidying_reads_what_changed_and_deletes_what_is_over(
    ring: Keyring, directory: Path
) -> None:
    other = reopened(directory)
    other.new()
    other.rotate(grace=100, now=NOW)
    ring.tidy(NOW + 99)
    assert states(ring) == [EXPIRED, ACTIVE]
    ring.tidy(NOW + 100)
    assert states(ring) == [ACTIVE]
    assert reopened(directory).list() == ring.list()


def test_a_pending_key_opens_already(ring: Keyring) -> None:
    pending = ring.new()[0]
    assert ring.opener(pending.id) is not None


def test_nothing_opens_for_an_unknown_id_or_a_signing_key(ring: Keyring) -> None:
    assert ring.opener(bytes(8)) is None
    assert ring.opener(b"") is None
    assert ring.opener(ring.signer.id) is None


def test_retiring_deletes_private_keys_whose_time_is_over_and_no_others(
    ring: Keyring, directory: Path
) -> None:
    ring.new()
    ring.rotate(grace=100, now=NOW)
    before = (directory / keystore.FILE).read_text()
    assert ring.retire(NOW + 99) == ()
    assert (directory / keystore.FILE).read_text() == before
    gone = ring.retire(NOW + 100)
    assert [key.state for key in gone] == [EXPIRED, EXPIRED]
    assert states(ring) == [ACTIVE]
    left = (directory / keystore.FILE).read_text()
    assert all(key.public.hex() not in left for key in gone)
    assert reopened(directory).list() == ring.list()


def test_a_ring_is_the_same_when_opened_again(ring: Keyring, directory: Path) -> None:
    ring.new()
    ring.rotate()
    ring.new()
    again = reopened(directory)
    assert again.list() == ring.list()
    assert again.role == "shuffler"
    sealed = seal(b"report", ring.sealing_key, b"")
    opener = again.opener(signed_documents.key_id(ring.sealing_key.public_bytes_raw()))
    assert opener is not None
    assert unseal(sealed, opener, b"") == b"report"
    assert again.signer.sign("batch", b"x") == ring.signer.sign("batch", b"x")


def test_a_running_service_sees_what_another_process_changed(
    ring: Keyring, directory: Path
) -> None:
    other = reopened(directory)
    assert not ring.refresh()
    made = other.new()
    assert ring.opener(made[0].id) is None
    assert ring.refresh()
    assert not ring.refresh()
    assert ring.opener(made[0].id) is not None


def test_changes_start_from_what_another_process_wrote(ring: Keyring, directory: Path) -> None:
    other = reopened(directory)
    other.new()
    ring.rotate()
    assert states(ring) == [EXPIRED, ACTIVE]


def _try_new(directory: Path) -> bool:
    try:
        reopened(directory).new()
    except KeyringError:
        return False
    return True


def test_of_several_that_make_a_key_at_the_same_time_one_succeeds(
    ring: Keyring, directory: Path
) -> None:
    with ThreadPoolExecutor(4) as pool:
        made = list(pool.map(_try_new, [directory] * 8))
    assert made.count(True) == 1
    ring.refresh()
    assert states(ring) == [ACTIVE, PENDING]


# What is on disk


def test_private_keys_are_not_in_the_clear(ring: Keyring, directory: Path) -> None:
    held = ring._held
    text = (directory / keystore.FILE).read_text()
    for one in held:
        assert one.private.hex() not in text
        assert one.private not in (directory / keystore.FILE).read_bytes()
        assert one.key.public.hex() in text


def test_files_are_for_the_owner_only(ring: Keyring, directory: Path) -> None:
    assert directory.stat().st_mode & 0o777 == 0o700
    for file in directory.iterdir():
        assert file.stat().st_mode & 0o777 == 0o600


def test_another_roles_directory_is_refused(ring: Keyring, directory: Path) -> None:
    with pytest.raises(KeyringError, match="has keys of the shuffler, not analyzer"):
        reopened(directory, "analyzer")
    with pytest.raises(KeyringError, match="has keys already"):
        Keyring.create(directory, "analyzer", PASSPHRASE)


def test_a_role_cannot_be_changed_in_the_file(ring: Keyring, directory: Path) -> None:
    path = directory / keystore.FILE
    path.write_text(path.read_text().replace('"shuffler"', '"analyzer"'))
    with pytest.raises(KeyringError, match="passphrase is wrong or the file was altered"):
        reopened(directory, "analyzer")


@pytest.mark.parametrize("mode", [0o750, 0o705, 0o770, 0o777, 0o701])
def test_a_directory_that_others_can_enter_is_refused(
    mode: int, ring: Keyring, directory: Path
) -> None:
    directory.chmod(mode)
    with pytest.raises(KeyringError, match=f"open to others, mode {mode:o}; try: chmod 700"):
        reopened(directory)


def test_a_new_ring_is_not_put_where_others_can_enter(tmp_path: Path) -> None:
    loose = tmp_path / "loose"
    loose.mkdir()
    loose.chmod(0o755)
    with pytest.raises(KeyringError, match="open to others"):
        Keyring.create(loose, "shuffler", PASSPHRASE)
    assert list(loose.iterdir()) == []


@pytest.mark.parametrize("mode", [0o640, 0o604])
def test_a_file_that_others_can_read_is_refused(mode: int, ring: Keyring, directory: Path) -> None:
    (directory / keystore.FILE).chmod(mode)
    with pytest.raises(KeyringError, match="try: chmod 600"):
        reopened(directory)


def test_somebody_elses_directory_is_refused(
    ring: Keyring, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(KeyringError, match="belongs to user"):
        reopened(directory)


@pytest.mark.parametrize("wrong", [b"x", PASSPHRASE + b"\n", PASSPHRASE[:-1]])
def test_a_wrong_passphrase_is_refused(wrong: bytes, ring: Keyring, directory: Path) -> None:
    with pytest.raises(KeyringError, match="passphrase is wrong"):
        reopened(directory, passphrase=wrong)


def test_bad_arguments_are_named(ring: Keyring, directory: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="passphrase must not be empty"):
        Keyring.create(tmp_path / "other", "shuffler", b"")
    with pytest.raises(ValueError, match=r"role must be one of .* got 'reader'"):
        Keyring.create(tmp_path / "other", "reader", PASSPHRASE)
    for grace in (-1.0, float("nan"), float("inf")):
        with pytest.raises(ValueError, match="grace must be"):
            ring.rotate(grace=grace)
    with pytest.raises(KeyringError, match="has no keys"):
        reopened(tmp_path / "nowhere")


def test_an_altered_file_is_refused(ring: Keyring, directory: Path) -> None:
    path = directory / keystore.FILE
    whole = path.read_text()
    for change in (
        whole[:-1],
        "",
        "null",
        whole.replace('"keyring"', '"ring"'),
        whole.replace('"version":1', '"version":2'),
        whole.replace('"active"', '"expired"'),
        whole.replace('"sequence":2', '"sequence":9'),
        whole.replace('"sequence":2', '"sequence":NaN'),
    ):
        path.write_text(change)
        with pytest.raises(KeyringError):
            reopened(directory)
    path.write_text(whole)
    reopened(directory)


def test_private_keys_cannot_be_swapped_between_public_ones(ring: Keyring, directory: Path) -> None:
    """Even by somebody who can seal the file."""
    store = keystore.Keystore.open(directory, "shuffler", PASSPHRASE)
    content = store.read()
    first, second = content["keys"]
    first["private"], second["private"] = second["private"], first["private"]
    store.write({"sequence": content["sequence"], "keys": content["keys"]})
    with pytest.raises(KeyringError, match="a private key is damaged"):
        reopened(directory)


def test_a_crash_while_writing_leaves_the_old_keys(
    ring: Keyring, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = ring.list()

    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as broken:
        broken.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            ring.new()
    assert ring.list() == before
    assert reopened(directory).list() == before
    ring.new()
    assert reopened(directory).list() == ring.list()


# The public list


def test_the_list_is_signed_and_has_no_private_part(ring: Keyring) -> None:
    ring.new()
    text = ring.document()
    assert all(one.private.hex() not in text for one in ring._held)
    trusted = signed_documents.trusted_keys([ring.signer.public])
    found = KeyList.verify(text, "shuffler", trusted)
    assert found.keys == ring.list()
    assert found.sealing_key.public == ring.sealing_key.public_bytes_raw()
    assert set(found.trusted()) == {key.id for key in ring.list() if key.use == SIGN}


def test_the_lists_sequence_grows_with_every_change(ring: Keyring) -> None:
    def sequence() -> int:
        trusted = signed_documents.trusted_keys([ring.signer.public])
        return KeyList.verify(ring.document(), "shuffler", trusted).sequence

    seen = [sequence()]
    ring.new()
    seen.append(sequence())
    ring.rotate(grace=0)
    seen.append(sequence())
    ring.retire()
    seen.append(sequence())
    assert seen == sorted(set(seen))


def test_a_device_that_missed_a_rotation_can_follow_while_its_key_lasts(ring: Keyring) -> None:
    old = signed_documents.trusted_keys([ring.signer.public])
    ring.new()
    ring.rotate(grace=100, now=NOW)
    found = KeyList.verify(ring.document(NOW + 99), "shuffler", old)
    assert ring.signer.id in found.trusted(NOW + 99)
    with pytest.raises(SignatureError):
        KeyList.verify(ring.document(NOW + 100), "shuffler", old)


def test_keys_whose_time_is_over_are_neither_listed_nor_trusted(ring: Keyring) -> None:
    old = ring.signer
    ring.new()
    ring.rotate(grace=100, now=NOW)
    trusted = signed_documents.trusted_keys([ring.signer.public])
    early = KeyList.verify(ring.document(NOW), "shuffler", trusted)
    late = KeyList.verify(ring.document(NOW + 100), "shuffler", trusted)
    assert old.id in early.trusted(NOW)
    assert old.id not in early.trusted(NOW + 100)
    assert {key.state for key in late.keys} == {ACTIVE}


def test_a_pending_key_does_not_sign_the_list(ring: Keyring) -> None:
    pending = ring.new()[1]
    assert list(json.loads(ring.document())["signatures"]) == [ring.signer.id.hex()]
    with pytest.raises(SignatureError):
        KeyList.verify(ring.document(), "shuffler", signed_documents.trusted_keys([pending.public]))


def test_the_list_of_another_role_is_refused(ring: Keyring) -> None:
    trusted = signed_documents.trusted_keys([ring.signer.public])
    with pytest.raises(DocumentError, match="those of the shuffler, not of the analyzer"):
        KeyList.verify(ring.document(), "analyzer", trusted)


@pytest.mark.parametrize(
    "content",
    [
        {},
        {"role": "shuffler", "sequence": 1},
        {"role": "shuffler", "sequence": 1, "keys": [1]},
        {"role": "shuffler", "sequence": 1, "keys": [{"public": "zz"}]},
        {
            "role": "shuffler",
            "sequence": 1,
            "keys": [{**Key(SEAL, ACTIVE, bytes(32)).content, "id": "00" * 8}],
        },
    ],
)
def test_a_signed_list_that_makes_no_sense_is_refused(ring: Keyring, content: object) -> None:
    text = signed_documents.sign_document("keys", content, [ring.signer])  # type: ignore[arg-type]
    with pytest.raises(DocumentError):
        KeyList.verify(text, "shuffler", signed_documents.trusted_keys([ring.signer.public]))


def test_an_empty_ring_says_how_to_get_a_key(directory: Path) -> None:
    ring = Keyring.create(directory, "analyzer", PASSPHRASE)
    assert ring.list() == ()
    with pytest.raises(KeyringError, match="croupier keys new"):
        _ = ring.sealing_key
    with pytest.raises(KeyringError, match="croupier keys new"):
        _ = ring.signer


def test_the_known_keyring_opens_with_its_passphrase(directory: Path) -> None:
    told = json.loads((Path(__file__).parents[2] / "vectors" / "keyring.json").read_text())
    directory.mkdir(mode=0o700)
    path = directory / keystore.FILE
    path.write_text(told["file"])
    path.chmod(0o600)
    ring = reopened(directory, "shuffler", told["passphrase"].encode())
    assert [key.content for key in ring.list()] == told["keys"]
    assert ring.signer.sign("batch", b"body").hex() == told["signature_of_body"]


def signed_list(ring: Keyring, **changes: object) -> str:
    """A list of keys that the ring signs, whatever is in it."""
    content = json.loads(ring.document())["content"]
    return signed_documents.sign_document("keys", content | changes, [ring.signer])


def trusted(ring: Keyring) -> signed_documents.Trusted:
    return signed_documents.trusted_keys([ring.signer.public])


@pytest.mark.parametrize(
    "changes",
    [
        *({"sequence": told} for told in (True, 1.5, -1, 2.0**53, "1", None)),
        {"role": 7},
        {"keys": {}},
        {"more": 0},
    ],
)
def test_a_list_with_a_field_of_another_type_or_range_is_refused(
    ring: Keyring, changes: dict[str, object]
) -> None:
    with pytest.raises(DocumentError, match="not a list of keys"):
        KeyList.verify(signed_list(ring, **changes), "shuffler", trusted(ring))


@pytest.mark.parametrize(
    "changes",
    [
        *({"expires": told} for told in (True, -1.0, 2.0**53, "1", "soon")),
        *({"public": told} for told in ("00", "FF" * 32, 5, None)),
        {"use": "both"},
        {"state": "lost"},
        {"id": 0},
        {"private": "00"},
    ],
)
def test_a_key_with_a_field_of_another_type_or_range_is_refused(
    ring: Keyring, changes: dict[str, object]
) -> None:
    first, *others = json.loads(ring.document())["content"]["keys"]
    text = signed_list(ring, keys=[first | changes, *others])
    with pytest.raises(DocumentError):
        KeyList.verify(text, "shuffler", trusted(ring))


def test_a_list_as_it_is_made_has_all_fields_in_their_ranges(ring: Keyring) -> None:
    ring.new()
    ring.rotate()
    found = KeyList.verify(ring.document(), "shuffler", trusted(ring))
    assert found.sequence == 4
    assert {key.state for key in found.keys} == {ACTIVE, EXPIRED}
