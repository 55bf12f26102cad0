"""Seals: what is bound stays bound, lengths say nothing, and nothing altered opens."""

from __future__ import annotations

import hmac
import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import AESGCM
from hypothesis import given
from hypothesis import strategies as st

from croupier import wire
from croupier.coins import SystemCoins
from croupier.errors import SealError
from croupier.plan import Plan
from croupier.service.messages import sealing
from croupier.service.messages.sealing import OVERHEAD, Binding, open_report, seal_report
from croupier.service.messages.signed_documents import key_id
from croupier.shuffler import Messages, Shapes, gather, shapes_of, shuffle
from croupier.wire import Transport

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "seals.json").read_text())
KEY, OTHER = X25519PrivateKey.generate(), X25519PrivateKey.generate()
INNER = OTHER.public_key().public_bytes_raw()
BINDING = Binding(Transport.SEALED, "0f" * 16, 3, 2, "cd" * 32, INNER)
REPORT_ID = bytes(range(16))
SHAPES: Shapes = {"vector": ((1, 2), "<i8"), "bits": ((3, 1), "|u1")}
MESSAGES: Messages = {
    "vector": np.array([[5, -6]], np.int64),
    "bits": np.array([[1], [0], [1]], np.uint8),
}


def bound(told: dict[str, Any]) -> Binding:
    fields = told | {
        "transport": Transport(told["transport"]),
        "inner_key": bytes.fromhex(told["inner_key"]),
    }
    return Binding(**fields)


def private(role: str) -> X25519PrivateKey:
    return X25519PrivateKey.from_private_bytes(bytes.fromhex(VECTORS[role]["private"]))


@given(st.binary(max_size=200))
def test_a_report_opens_for_what_it_was_sealed_for_and_its_length_says_nothing(
    payload: bytes,
) -> None:
    sealed = seal_report(payload, KEY.public_key(), BINDING, REPORT_ID)
    assert len(sealed) == len(payload) + OVERHEAD
    assert open_report(sealed, KEY, BINDING, REPORT_ID) == payload


@pytest.mark.parametrize(
    "changes",
    [
        {"transport": Transport.BITS},
        {"plan_id": "1f" * 16},
        {"batch": 4},
        {"model_version": 3},
        {"model_hash": "ce" * 32},
        {"inner_key": bytes(32)},
    ],
)
def test_a_report_opens_for_no_other_plan_batch_model_transport_or_inner_key(
    changes: dict[str, Any],
) -> None:
    sealed = seal_report(b"payload", KEY.public_key(), BINDING, REPORT_ID)
    with pytest.raises(SealError):
        open_report(sealed, KEY, replace(BINDING, **changes), REPORT_ID)


def test_a_report_opens_for_no_other_id_or_key_and_not_as_an_inner_seal() -> None:
    sealed = seal_report(b"payload", KEY.public_key(), BINDING, REPORT_ID)
    for key, info in (
        (KEY, BINDING.outer(bytes(16))),
        (OTHER, BINDING.outer(REPORT_ID)),
        (KEY, BINDING.inner("")),
        (KEY, b""),
    ):
        with pytest.raises(SealError) as refused:
            sealing.unseal(sealed, key, info)
        assert refused.value.reason == "undecryptable"


def test_every_bit_flip_and_every_truncation_of_a_report_is_refused() -> None:
    sealed = seal_report(b"pay", KEY.public_key(), BINDING, REPORT_ID)
    whole = int.from_bytes(sealed, "little")
    flips = [
        (whole ^ 1 << place).to_bytes(len(sealed), "little") for place in range(8 * len(sealed))
    ]
    cuts = [sealed[:end] for end in range(len(sealed))]
    for wrong in [*flips, *cuts, sealed + b"\x00"]:
        with pytest.raises(SealError):
            open_report(wrong, KEY, BINDING, REPORT_ID)


def test_two_seals_of_one_payload_have_nothing_in_common() -> None:
    first, second = (seal_report(bytes(64), KEY.public_key(), BINDING, REPORT_ID) for _ in "ab")
    blocks = [{sealed[at : at + 8] for at in range(0, 112, 8)} for sealed in (first, second)]
    # A block of 64 bits in common: 14 * 14 / 2^64.
    assert not blocks[0] & blocks[1]


def test_bindings_of_channels_and_roles_are_all_different() -> None:
    infos = [BINDING.outer(bytes(16)), *(BINDING.inner(name) for name in ("", "a", "ab", "b"))]
    assert len(set(infos)) == len(infos)


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"plan_id": "ff"}, "plan_id must be 32 lower-case hex digits, got 'ff'"),
        ({"model_hash": ""}, "model_hash must be 64 lower-case hex digits"),
        ({"inner_key": b"short"}, "inner_key must have 32 bytes, got 5"),
    ],
)
def test_a_binding_with_a_bad_field_seals_nothing(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        seal_report(b"", KEY.public_key(), replace(BINDING, **changes), REPORT_ID)


@given(st.integers(-(2**63), 2**63 - 1), st.lists(st.integers(0, 1), min_size=3, max_size=3))
def test_sealed_rows_have_public_shapes_and_are_read_back(number: int, bits: list[int]) -> None:
    messages: Messages = {
        "vector": np.array([[number, -1]], np.int64),
        "bits": np.array(bits, np.uint8)[:, None],
    }
    sealed = sealing.seal_rows(SHAPES, messages, OTHER.public_key(), BINDING)
    assert shapes_of(sealed) == sealing.sealed_shapes(SHAPES)
    assert sealing.sealed_shapes(SHAPES) == {"vector": ((1, 64), "|u1"), "bits": ((3, 49), "|u1")}
    found, bad = sealing.open_rows(SHAPES, sealed, OTHER, BINDING)
    assert bad == 0
    assert shapes_of(found) == SHAPES
    assert all(np.array_equal(found[name], messages[name]) for name in SHAPES)


def test_rows_are_sealed_one_by_one_so_that_they_can_be_permuted() -> None:
    users = [
        {"vector": np.array([[place, -place]], np.int64), "bits": MESSAGES["bits"]}
        for place in range(8)
    ]
    reports = [sealing.seal_rows(SHAPES, one, OTHER.public_key(), BINDING) for one in users]
    shuffled = shuffle(gather(reports), SystemCoins())
    found, bad = sealing.open_rows(wire.batch_shapes(SHAPES, 8), shuffled, OTHER, BINDING)
    assert bad == 0
    assert sorted(found["vector"].tolist()) == [[place, -place] for place in range(8)]
    assert int(found["bits"].sum()) == 16


def test_equal_rows_do_not_look_equal() -> None:
    sealed = sealing.seal_rows(SHAPES, MESSAGES, OTHER.public_key(), BINDING)["bits"]
    assert len({row.tobytes() for row in sealed}) == 3


def test_a_row_that_does_not_open_counts_as_zeros_and_is_counted() -> None:
    reports = [
        sealing.seal_rows(SHAPES, MESSAGES, OTHER.public_key(), BINDING),
        sealing.seal_rows(SHAPES, MESSAGES, KEY.public_key(), BINDING),
    ]
    together = gather(reports)
    together["bits"][0, 3] ^= 1
    found, bad = sealing.open_rows(wire.batch_shapes(SHAPES, 2), together, OTHER, BINDING)
    assert bad == 5
    assert found["vector"].tolist() == [[5, -6], [0, 0]]
    assert found["bits"].ravel().tolist() == [0, 0, 1, 0, 0, 0]


def test_a_sealed_bit_that_is_neither_0_nor_1_counts_as_zero() -> None:
    shapes: Shapes = {"bits": ((1, 1), "|u1")}
    blob = sealing.seal(bytes([200]), OTHER.public_key(), BINDING.inner("bits"))
    rows = {"bits": sealing.byte_rows([blob], 49)}
    found, bad = sealing.open_rows(shapes, rows, OTHER, BINDING)
    assert (bad, found["bits"].tolist()) == (1, [[0]])


def test_a_row_does_not_move_to_another_channel() -> None:
    shapes: Shapes = {"a": ((1, 1), "<i8"), "b": ((1, 1), "<i8")}
    messages = {name: np.array([[9]], np.int64) for name in shapes}
    sealed = sealing.seal_rows(shapes, messages, OTHER.public_key(), BINDING)
    swapped = {"a": sealed["b"], "b": sealed["a"]}
    assert sealing.open_rows(shapes, swapped, OTHER, BINDING)[1] == 2


def test_a_user_with_a_key_of_their_own_is_refused_by_the_shuffler_before_anybody_reads() -> None:
    """The analyzer gives one user another key, to tell their report apart."""
    private_key = X25519PrivateKey.generate().public_key()
    tagged = replace(BINDING, inner_key=private_key.public_bytes_raw())
    rows = sealing.seal_rows(SHAPES, MESSAGES, private_key, tagged)
    payload = wire.encode_report(sealing.sealed_shapes(SHAPES), rows)
    sealed = seal_report(payload, KEY.public_key(), tagged, REPORT_ID)
    with pytest.raises(SealError):
        open_report(sealed, KEY, BINDING, REPORT_ID)


@pytest.mark.parametrize("protocol", ["vector-sum", "amplified-gaussian"])
def test_reports_of_a_plan_have_one_length_whatever_the_data(protocol: str) -> None:
    plan = Plan.calibrate(
        protocol, dim=2, batch_size=6, horizon=60, batches="fixed", epsilon=4.0, delta=0.1
    )
    shapes, lengths = plan.shapes(0), set()
    for value in (0.0, 1e-9, 0.5, 1.0):
        row = np.full(plan.layout.size, value)
        messages = plan.release(0).randomize(row, SystemCoins())  # type: ignore[attr-defined]
        inside = sealing.seal_rows(shapes, messages, OTHER.public_key(), BINDING)
        for one in (
            wire.encode_report(shapes, messages),
            wire.encode_report(sealing.sealed_shapes(shapes), inside),
        ):
            lengths.add(len(seal_report(one, KEY.public_key(), BINDING, REPORT_ID)))
    inner_length = wire.report_length(sealing.sealed_shapes(shapes))
    assert lengths == {wire.report_length(shapes) + OVERHEAD, inner_length + OVERHEAD}


# Known answers


def test_key_ids_of_the_vectors() -> None:
    for role in ("shuffler", "analyzer"):
        public = private(role).public_key().public_bytes_raw()
        assert public.hex() == VECTORS[role]["public"]
        assert key_id(public).hex() == VECTORS[role]["id"]


def test_the_known_report_opens_and_the_bad_ones_do_not() -> None:
    case = VECTORS["outer"]
    binding, report_id = bound(case["binding"]), bytes.fromhex(case["report_id"])
    assert binding.outer(report_id).hex() == case["info"]
    sealed = bytes.fromhex(case["sealed"])
    assert open_report(sealed, private("shuffler"), binding, report_id).hex() == case["payload"]
    for bad in case["bad"]:
        with pytest.raises(SealError):
            open_report(bytes.fromhex(bad["sealed"]), private("shuffler"), binding, report_id)


def test_the_known_row_opens_and_the_bad_ones_do_not() -> None:
    case = VECTORS["rows"]
    binding, (count, width, kind) = bound(case["binding"]), case["shape"]
    assert binding.inner(case["channel"]).hex() == case["info"]
    shapes: Shapes = {case["channel"]: ((count, width), kind)}

    def opened(text: str) -> tuple[Any, int]:
        rows = {case["channel"]: sealing.byte_rows([bytes.fromhex(text)], len(text) // 2)}
        found, bad = sealing.open_rows(shapes, rows, private("analyzer"), binding)
        return found[case["channel"]].tolist(), bad

    assert opened(case["sealed"]) == ([case["row"]], 0)
    for bad in case["bad"]:
        assert opened(bad["sealed"]) == ([[0, 0]], 1), bad["why"]


def labelled(suite: bytes, label: bytes, secret: bytes, info: bytes, length: int) -> bytes:
    """LabeledExpand of RFC 9180 for at most one block of HMAC-SHA256."""
    told = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return hmac.digest(secret, told + b"\x01", "sha256")[:length]


def extracted(suite: bytes, salt: bytes, label: bytes, secret: bytes) -> bytes:
    """LabeledExtract of RFC 9180."""
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + secret, "sha256")


def opened_by_the_book(sealed: bytes, key: X25519PrivateKey, info: bytes) -> bytes:
    """RFC 9180, sections 4.1, 5.1 and 5.2, base mode, one message, no further data."""
    kem, suite = b"KEM\x00\x20", b"HPKE\x00\x20\x00\x01\x00\x01"
    point, text = sealed[:32], sealed[32:]
    shared = key.exchange(X25519PublicKey.from_public_bytes(point))
    context = point + key.public_key().public_bytes_raw()
    secret = labelled(kem, b"shared_secret", extracted(kem, b"", b"eae_prk", shared), context, 32)
    told = b"\x00" + extracted(suite, b"", b"psk_id_hash", b"")
    told += extracted(suite, b"", b"info_hash", info)
    schedule = extracted(suite, secret, b"secret", b"")
    nonce = labelled(suite, b"base_nonce", schedule, told, 12)
    return AESGCM(labelled(suite, b"key", schedule, told, 16)).decrypt(nonce, text, b"")


def test_a_receiver_written_from_the_rfc_opens_the_same_bytes() -> None:
    case = VECTORS["outer"]
    sealed, info = bytes.fromhex(case["sealed"]), bytes.fromhex(case["info"])
    assert opened_by_the_book(sealed, private("shuffler"), info).hex() == case["payload"]
