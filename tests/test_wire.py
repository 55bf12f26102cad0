"""Bytes: every length is public, every round trip exact, every deviation refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from croupier import packing, wire
from croupier.analyzer import Analyzer
from croupier.client import Client
from croupier.coins import SystemCoins
from croupier.errors import WireError
from croupier.plan import Plan
from croupier.shuffler import Batch, Messages, Report, Shapes, Shuffler, gather, shapes_of, shuffle
from croupier.wire import BatchHeader, Record, Transport

VECTORS = json.loads((Path(__file__).parent / "vectors" / "wire.json").read_text())
KINDS = ["|i1", "<i2", "<i4", "<i8", "<u4", ">u4", ">i8", "<f8", "<f4"]

bits = st.tuples(st.tuples(st.integers(0, 40), st.just(1)), st.just("|u1"))
blobs = st.tuples(st.tuples(st.integers(0, 4), st.integers(2, 9)), st.just("|u1"))
numbers = st.tuples(st.tuples(st.integers(0, 5), st.integers(1, 4)), st.sampled_from(KINDS))
many_shapes: st.SearchStrategy[Any] = st.dictionaries(
    st.text(max_size=4), bits | blobs | numbers, max_size=6
)


@st.composite
def reports(draw: st.DrawFn) -> tuple[Shapes, Messages]:
    shapes = draw(many_shapes)
    return shapes, {name: rows(draw, shape, kind) for name, (shape, kind) in shapes.items()}


def rows(draw: st.DrawFn, shape: tuple[int, ...], kind: str) -> Any:
    dtype, count = np.dtype(kind), shape[0] * shape[1]
    if kind == "|u1" and shape[1] == 1:
        values = draw(st.lists(st.integers(0, 1), min_size=count, max_size=count))
        return np.array(values, dtype).reshape(shape)
    size = count * dtype.itemsize
    data = draw(st.binary(min_size=size, max_size=size))
    return np.frombuffer(data, dtype).reshape(shape)


def same(found: Messages, wanted: Messages) -> bool:
    """Bit for bit, also where a float is not a number."""
    raw = [{name: part.tobytes() for name, part in one.items()} for one in (found, wanted)]
    return (
        list(found) == list(wanted) and raw[0] == raw[1] and shapes_of(found) == shapes_of(wanted)
    )


def record(**changes: Any) -> Record:
    shared: dict[str, Any] = {
        "transport": Transport.BITS,
        "key_id": bytes(range(8)),
        "batch": 7,
        "model_hash": "ab" * 32,
        "report_id": bytes(16),
        "account": bytes(32),
        "sealed": b"sealed",
    }
    return Record(**{**shared, **changes})


HEADER = BatchHeader(Transport.SEALED, "0f" * 16, 3, 2, "cd" * 32, b"12345678")
SHAPES: Shapes = {"a": ((9, 1), "|u1"), "b": ((2, 3), "<i8"), "c": ((3, 1), "|u1")}
MESSAGES: Messages = {
    "a": np.ones((9, 1), np.uint8),
    "b": np.arange(6, dtype=np.int64).reshape(2, 3) - 3,
    "c": np.zeros((3, 1), np.uint8),
}


@given(reports())
def test_a_report_is_read_back_bit_for_bit_and_its_length_is_public(
    report: tuple[Shapes, Messages],
) -> None:
    shapes, messages = report
    data = wire.encode_report(shapes, messages)
    assert len(data) == wire.report_length(shapes)
    assert same(wire.decode_report(shapes, data), messages)


@given(reports())
def test_a_batch_is_read_back_bit_for_bit(report: tuple[Shapes, Messages]) -> None:
    shapes, messages = report
    header, found = wire.decode_batch(shapes, wire.encode_batch(HEADER, shapes, messages))
    assert header == HEADER
    assert same(found, messages)


@given(st.dictionaries(st.text(max_size=4), bits, max_size=6), st.data())
def test_counts_are_read_back_and_fill_eight_bytes_each(shapes: Shapes, data: Any) -> None:
    counts = {name: data.draw(st.integers(0, rows)) for name, ((rows, _), _) in shapes.items()}
    sent = wire.encode_counts(HEADER, shapes, counts)
    assert len(sent) == wire.counts_length(shapes) == 66 + 8 * len(shapes)
    assert wire.decode_counts(shapes, sent) == (HEADER, counts)


def test_counts_of_other_channels_or_beyond_their_bits_are_not_encoded() -> None:
    shapes: Shapes = {"a": ((9, 1), "|u1")}
    with pytest.raises(ValueError, match=r"counts must be for \['a'\], got \['b'\]"):
        wire.encode_counts(HEADER, shapes, {"b": 1})
    for wrong in (-1, 10):
        with pytest.raises(WireError, match=f"ones of 'a' must be 0 to 9, got {wrong}"):
            wire.encode_counts(HEADER, shapes, {"a": wrong})


@given(st.integers(0, 20), st.integers(0, 600), st.integers(0, 2**32 - 1))
def test_ones_are_counted_place_by_place(count: int, reports: int, seed: int) -> None:
    """Also where more reports have a one than fit in a byte."""
    rows = (np.random.default_rng(seed).random((reports, count)) < 0.9).astype(np.uint8)
    payloads = [packing.pack(row) for row in rows]
    assert packing.count_ones(payloads, count).tolist() == rows.sum(axis=0).tolist()


def test_what_is_counted_is_read_as_strictly_as_one_report() -> None:
    for wrong, reason in ((b"\x01", "wrong-length"), (b"\x00\x02", "bad-padding")):
        with pytest.raises(WireError) as refused:
            packing.count_ones([b"\x00\x00", wrong], 9)
        assert refused.value.reason == reason


@given(many_shapes, st.data())
def test_whatever_is_decoded_is_encoded_to_the_same_bytes(shapes: Shapes, data: Any) -> None:
    length = wire.report_length(shapes)
    given_bytes = bytearray(data.draw(st.binary(min_size=length, max_size=length)))
    counts = [shape[0] for shape, kind in shapes.values() if (shape[1], kind) == (1, "|u1")]
    if sum(counts) % 8:
        given_bytes[sum(counts) // 8] &= 2 ** (sum(counts) % 8) - 1
    messages = wire.decode_report(shapes, bytes(given_bytes))
    assert wire.encode_report(shapes, messages) == given_bytes


@given(reports(), st.integers(-60, 60).filter(bool))
def test_a_report_of_another_length_is_refused(
    report: tuple[Shapes, Messages], change: int
) -> None:
    shapes, messages = report
    data = wire.encode_report(shapes, messages)
    wrong = data + bytes(change) if change > 0 else data[:change]
    if len(wrong) != len(data):
        with pytest.raises(WireError) as refused:
            wire.decode_report(shapes, wrong)
        assert refused.value.reason == "wrong-length"


def test_every_truncation_and_extension_of_a_batch_is_refused() -> None:
    data = wire.encode_batch(HEADER, SHAPES, MESSAGES)
    wrongs = [data[:end] for end in range(len(data))] + [data + bytes(1), data + data]
    for wrong in wrongs:
        with pytest.raises(WireError) as refused:
            wire.decode_batch(SHAPES, wrong)
        assert refused.value.reason == "wrong-length"


def test_every_padding_bit_is_refused_and_every_other_bit_counts() -> None:
    data = wire.encode_report(SHAPES, MESSAGES)
    padding = set(range(12, 16))
    for place in range(8 * len(data)):
        flipped = bytearray(data)
        flipped[place // 8] ^= 1 << place % 8
        if place in padding:
            with pytest.raises(WireError) as refused:
                wire.decode_report(SHAPES, bytes(flipped))
            assert refused.value.reason == "bad-padding"
        else:
            assert not same(wire.decode_report(SHAPES, bytes(flipped)), MESSAGES)


def test_bits_of_a_report_are_packed_together_and_those_of_a_batch_by_channel() -> None:
    report = wire.encode_report(SHAPES, MESSAGES)
    batch = wire.encode_batch(HEADER, SHAPES, MESSAGES)[66:]
    integers = MESSAGES["b"].tobytes()
    assert report == bytes([0xFF, 0x01]) + integers
    assert batch == bytes([0xFF, 0x01]) + integers + bytes([0x00])


records = st.lists(
    st.builds(
        Record,
        st.sampled_from(Transport),
        st.binary(min_size=8, max_size=8),
        st.integers(0, 2**32 - 1),
        st.binary(min_size=32, max_size=32).map(bytes.hex),
        st.binary(min_size=16, max_size=16),
        st.binary(min_size=32, max_size=32),
        st.binary(min_size=11, max_size=11),
    ),
    min_size=1,
    max_size=5,
)


@given(records)
def test_records_are_read_back_as_they_were(sent: list[Record]) -> None:
    data = wire.encode_records(sent)
    assert len(data) == len(sent) * wire.record_length(11)
    assert wire.decode_records(data, 11) == sent


def test_every_truncation_and_extension_of_records_is_refused() -> None:
    size = wire.record_length(6)
    data = wire.encode_records([record(), record(batch=8)])
    wrongs = [data[:end] for end in range(2 * size) if end != size]
    for wrong in [*wrongs, data + bytes([1]), data + data[:-1]]:
        with pytest.raises(WireError) as refused:
            wire.decode_records(wrong, 6)
        assert refused.value.reason == "wrong-length"


def test_a_records_length_may_follow_from_its_batch() -> None:
    sent = [record(batch=1, sealed=b"x"), record(batch=3, sealed=b"xyz")]
    assert wire.decode_records(wire.encode_records(sent), lambda batch: batch) == sent


@pytest.mark.parametrize(
    ("place", "value", "reason"),
    [(0, 0, "bad-version"), (0, 2, "bad-version"), (1, 3, "malformed"), (1, 255, "malformed")],
)
def test_another_version_or_transport_is_refused_wherever_it_stands(
    place: int, value: int, reason: str
) -> None:
    def changed(data: bytes) -> bytes:
        return data[:place] + bytes([value]) + data[place + 1 :]

    one = wire.encode_records([record()])
    with pytest.raises(WireError) as in_record:
        wire.decode_records(one + changed(one), 6)
    with pytest.raises(WireError) as in_batch:
        wire.decode_batch(SHAPES, changed(wire.encode_batch(HEADER, SHAPES, MESSAGES)))
    assert in_record.value.reason == in_batch.value.reason == reason


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"key_id": b"short"}, "key_id must have 8 bytes, got 5"),
        ({"model_hash": "ab"}, "model_hash must be 64 lower-case hex digits, got 'ab'"),
        ({"model_hash": "AB" * 32}, "model_hash must be 64 lower-case hex digits"),
        ({"model_hash": "x" * 64}, "model_hash must be 64 lower-case hex digits"),
        ({"report_id": bytes(17)}, "report_id must have 16 bytes, got 17"),
        ({"account": b""}, "account must have 32 bytes, got 0"),
    ],
)
def test_a_record_with_a_bad_field_is_not_written(changes: dict[str, Any], text: str) -> None:
    with pytest.raises(ValueError, match=text):
        wire.encode_records([record(**changes)])


@pytest.mark.parametrize("beyond", [-1, 2**32])
def test_counts_beyond_32_bits_are_refused(beyond: int) -> None:
    for wrong in (
        lambda: wire.encode_records([record(batch=beyond)]),
        lambda: wire.encode_batch(
            BatchHeader(Transport.BITS, "0f" * 16, 0, beyond, "cd" * 32), {}, {}
        ),
        lambda: wire.report_length({"a": ((beyond, 1), "|u1")}),
    ):
        with pytest.raises(WireError, match=f"must fit in 32 bits, got {beyond}") as refused:
            wrong()
        assert refused.value.reason == "malformed"


@pytest.mark.parametrize(
    ("messages", "text"),
    [
        ({"a": np.full((2, 1), 2, np.uint8)}, "messages must hold bits"),
        ({"a": np.ones((3, 1), np.uint8)}, r"2 rows of 1 uint8 for 'a', got \(3, 1\)"),
        ({"a": np.ones((2, 1), np.int8)}, "of int8"),
        ({"b": np.ones((2, 1), np.uint8)}, r"messages must be for \['a'\], got \['b'\]"),
    ],
)
def test_messages_of_another_shape_are_not_written(messages: Messages, text: str) -> None:
    with pytest.raises(ValueError, match=text):
        wire.encode_report({"a": ((2, 1), "|u1")}, messages)


@pytest.mark.parametrize(
    "shape", [((2,), "|u1"), ((2, 0), "|u1"), ((2, 1), "|O"), ((1, 1), "<c16")]
)
def test_shapes_that_are_not_rows_of_numbers_are_refused(shape: Any) -> None:
    with pytest.raises(ValueError, match="shapes must be rows of numbers"):
        wire.report_length({"a": shape})


@given(st.lists(st.booleans(), max_size=30))
def test_flags_are_read_back_and_their_padding_is_strict(told: list[bool]) -> None:
    data = wire.encode_flags(np.array(told, dtype=bool))
    assert wire.decode_flags(data, len(told)).tolist() == told
    for count in (len(told) - 8, len(told) + 8):
        if count >= 0:
            with pytest.raises(WireError, match="must have"):
                wire.decode_flags(data, count)
    if len(told) % 8:
        with pytest.raises(WireError, match="bits set beyond"):
            wire.decode_flags(data[:-1] + bytes([data[-1] | 0x80]), len(told))


@given(st.lists(st.integers(0, 2**32 - 1), max_size=9))
def test_words_are_read_back(told: list[int]) -> None:
    data = wire.encode_words(np.array(told, dtype=np.uint32))
    assert wire.decode_words(data, len(told)).tolist() == told
    with pytest.raises(WireError, match="must have"):
        wire.decode_words(data + b"\x00", len(told))


def plan(protocol: str) -> Plan:
    return Plan.calibrate(
        protocol, dim=2, batch_size=6, horizon=60, batches="fixed", epsilon=4.0, delta=0.1
    )


@pytest.mark.parametrize("protocol", ["vector-sum", "amplified-gaussian", "noiseless"])
def test_what_travelled_as_bytes_gives_the_same_model(protocol: str) -> None:
    made = plan(protocol)
    shapes, shuffler, released = made.shapes(0), Shuffler(made), None
    for _ in range(made.users(0)):
        report = Client(made).report([0.6, 0.0], 1.0)
        data = wire.encode_report(shapes, report.messages)
        assert len(data) == wire.report_length(shapes)
        released = shuffler.collect(Report(made.id, 0, wire.decode_report(shapes, data)))
    assert released is not None
    header = BatchHeader(Transport.BITS, made.id, 0, made.users(0), Analyzer(made).model.hash)
    together = wire.batch_shapes(shapes, made.users(0))
    data = wire.encode_batch(header, together, released.messages)
    found, messages = wire.decode_batch(together, data)
    arrived = Analyzer(made).receive(Batch(found.plan_id, found.batch, messages))
    assert arrived.hash == Analyzer(made).receive(released).hash


def test_a_batch_takes_the_order_of_its_channels_from_the_shapes() -> None:
    shuffled = shuffle(gather([MESSAGES, MESSAGES]), SystemCoins())
    backwards = dict(reversed(list(shuffled.items())))
    together = wire.batch_shapes(SHAPES, 2)
    sent = [wire.encode_batch(HEADER, together, one) for one in (shuffled, backwards)]
    assert sent[0] == sent[1]


# Known answers


def shapes_from(told: Any) -> Shapes:
    return {name: ((count, width), kind) for name, (count, width, kind) in told.items()}


def messages_from(told: Any, shapes: Shapes) -> Messages:
    return {
        name: np.array(told[name], dtype=kind).reshape(shape)
        for name, (shape, kind) in shapes.items()
    }


@pytest.mark.parametrize("case", VECTORS["reports"], ids=lambda case: case["name"])
def test_known_reports(case: Any) -> None:
    shapes = shapes_from(case["shapes"])
    messages = messages_from(case["messages"], shapes)
    assert wire.encode_report(shapes, messages).hex() == case["bytes"]
    assert same(wire.decode_report(shapes, bytes.fromhex(case["bytes"])), messages)
    for bad in case["bad"]:
        with pytest.raises(WireError) as refused:
            wire.decode_report(shapes, bytes.fromhex(bad["bytes"]))
        assert refused.value.reason == bad["reason"], bad["why"]


def test_known_records() -> None:
    case = VECTORS["records"]
    wanted = [
        Record(
            Transport(told["transport"]),
            bytes.fromhex(told["key_id"]),
            told["batch"],
            told["model_hash"],
            *(bytes.fromhex(told[name]) for name in ("report_id", "account", "sealed")),
        )
        for told in case["records"]
    ]
    assert wire.encode_records(wanted).hex() == case["bytes"]
    assert wire.decode_records(bytes.fromhex(case["bytes"]), case["sealed_length"]) == wanted
    for bad in case["bad"]:
        with pytest.raises(WireError) as refused:
            wire.decode_records(bytes.fromhex(bad["bytes"]), case["sealed_length"])
        assert refused.value.reason == bad["reason"], bad["why"]


def header_from(told: Any) -> BatchHeader:
    return BatchHeader(
        Transport(told["transport"]),
        told["plan_id"],
        told["batch"],
        told["users"],
        told["model_hash"],
        bytes.fromhex(told["key_id"]),
    )


@pytest.mark.parametrize("case", VECTORS["counts"], ids=lambda case: case["name"])
def test_known_counts(case: Any) -> None:
    shapes, header = shapes_from(case["shapes"]), header_from(case["header"])
    assert wire.encode_counts(header, shapes, case["counts"]).hex() == case["bytes"]
    found = wire.decode_counts(shapes, bytes.fromhex(case["bytes"]))
    assert found == (header, case["counts"])
    for bad in case["bad"]:
        with pytest.raises(WireError) as refused:
            wire.decode_counts(shapes, bytes.fromhex(bad["bytes"]))
        assert refused.value.reason == bad["reason"], bad["why"]


@pytest.mark.parametrize("case", VECTORS["batches"], ids=lambda case: case["name"])
def test_known_batches(case: Any) -> None:
    shapes, header = shapes_from(case["shapes"]), header_from(case["header"])
    messages = messages_from(case["messages"], shapes)
    assert wire.encode_batch(header, shapes, messages).hex() == case["bytes"]
    found, decoded = wire.decode_batch(shapes, bytes.fromhex(case["bytes"]))
    assert found == header
    assert same(decoded, messages)
    for bad in case["bad"]:
        with pytest.raises(WireError) as refused:
            wire.decode_batch(shapes, bytes.fromhex(bad["bytes"]))
        assert refused.value.reason == bad["reason"], bad["why"]
