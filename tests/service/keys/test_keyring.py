"""Keyrings: states in order, private keys never in the clear, one directory for one role."""

from __future__ import annotations

import errno
import json
import os
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from croupier.errors import DocumentError, KeyringError, SignatureError
from croupier.service.keys import keystore
from croupier.service.keys.keylist import ACTIVE, EXPIRED, PENDING, SEAL, SIGN, Key, KeyList
from croupier.service.keys.keyring import GRACE, Keyring
from croupier.service.keys.steady_time import WAIT
from croupier.service.messages import signed_documents
from croupier.service.messages.sealing import seal, unseal

from .conftest import PASSPHRASE

NOW = 1_000_000.0


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


def test_an_expired_key_opens_until_it_is_deleted(ring: Keyring) -> None:
    """Whatever the clock says: this one is long past the key's end."""
    old = ring.list()[0].id
    sealed = seal(b"report", ring.sealing_key, b"info")
    ring.new()
    ring.rotate(grace=100, now=NOW)
    key = ring.opener(old)
    assert key is not None
    assert unseal(sealed, key, b"info") == b"report"
    ring.retire(NOW + 100)
    assert ring.opener(old) is None


# What a running service deletes; its looks are (wall clock, monotonic clock), both after NOW


def looked(ring: Keyring, *looks: tuple[float, float]) -> list[str]:
    """States after these looks, at a ring whose old keys end 100 seconds after NOW."""
    ring.new()
    ring.rotate(grace=100, now=NOW)
    for wall, monotonic in looks:
        ring.tidy(NOW + wall, monotonic)
    return states(ring)


def test_tidying_reads_what_changed_and_deletes_what_is_surely_over(
    ring: Keyring, directory: Path
) -> None:
    other = reopened(directory)
    other.new()
    other.rotate(grace=100, now=NOW)
    ring.tidy(NOW, 7.0)
    assert states(ring) == [EXPIRED, ACTIVE]
    ring.tidy(NOW + WAIT + 99, WAIT + 106.0)
    assert states(ring) == [EXPIRED, ACTIVE]
    ring.tidy(NOW + WAIT + 100, WAIT + 107.0)
    assert states(ring) == [ACTIVE]
    assert reopened(directory).list() == ring.list()


def test_one_look_deletes_nothing_and_a_jump_ahead_neither(ring: Keyring) -> None:
    days = 8 * 86400.0
    assert looked(ring, (days, 7.0)) == [EXPIRED, ACTIVE]
    assert looked_again(ring, (0, 8.0), (10, 18.0), (days, 28.0)) == [EXPIRED, ACTIVE]
    # Steady for an hour, then ahead: the hour begins anew.
    assert looked_again(ring, (0, 0.0), (WAIT, WAIT), (days, WAIT + 1)) == [EXPIRED, ACTIVE]
    assert looked_again(ring, (days + WAIT - 1, 2 * WAIT)) == [EXPIRED, ACTIVE]
    assert looked_again(ring, (2 * WAIT + 2, 2 * WAIT + 2)) == [EXPIRED, ACTIVE]


def looked_again(ring: Keyring, *looks: tuple[float, float]) -> list[str]:
    for wall, monotonic in looks:
        ring.tidy(NOW + wall, monotonic)
    return states(ring)


def test_a_jump_back_begins_the_wait_anew(ring: Keyring) -> None:
    late = 200 + WAIT
    assert looked(ring, (late, 0.0), (late - 50, WAIT)) == [EXPIRED, ACTIVE]
    assert looked_again(ring, (late - 50 + WAIT - 1, 2 * WAIT - 1)) == [EXPIRED, ACTIVE]
    assert looked_again(ring, (late - 50 + WAIT, 2 * WAIT)) == [ACTIVE]


def test_a_clock_that_is_only_corrected_is_believed(ring: Keyring) -> None:
    assert looked(ring, (200, 0.0), (200 + WAIT + 3, WAIT)) == [ACTIVE]


def test_a_directory_that_cannot_be_written_keeps_its_keys(
    ring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    def read_only(*_: object) -> int:
        raise OSError(errno.EROFS, "Read-only file system")

    looked(ring, (200, 0.0))
    with monkeypatch.context() as mounted:
        mounted.setattr(os, "open", read_only)
        assert looked_again(ring, (200 + WAIT, WAIT)) == [EXPIRED, ACTIVE]
        assert ring.opener(ring.list()[0].id) is not None
        with pytest.raises(OSError, match="Read-only"):
            ring.retire()


def test_another_trouble_than_a_read_only_directory_is_not_hidden(
    ring: Keyring, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    looked(ring, (200, 0.0))
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        ring.tidy(NOW + 200 + WAIT, WAIT)


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


@pytest.mark.parametrize("mode", [0o705, 0o770, 0o777, 0o701, 0o754])
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


@pytest.mark.parametrize("mode", [0o644, 0o604, 0o660])
def test_a_file_that_others_can_read_is_refused(mode: int, ring: Keyring, directory: Path) -> None:
    (directory / keystore.FILE).chmod(mode)
    with pytest.raises(KeyringError, match="try: chmod 600"):
        reopened(directory)


def test_somebody_elses_directory_is_refused(
    ring: Keyring, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() == 0:
        os.chown(directory, 4321, -1)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    with pytest.raises(KeyringError, match="belongs to user"):
        reopened(directory)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can own files that are not ours")
def test_roots_directory_opens_for_a_service_in_its_group(
    ring: Keyring, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And goes on doing so after root has rotated."""
    directory.chmod(0o750)
    path = directory / keystore.FILE
    os.chown(path, 0, 4321)
    for mode in (0o640, 0o440):
        path.chmod(mode)
        ring.new()
        ring.rotate()
        assert (path.stat().st_mode & 0o777, path.stat().st_gid) == (0o640, 4321)
    monkeypatch.setattr(os, "geteuid", lambda: 12345)
    assert reopened(directory).list() == ring.list()


def test_a_keyring_opens_and_serves_where_nothing_can_be_written(
    ring: Keyring, directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = os.open

    def reads(path: os.PathLike[str], flags: int, *mode: int) -> int:
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            raise OSError(errno.EROFS, "Read-only file system")
        return real(path, flags, *mode)

    monkeypatch.setattr(os, "open", reads)
    again = reopened(directory)
    again.tidy()
    assert again.document() == ring.document()
    with pytest.raises(OSError, match="Read-only"):
        again.new()


def test_a_keyring_is_read_again_behind_the_links_that_kubernetes_mounts(
    ring: Keyring, directory: Path, tmp_path: Path
) -> None:
    """An update puts a directory in place of another, behind a link."""
    mount = tmp_path / "mount"
    mount.mkdir(mode=0o750)
    (mount / "..data").symlink_to(directory)
    (mount / keystore.FILE).symlink_to(Path("..data") / keystore.FILE)
    running = reopened(mount)
    newer = tmp_path / "newer"
    shutil.copytree(directory, newer)
    made = reopened(newer).new()
    assert not running.refresh()
    (mount / "..next").symlink_to(newer)
    (mount / "..next").replace(mount / "..data")
    assert running.refresh()
    assert running.opener(made[0].id) is not None


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
