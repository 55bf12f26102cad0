"""A model document is read back bit for bit, or refused."""

from __future__ import annotations

import json
import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from numpy.typing import NDArray

from croupier.errors import DocumentError
from croupier.model import Model, canonical

Floats = NDArray[np.float64]

MODEL = Model(
    "ucb",
    np.array([0.1, -0.0]),
    np.array([[1.0, 0.25], [0.25, 5e-324]]),
    1.5,
    version=3,
    users=60,
    repairs=1,
    plan_id="ab" * 16,
    previous="cd" * 32,
)

finite = st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=True)


@given(
    theta=arrays(np.float64, 3, elements=finite),
    matrix=arrays(np.float64, (3, 3), elements=finite),
    scale=finite,
    version=st.integers(0, 2**53 - 1),
)
def test_a_model_is_read_back_bit_for_bit(
    theta: Floats, matrix: Floats, scale: float, version: int
) -> None:
    model = replace(MODEL, theta=theta, matrix=matrix, scale=scale, version=version)
    again = Model.from_json(model.to_json())
    # But for the sign of a zero, which RFC 8785 does not write.
    assert again.theta.tobytes() == (theta + 0.0).tobytes()
    assert again.matrix.tobytes() == (matrix + 0.0).tobytes()
    assert np.float64(again.scale).tobytes() == np.float64(scale + 0.0).tobytes()
    assert again.version == version
    assert again.hash == model.hash


def test_every_other_field_is_read_back_too() -> None:
    again = Model.from_json(MODEL.to_json())
    for name in ("policy", "users", "repairs", "plan_id", "previous"):
        assert getattr(again, name) == getattr(MODEL, name)


CHANGES: dict[str, object] = {
    "policy": "sampling",
    "theta": [0.1, 0.5],
    "matrix": [[1.0, 0.25], [0.25, 1e-323]],
    "scale": 1.6,
    "version": 4,
    "users": 61,
    "repairs": 0,
    "plan_id": "ac" * 16,
    "previous": "",
    "hash": "0" * 64,
}


def test_the_table_of_changes_covers_every_field_of_the_document() -> None:
    assert set(CHANGES) | {"kind"} == set(json.loads(MODEL.to_json()))


@pytest.mark.parametrize("name", CHANGES)
def test_an_altered_model_is_refused(name: str) -> None:
    document = json.loads(MODEL.to_json())
    document[name] = CHANGES[name]
    with pytest.raises(DocumentError, match="model hash is"):
        Model.from_json(json.dumps(document))


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("theta", "abc"),
        ("theta", [10**400, 0]),
        ("theta", [[1.0], [1.0, 2.0]]),
        ("theta", [math.nan, 0.0]),
        ("matrix", [[math.inf, 0.0], [0.0, 1.0]]),
        ("scale", "wide"),
        ("scale", None),
        ("surplus", 1),
    ],
)
def test_a_model_with_values_that_make_no_sense_is_refused(name: str, value: object) -> None:
    document = json.loads(MODEL.to_json())
    document[name] = value
    with pytest.raises(DocumentError):
        Model.from_json(json.dumps(document))


@pytest.mark.parametrize("name", ["kind", *CHANGES])
def test_a_model_without_one_of_its_fields_is_refused(name: str) -> None:
    document = json.loads(MODEL.to_json())
    del document[name]
    with pytest.raises(DocumentError):
        Model.from_json(json.dumps(document))


def test_a_truncated_model_is_refused_wherever_it_breaks_off() -> None:
    text = MODEL.to_json()
    for length in range(len(text)):
        with pytest.raises(DocumentError):
            Model.from_json(text[:length])


@pytest.mark.parametrize("text", ["", "null", "[]", "7", '"model"', '{"kind": "plan"}', "{}"])
def test_another_document_is_refused(text: str) -> None:
    with pytest.raises(DocumentError, match="not a model"):
        Model.from_json(text)


def test_a_model_that_is_not_finite_cannot_be_published() -> None:
    with pytest.raises(ValueError, match="not representable"):
        replace(MODEL, theta=np.array([math.nan, 0.0])).to_json()


def test_hashed_bytes_do_not_depend_on_the_order_of_the_fields() -> None:
    assert (
        canonical({"b": 0.1, "a": [1]}) == canonical({"a": [1], "b": 0.1}) == b'{"a":[1],"b":0.1}'
    )
