"""Shares: each half is uniform whatever was counted, both together give the sum exactly."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import chisquare

from croupier import wire
from croupier.coins import SeededCoins, SystemCoins
from croupier.errors import RefusedError
from croupier.service.messages import shares
from croupier.service.messages.sealing import Binding
from croupier.service.messages.shares import REPORT, SEED, SHARE
from croupier.shuffler import Shapes, gather, shapes_of, shuffle
from croupier.wire import Transport

VECTORS = json.loads((Path(__file__).parents[2] / "vectors" / "seals.json").read_text())
RARE = 1e-6
KEY = X25519PrivateKey.generate()
BINDING = Binding(Transport.SHARES, "0f" * 16, 3, 2, "cd" * 32, KEY.public_key().public_bytes_raw())

tallies = st.lists(st.integers(0, 2**32 - 1), min_size=1, max_size=12).map(
    lambda counts: np.array(counts, dtype=np.int64)
)


@given(tallies)
def test_the_two_halves_of_a_report_give_it_back(tally: np.ndarray) -> None:
    seed, share = shares.split_counts(tally)
    assert len(seed) == SEED
    mask = shares.expand_seed(seed, len(tally))
    assert shares.join_sums(share, mask).tolist() == tally.tolist()


@given(st.lists(st.lists(st.integers(0, 2**24), min_size=3, max_size=3), min_size=1, max_size=20))
def test_a_shuffled_batch_of_shares_sums_exactly(counts: list[list[int]]) -> None:
    reports = [shares.share_report(np.array(one), KEY.public_key(), BINDING) for one in counts]
    assert {str(shapes_of(one)) for one in reports} == {str(shares.stored_shapes(3))}
    seeds, released = shares.split_rows(shuffle(gather(reports), SystemCoins())[REPORT])
    assert shapes_of(released) == shares.released_shapes(3, len(counts))
    opened, total = shares.open_shares(released[SHARE], KEY, BINDING)
    assert opened.all()
    masks = shares.sum_masks(seeds, opened, 3, least=len(counts))
    assert shares.join_sums(total, masks).tolist() == np.sum(counts, axis=0).tolist()


def test_reports_that_do_not_open_are_named_and_left_out_of_both_sums() -> None:
    counts = np.arange(1, 9)[:, None] * 100 + np.arange(4)
    reports = [shares.share_report(one, KEY.public_key(), BINDING) for one in counts]
    rows = gather(reports)[REPORT].copy()
    rows[[2, 5], SEED + 40] ^= 1
    seeds, released = shares.split_rows(rows)
    opened, total = shares.open_shares(released[SHARE], KEY, BINDING)
    assert opened.tolist() == [True, True, False, True, True, False, True, True]
    kept = wire.decode_flags(wire.encode_flags(opened), len(counts))
    found = shares.join_sums(total, shares.sum_masks(seeds, kept, 4, least=6))
    assert found.tolist() == counts[opened].sum(axis=0).tolist()


@pytest.mark.parametrize("named", [0, 1, 7])
def test_masks_of_too_few_reports_are_not_released(named: int) -> None:
    """An analyzer that names one report would read that one."""
    seeds = np.zeros((8, SEED), np.uint8)
    with pytest.raises(RefusedError, match=f"{named} of 8 reports opened, at least 8 must"):
        shares.sum_masks(seeds, np.arange(8) < named, 4, least=8)


def test_flags_must_be_one_per_report() -> None:
    with pytest.raises(ValueError, match="opened must have 2 flags"):
        shares.sum_masks(np.zeros((2, SEED), np.uint8), np.ones(3, dtype=bool), 4, least=0)


@pytest.mark.parametrize("tally", [[-1], [2**32], [[1]], []])
def test_counts_that_do_not_fit_are_refused(tally: list[int]) -> None:
    with pytest.raises(ValueError, match="tally must be counts below"):
        shares.split_counts(np.array(tally, dtype=np.int64))


def test_a_batch_whose_counts_could_wrap_around_is_refused() -> None:
    shapes: Shapes = {"u": ((2**16, 1), "|u1")}
    shares.require_room(shapes, lambda _: 2**16 - 1)
    with pytest.raises(ValueError, match="users must keep the counts of 'u' below"):
        shares.require_room(shapes, lambda _: 2**16)


@pytest.mark.parametrize("count", [0, 1, 2**31, 2**32 - 1])
def test_what_the_analyzer_gets_of_a_report_is_uniform_whatever_was_counted(
    count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "croupier.service.messages.shares.secrets.token_bytes", SeededCoins(count).token
    )
    drawn = np.array([shares.split_counts(np.array([count, count]))[1] for _ in range(20000)])
    for column in drawn.T:
        for shift in (0, 8, 16, 24):
            seen = np.bincount((column >> np.uint32(shift)) & np.uint32(255), minlength=256)
            # Every byte of a share is uniform; false alarms 8e-6 a count.
            assert chisquare(seen).pvalue > RARE
    pairs = np.bincount((drawn[:, 0] >> 28) * 16 + (drawn[:, 1] >> 28), minlength=256)
    # And two counts' shares are independent; false alarms 1e-6.
    assert chisquare(pairs).pvalue > RARE


def test_a_seed_is_drawn_from_the_operating_system_and_never_twice() -> None:
    drawn = {shares.split_counts(np.array([0]))[0] for _ in range(1000)}
    # A repetition: 2^-237.
    assert len(drawn) == 1000


def test_the_known_share() -> None:
    case = VECTORS["shares"]
    told = case["binding"] | {
        "transport": Transport(case["binding"]["transport"]),
        "inner_key": bytes.fromhex(case["binding"]["inner_key"]),
    }
    binding, size = Binding(**told), len(case["tally"])
    assert binding.inner(SHARE).hex() == case["info"]
    mask = shares.expand_seed(bytes.fromhex(case["seed"]), size)
    assert mask.tolist() == case["mask"]
    assert shares.join_sums(np.array(case["share"], np.uint32), mask).tolist() == case["tally"]
    key = X25519PrivateKey.from_private_bytes(bytes.fromhex(VECTORS["analyzer"]["private"]))
    row = np.frombuffer(bytes.fromhex(case["sealed"]), np.uint8)[None, :]
    opened, total = shares.open_shares(row, key, binding)
    assert opened.all()
    assert total.tolist() == case["share"]


def test_the_stream_is_aes_256_in_counter_mode() -> None:
    # AES-256 of a zero block under a zero key, as in NIST's known answers.
    assert shares.expand_seed(bytes(32), 4).tobytes().hex() == "dc95c078a2408989ad48a21492842087"
