"""Several far moves, each test with the tails that are best for it (PROOF 9f)."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest

from croupier.errors import GuaranteeError
from croupier.privacy import far as module
from croupier.privacy import gdp
from croupier.privacy.far import FARTHEST, MOST_KINDS, TAILS, Far, Kind, Known, far
from croupier.privacy.shuffled_bits.count_release import FAR, CountRelease
from croupier.privacy.shuffled_bits.curve import BinomialCurve, SquaresCurve
from croupier.privacy.shuffled_bits.placements import PlacedCurve
from croupier.privacy.shuffled_bits.tree_calibration import TreeCurve

LONG = CountRelease(2000, 0.5, 700.0, 20)
WIDE = CountRelease(3000, 0.5, 800.0, 20)
MANY = CountRelease(20_000, 0.5, 1900.0, 20)
SHORT = CountRelease(2000, 0.5, 3.0, 20)


def known(kinds: list[tuple[Kind, int]], number: int | None = None) -> Far:
    found = far(kinds, number)
    assert found is not None
    return found


def of(*releases: CountRelease, times: int = 1, number: int | None = None) -> Far:
    return known([((release,), times) for release in releases], number)


def delta(found: Far, epsilon: float) -> float:
    assert found.losses is not None
    return found.losses.delta(epsilon)


def means(*releases: CountRelease, times: int = 1) -> float:
    """Near the median of the loss of so many of each."""
    return sum(2 * one.distance**2 / one.coins for one in releases) * times


# Composition.


def gaussian(mu: float, tails: float = 1e-32) -> Known:
    return Known(((tails, mu),))


@pytest.mark.parametrize("mus", [(5.0, 5.0), (40.0, 40.0, 40.0), (30.0, 0.7), (9000.0, 8000.0)])
def test_gaussians_compose_as_gaussians(
    mus: tuple[float, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    known_of = {replace(LONG, distance=700.0 + n): gaussian(mu) for n, mu in enumerate(mus)}
    monkeypatch.setattr(module, "_known", known_of.__getitem__)
    module._losses.cache_clear()
    made, whole = of(*known_of), math.hypot(*mus)
    for level in (-3.0, 0.0, 1.0, 3.0, 6.0):
        epsilon = whole * (whole / 2 + level)
        found = delta(made, epsilon)
        assert gdp.delta_of(whole, epsilon) <= found
        assert gdp.mu_of(epsilon, found) <= whole * (1 + 2e-3 / max(1, whole / 40))
    module._losses.cache_clear()


def test_every_test_has_the_tails_that_are_best_for_it() -> None:
    two = Known(((0.1, 20.0), (1e-6, 21.0)))
    epsilons = np.array([100.0, 200.0, 260.0, 330.0])
    each = [[t + (1 - t) * gdp.delta_of(mu, e) for e in epsilons] for t, mu in two.outside]
    assert two.deltas(epsilons) == pytest.approx(np.min(each, axis=0), rel=1e-10)
    assert np.all(two.deltas(epsilons) >= np.min(each, axis=0))
    assert {int(np.argmin(column)) for column in zip(*each, strict=True)} == {0, 1}
    assert two.least == 20.0
    assert 1e-6 < two.deltas(np.array([two.last]))[0] <= 2e-6


@pytest.mark.parametrize("release", [LONG, WIDE, replace(LONG, labels=1), MANY])
def test_what_is_known_of_a_release_is_its_mu_outside_tails_of_all_labels(
    release: CountRelease,
) -> None:
    outside = module._known(release).outside
    largest = sum(tails / release.labels >= 0.25 for tails in TAILS)
    for (tails, mu), share in zip(outside, TAILS[largest:], strict=False):
        tau = share / release.labels
        assert tails == pytest.approx(-math.expm1(release.labels * math.log1p(-tau)), rel=1e-14)
        assert mu == release.far_mu(tau) <= release.mu(tau)
    assert len(outside) >= 7


def test_a_release_that_is_not_far_keeps_its_own_mu() -> None:
    """Rounding shows in it, which far moves do not know of."""
    tau = TAILS[2] / SHORT.labels
    assert module._mu(SHORT, tau) == SHORT.mu(tau) < SHORT.plain(tau)


@pytest.mark.parametrize(
    "release",
    [
        CountRelease(2001, 0.5, 846.4, 230),
        CountRelease(2001, 0.5, 846.4, 1),
        CountRelease(2000, 0.5, 930.0, 2),
        CountRelease(5000, 0.5, 2300.0, 5150),
    ],
)
def test_near_the_ends_of_the_support_tails_go_down_to_the_least_that_has_a_window(
    release: CountRelease,
) -> None:
    *others, least = module._tails(release)
    assert math.isfinite(release.far_mu(least))
    assert math.isinf(release.far_mu(0.7 * least))
    assert others == [tau for tau in (one / release.labels for one in TAILS) if least < tau < 0.25]
    assert len(module._known(release).outside) == len(others) + 1


def test_far_from_them_tails_are_the_usual_ones() -> None:
    for release in (LONG, SHORT):
        assert module._tails(release) == [tails / release.labels for tails in TAILS]
    nowhere = CountRelease(2000, 0.5, 1200.0, 20)
    assert module._tails(nowhere) == [TAILS[0] / 20]
    nothing = CountRelease(0, 0.5, 3.0, 20)
    assert of(LONG, nothing).bound(1e4, 0.5) == 1.0


# Places.


@pytest.mark.parametrize("number", [2, 3])
def test_whichever_releases_it_is_is_no_worse(number: int) -> None:
    releases = (LONG, WIDE, MANY, SHORT)
    any_of_them = of(*releases, number=number)
    for chosen in itertools.combinations(releases, number):
        made = of(*chosen) if any(one.far for one in chosen) else None
        for level in (0.0, 1.0, 3.0):
            epsilon = means(*chosen) + level * math.sqrt(2 * means(*chosen))
            assert made is None or delta(made, epsilon) <= delta(any_of_them, epsilon) * (1 + 1e-3)


def test_any_of_a_kind_is_the_worst_of_it() -> None:
    either = known([((WIDE, LONG, SHORT), 2)])
    for one, other in itertools.combinations_with_replacement((LONG, WIDE), 2):
        for level in (0.0, 2.0, 4.0):
            epsilon = means(one, other) + level * math.sqrt(2 * means(one, other))
            assert delta(of(one, other), epsilon) <= delta(either, epsilon) * (1 + 1e-3)
    epsilon = means(LONG, times=2) + 100
    assert delta(either, epsilon) == pytest.approx(delta(of(LONG, times=2), epsilon), rel=1e-2)


def test_a_place_is_taken_by_the_one_that_moves_furthest() -> None:
    """By its mu, not by its distance over its coins: that of the second one is larger."""
    first, second = CountRelease(2001, 0.5, 680.0, 5), CountRelease(20_000, 0.5, 2180.0, 5)
    assert first.distance**2 / first.coins < second.distance**2 / second.coins
    made = of(first, replace(second, distance=2170.0), second, number=2)
    both, twice = of(first, second), of(first, times=2)
    epsilon = means(first, second) + 200
    assert delta(both, epsilon) <= delta(made, epsilon) * (1 + 1e-3)
    assert delta(made, epsilon) < 0.9 * delta(twice, epsilon)


# When it is asked.


def test_it_is_asked_of_several_releases_with_a_far_move() -> None:
    once = [((LONG,), 1)]
    assert far(once) is None
    assert far([((LONG,), 2)]) is not None
    assert far([((LONG,), 2)], 1) is None
    assert far([((LONG,), 1)], 2) is not None
    assert far([*once, ((SHORT,), 1)]) is not None
    assert far([((SHORT,), 5)]) is None
    assert far([((replace(LONG, followed=False),), 2)]) is None
    assert far([((LONG,), 1), ((replace(LONG, reports=2),), 1)]) is None
    assert far([]) is None
    many: list[tuple[Kind, int]] = [
        ((replace(LONG, distance=600.0 + n),), 1) for n in range(MOST_KINDS + 1)
    ]
    assert far(many[1:]) is not None
    assert far(many) is None


def test_moves_are_far_from_the_mu_on_from_which_they_are() -> None:
    near, further = (
        CountRelease(2000, 0.5, FAR / (2 * 1.01) * math.sqrt(2000) * part, 20)
        for part in (0.99, 1.01)
    )
    assert near.shown < FAR < further.shown
    assert not near.far
    assert further.far
    assert not replace(further, coins=499, distance=200.0).far


def test_what_is_seen_at_once_to_be_above_delta_is_not_tabled(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made = of(LONG, WIDE)
    for level in (-2.0, 0.0, 2.0, 5.0):
        epsilon = means(LONG, WIDE) + level * math.sqrt(2 * means(LONG, WIDE))
        least = gdp.delta_of(made._least, epsilon)
        assert least <= delta(made, epsilon)
        assert made.bound(epsilon, least) == made.bound(epsilon, 1.0) == delta(made, epsilon)
    epsilon = means(LONG, WIDE)
    monkeypatch.setattr(Far, "losses", property(lambda _: 1 / 0))
    below = math.nextafter(gdp.delta_of(made._least, epsilon), 0)
    assert made.bound(epsilon, below) == 1.0


def test_where_nothing_is_known_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    beyond = CountRelease(2000, 0.5, 1200.0, 20)
    assert of(beyond, LONG).losses is None
    assert of(beyond, LONG).bound(1e5, 0.5) == 1.0
    assert not of(beyond, LONG).reaches(0.999)

    def refuse(*_: object) -> float:
        raise GuaranteeError("too much work")

    module._mu.cache_clear()
    monkeypatch.setattr(CountRelease, "far_mu", refuse)
    other = of(replace(LONG, distance=701.0), times=2)
    assert other.bound(1e4, 0.5) == 1.0
    assert other.losses is None
    module._mu.cache_clear()


def test_a_mu_beyond_all_digits_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    release = replace(LONG, distance=702.0)
    monkeypatch.setattr(module, "_mu", lambda _, tau: FARTHEST if tau < 1e-9 else 30.0)
    assert {mu for _, mu in module._known.__wrapped__(release).outside} == {30.0}
    further = replace(LONG, distance=703.0)
    monkeypatch.setattr(module, "_mu", lambda *_: FARTHEST)
    assert of(further, times=2).bound(1e9, 0.99) == 1.0


def test_deltas_below_all_tails_are_not_reached() -> None:
    made = of(LONG, times=3)
    assert made.reaches(1e-20)
    assert not made.reaches(1e-40)
    assert 0 < delta(made, 1e9) < 1e-20


# What curves make of it.


def test_a_curve_takes_what_is_smaller() -> None:
    curve = BinomialCurve(((LONG, 3),))
    epsilon = curve.epsilon(1e-6)
    assert curve.bound(epsilon, 1e-6) == delta(of(LONG, times=3), epsilon) <= 1e-6
    assert curve.holds(epsilon, 1e-6)
    assert not curve.holds(math.nextafter(epsilon, 0), 1e-6)
    usual = curve._bound(curve._paces(1e-6), epsilon, 1e-6)
    assert usual > 100e-6
    assert curve.delta(epsilon) == delta(of(LONG, times=3), epsilon)
    # Deep down only the usual tails are left.
    deep = BinomialCurve(((replace(LONG, distance=300.0), 3),))
    assert deep._bound(deep._paces(1e-40), deep.epsilon(1e-40), 1e-40) <= 1e-40


def test_it_is_finite_where_one_pace_of_all_releases_has_no_window() -> None:
    curve = BinomialCurve(((CountRelease(2001, 0.5, 850.0, 230), 5),))
    assert math.isinf(curve.mu_at(1e-9))
    assert 4000 < curve.epsilon(1e-9) < 6500
    assert curve.delta(curve.epsilon(1e-9)) <= 1e-9
    nothing = BinomialCurve(((CountRelease(2001, 0.5, 990.0, 230), 5),))
    assert math.isinf(nothing.epsilon(1e-11))
    assert nothing.delta(1e6) == 1.0


def test_squares_are_not_composed_by_curves() -> None:
    """Whatever else comes, only squares add up."""
    assert SquaresCurve(((LONG, 3),))._far is None
    assert SquaresCurve(((LONG, 3),)).epsilon(1e-6) > BinomialCurve(((LONG, 3),)).epsilon(1e-6)


def test_batches_and_nodes_are_places() -> None:
    batches = PlacedCurve(((LONG, 1), (WIDE, 1)), 3)
    assert batches.kinds == [((LONG,), 1), ((WIDE,), 3)]
    tree = TreeCurve(((LONG, 2), (WIDE, 3), (MANY, 1)), (0, 0, 1))
    assert tree.kinds == [((LONG, WIDE), 3), ((MANY,), 1)]
    worst = BinomialCurve(((LONG, 3), (MANY, 1)))
    for curve, taken in ((batches, BinomialCurve(((LONG, 1), (WIDE, 2)))), (tree, worst)):
        epsilon = taken.epsilon(1e-6)
        needed = gdp.mu_of(epsilon, curve.delta(epsilon))
        assert 1 - 1e-9 <= needed / gdp.mu_of(epsilon, 1e-6) <= 1.003
    twice = replace(tree, releases=((replace(LONG, reports=2), 4), (WIDE, 3), (MANY, 1)))
    assert twice._far is None
