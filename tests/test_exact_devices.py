"""Devices compute in integers, draw from the system, and do the same work whatever the data."""

from __future__ import annotations

import ast
import inspect
import itertools
import math
from collections import Counter, deque
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.stats import chi2

import croupier
from croupier.coins import Coins, SeededCoins, SystemCoins
from croupier.contribution import contribution
from croupier.fixed_point import UNIT
from croupier.layouts import Layout, LightOffset, PapersLayout
from croupier.protocols import amplified_gaussian, vector_release
from croupier.protocols.amplified_gaussian import AmplifiedGaussianRelease
from croupier.protocols.base import Floats, ShuffleRelease
from croupier.protocols.releases import gaussian_finish
from croupier.protocols.tree_release import ConcurrentTreeRelease
from croupier.protocols.vector_release import VectorSumRelease

LAYOUT = LightOffset(3)
WHOLE = 2**56
RELEASES = [
    VectorSumRelease(LAYOUT, 4, 5.5, 13, 0.5),
    VectorSumRelease(LAYOUT, 4, 5.5, 13, 0.25),
    AmplifiedGaussianRelease(LAYOUT, 4, 0.7),
    ConcurrentTreeRelease(LAYOUT, 4, (4, 12), (5.5, 9.0), (13, 7)),
]
EVERY_RELEASE = pytest.mark.parametrize(
    "release", RELEASES, ids=["fair", "quarter", "gaussian", "tree"]
)


class Scripted(Coins):
    """Hands out given draws of bits, and records how many bits were asked for."""

    def __init__(self, draws: Iterable[int]) -> None:
        self.draws = deque(draws)
        self.asked: list[int] = []

    def token(self, count: int) -> bytes:
        raise NotImplementedError

    def discrete_gaussian(self, scale: float, count: int) -> NDArray[np.int64]:
        raise NotImplementedError

    def bits(self, count: int) -> int:
        self.asked.append(count)
        return self.draws.popleft()


class Counting(SeededCoins):
    """Records the size of every draw."""

    def __init__(self) -> None:
        super().__init__(0)
        self.sizes: list[int] = []

    def token(self, count: int) -> bytes:
        self.sizes.append(count)
        return super().token(count)


# What the source may name.


def module(name: str) -> ast.Module:
    """A module of croupier without its class of seeded coins."""
    tree = ast.parse((Path(croupier.__file__).parent / name).read_text())
    tree.body = [part for part in tree.body if getattr(part, "name", "") != "SeededCoins"]
    return tree


def function(made: Callable[..., Any]) -> ast.AST:
    source = inspect.getsource(made)
    lines = source.splitlines()
    indent = len(lines[0]) - len(lines[0].lstrip())
    return ast.parse("\n".join(line[indent:] for line in lines))


def names(tree: ast.AST) -> set[str]:
    """Every word that the code uses or imports."""
    found: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Import | ast.ImportFrom):
            found.update(word for alias in node.names for word in alias.name.split("."))
            found.update((getattr(node, "module", None) or "").split("."))
    return found


SEEDED = {"random", "default_rng", "SeededCoins", "RandomState", "Generator", "rvs", "normal"}
VECTOR_DEVICE = [
    VectorSumRelease.randomize,
    VectorSumRelease._numerators,
    VectorSumRelease._noise,
    vector_release._rounded,
    vector_release._unary,
    ConcurrentTreeRelease.randomize,
]


@pytest.mark.parametrize("name", ["client.py", "shuffler.py", "analyzer.py", "coins.py"])
def test_roles_name_no_generator_but_the_systems(name: str) -> None:
    # Policies may draw a normal to choose an arm; that is no noise of a report.
    assert not names(module(name)) & (SEEDED - {"normal"})


@pytest.mark.parametrize("part", [*VECTOR_DEVICE, AmplifiedGaussianRelease.randomize])
def test_randomisers_name_no_generator_and_no_float_normal(part: Callable[..., Any]) -> None:
    assert not names(function(part)) & SEEDED


def test_the_scan_sees_what_it_looks_for() -> None:
    seeded = "import numpy.random as nr\nfrom random import choice\nx = np.random.default_rng()"
    assert names(ast.parse(seeded)) >= {"random", "choice", "default_rng"}
    assert "normal" in names(function(gaussian_finish))
    assert "default_rng" in names(function(SeededCoins.__init__))
    assert amplified_gaussian.CHANNELS == ("vector", "matrix")


@pytest.mark.parametrize("part", [vector_release._rounded, vector_release._unary])
def test_rounding_and_bits_contain_no_float(part: Callable[..., Any]) -> None:
    for node in ast.walk(function(part)):
        assert not isinstance(node, ast.Div)
        assert not isinstance(getattr(node, "value", None), float)
        assert getattr(node, "id", "") != "float"


def test_after_the_conversion_everything_is_a_whole_number(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[object] = []

    def rounded(numerator: int, coins: Coins) -> int:
        seen.extend([numerator, coins.bits(56)])
        return 0

    monkeypatch.setattr(vector_release, "_rounded", rounded)
    RELEASES[0].randomize(contribution(LAYOUT, [0.3, -0.7, 0.1], 0.9), SeededCoins(0))
    assert len(seen) == 2 * LAYOUT.size
    assert {type(value) for value in seen} == {int}


# The same work for all data.


def inputs() -> list[Floats]:
    """Extreme, empty and random contributions."""
    rng = np.random.default_rng(1)
    ends = [LAYOUT.low, LAYOUT.high, np.zeros(LAYOUT.size), LAYOUT.low + UNIT, LAYOUT.high + 1]
    users = rng.uniform(-0.5, 0.5, (20, LAYOUT.dim))
    return [*ends, *(contribution(LAYOUT, user, float(rng.random())) for user in users)]


@EVERY_RELEASE
def test_a_report_draws_the_same_bytes_in_the_same_order_whatever_the_data(
    release: ShuffleRelease,
) -> None:
    drawn = set()
    for row in inputs():
        coins = Counting()
        release.randomize(row, coins)
        drawn.add(tuple(coins.sizes))
    assert len(drawn) == 1
    assert sum(drawn.pop()) > 0


@EVERY_RELEASE
def test_a_report_looks_the_same_whatever_the_data(release: ShuffleRelease) -> None:
    looks = set()
    for row in inputs():
        sent = release.randomize(row, SystemCoins())
        looks.add(tuple((name, part.shape, part.dtype.str) for name, part in sent.items()))
    assert len(looks) == 1


@EVERY_RELEASE
def test_messages_are_whole_numbers(release: ShuffleRelease) -> None:
    wanted = np.int64 if isinstance(release, AmplifiedGaussianRelease) else np.uint8
    for row in inputs():
        sent = release.randomize(row, SystemCoins())
        assert {part.dtype for part in sent.values()} == {np.dtype(wanted)}


# The exact law of the rounding.


@pytest.mark.parametrize("whole", [0, 7])
@pytest.mark.parametrize("remainder", [0, 1, 2, WHOLE // 2, WHOLE - 2, WHOLE - 1])
def test_exactly_as_many_draws_as_the_remainder_round_up(whole: int, remainder: int) -> None:
    numerator = whole * WHOLE + remainder
    # Draws are uniform below 2^56, so their number below the remainder is the probability.
    edges = {0, remainder - 1, remainder, remainder + 1, WHOLE - 1}
    for draw in sorted(edge for edge in edges if 0 <= edge < WHOLE):
        coins = Scripted([draw])
        assert vector_release._rounded(numerator, coins) == whole + (draw <= remainder - 1)
        assert coins.asked == [56]


@given(numerator=st.integers(0, 2**70), draw=st.integers(0, WHOLE - 1))
def test_rounding_up_is_a_carry(numerator: int, draw: int) -> None:
    carried = (numerator + WHOLE - 1 - draw) // WHOLE
    assert vector_release._rounded(numerator, Scripted([draw])) == carried


@pytest.mark.parametrize(("draw", "ones"), [(0, 1), (2**16, 1), (2**16 + 1, 0), (WHOLE - 1, 0)])
def test_one_unit_above_the_end_rounds_up_with_its_exact_chance(draw: int, ones: int) -> None:
    grid = 1 + 2.0**-16
    made = VectorSumRelease(PapersLayout(1), 1, grid, 0, 0.5)
    row = made.layout.low + UNIT
    sent = made.randomize(row, Scripted([draw, 0, draw, 0]))
    assert [int(part.sum()) for part in sent.values()] == [ones, ones]


@pytest.mark.parametrize(
    "layout", [LAYOUT, LightOffset(3, constant=(1, -0.6)), PapersLayout(3)], ids=str
)
@pytest.mark.parametrize("grid", [2.0**-16, 0.75, 5.5, 9.0, 1000.25])
def test_the_ends_of_every_range_fit_their_bits(grid: float, layout: Layout) -> None:
    made = VectorSumRelease(layout, 1, grid, 2, 0.5)
    most = made.randomize(layout.high, Scripted([0, 3] * layout.size))
    least = made.randomize(layout.low, Scripted([WHOLE - 1, 0] * layout.size))
    assert all(part.all() for part in most.values())
    assert not any(part.any() for part in least.values())


# The exact law of the noise.


@pytest.mark.parametrize("noise_bits", [0, 1, 3, 6])
def test_fair_noise_is_binomial_over_all_patterns(noise_bits: int) -> None:
    made = VectorSumRelease(LAYOUT, 4, 5.5, noise_bits, 0.5)
    seen = Counter(made._noise(Scripted([draw])) for draw in range(2**noise_bits))
    assert seen == {ones: math.comb(noise_bits, ones) for ones in range(noise_bits + 1)}


@pytest.mark.parametrize("noise_bits", [0, 1, 3, 5])
def test_quarter_noise_is_binomial_over_all_pairs_of_patterns(noise_bits: int) -> None:
    made = VectorSumRelease(LAYOUT, 4, 5.5, noise_bits, 0.25)
    pairs = itertools.product(range(2**noise_bits), repeat=2)
    seen = Counter(made._noise(Scripted(pair)) for pair in pairs)
    wanted = {
        ones: math.comb(noise_bits, ones) * 3 ** (noise_bits - ones)
        for ones in range(noise_bits + 1)
    }
    assert seen == wanted


def test_rounding_and_noise_are_drawn_afresh_for_every_label() -> None:
    made = VectorSumRelease(LAYOUT, 4, 5.5, 13, 0.25)
    coins = Scripted([0] * (3 * LAYOUT.size))
    made.randomize(np.zeros(LAYOUT.size), coins)
    assert coins.asked == [56, 13, 13] * LAYOUT.size


def test_rounding_and_noise_are_drawn_afresh_for_every_level() -> None:
    made = ConcurrentTreeRelease(LAYOUT, 4, (4, 12), (5.5, 9.0), (13, 7))
    coins = Scripted([0] * (4 * LAYOUT.size))
    made.randomize(np.zeros(LAYOUT.size), coins)
    assert coins.asked == [56, 13] * LAYOUT.size + [56, 7] * LAYOUT.size


# Gaussian reports of a deployed device.


def test_a_deployed_report_has_the_stated_variance_around_the_data() -> None:
    made, runs = AmplifiedGaussianRelease(LAYOUT, 4, 0.7), 1500
    row = contribution(LAYOUT, [0.3, -0.7, 0.1], 0.9)
    reports = [made.randomize(row, SystemCoins()) for _ in range(runs)]
    sent = np.array([np.concatenate([part[0] for part in one.values()]) for one in reports])
    scaled = (sent * UNIT - row) / made.sigma
    # Fresh system randomness in every run: two-sided false-alarm rate 2e-9, then 13 * 2e-9.
    assert 1e-9 < chi2.sf(np.sum(scaled**2), scaled.size) < 1 - 1e-9
    assert np.abs(scaled.mean(axis=0)).max() * math.sqrt(runs) < 6


def test_deployed_reports_never_repeat() -> None:
    made, row = RELEASES[2], np.zeros(LAYOUT.size)
    first, second = (made.randomize(row, SystemCoins()) for _ in range(2))
    # Two of 2^39 and more likely values agree in one of 13 coordinates with chance below 1e-10.
    assert not np.any(first["vector"] == second["vector"])
    assert not np.any(first["matrix"] == second["matrix"])
