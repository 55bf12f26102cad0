"""Promises that hold or do not: each check yields its complaints."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise

import numpy as np

from croupier.coins import SystemCoins
from croupier.errors import GuaranteeError
from croupier.privacy.budget import Budget
from croupier.privacy.guarantee import Guarantee, unproved
from croupier.protocols.base import Protocol, Terms
from croupier.protocols.collecting import Devices
from croupier.protocols.releases import AdditiveRelease
from croupier.shuffler import Messages, gather, shuffle
from croupier.testing.report import Complaints
from croupier.testing.subject import SAME, Subject

DELTAS = (1e-9, 1e-6, 1e-3, 0.1)
EPSILONS = (0.0, 0.1, 1.0, 10.0)
BUDGETS = tuple(Budget(epsilon, delta) for epsilon in (0.1, 0.5, 1, 4) for delta in (1e-6, 1e-3))


def _name_is_stable(subject: Subject) -> Complaints:
    name = subject.protocol.name
    if not isinstance(name, str) or not name or name != name.strip():
        yield f"name must be a nonempty string, got {name!r}"
    if name != type(subject.protocol).name:
        yield f"the class is called {type(subject.protocol).name!r}, the instance {name!r}"


def _is_frozen(subject: Subject) -> Complaints:
    for value in (subject.protocol, subject.release):
        made = getattr(type(value), "__dataclass_params__", None)
        if made is None or not made.frozen:
            yield f"{type(value).__name__} is not a frozen dataclass"


def _restores(subject: Subject) -> Complaints:
    protocol = subject.protocol
    made = [(release.users, release.parameters) for release in protocol.releases]
    stored = json.loads(json.dumps(made, allow_nan=False))
    again = type(protocol).restore(protocol.layout, protocol.schedule, stored)
    if again != protocol:
        yield f"{again.releases} was restored from {protocol.releases}"


def _states_its_noise(subject: Subject) -> Complaints:
    release = subject.release
    if not 0 <= release.privacy_noise_std <= release.noise_std < math.inf:
        yield f"privacy_noise_std {release.privacy_noise_std}, noise_std {release.noise_std}"
    if not isinstance(release.report_bits, int) or release.report_bits <= 0:
        yield f"report_bits must be a whole number above 0, got {release.report_bits!r}"


def _sends_fixed_size(subject: Subject) -> Complaints:
    coins, layout = subject.coins(6), subject.layout
    rows = [layout.low, layout.high, np.zeros(layout.size), *np.concatenate(subject.datasets)]
    shapes = [_shapes(subject.release.randomize(row, coins)) for row in rows]
    for shape in shapes[1:]:
        if shape != shapes[0]:
            yield f"a report of {shapes[0]} and one of {shape}"


def _sends_rows(subject: Subject) -> Complaints:
    for channel, rows in subject.release.randomize(subject.datasets[0][0], SystemCoins()).items():
        if not isinstance(channel, str) or np.ndim(rows) != 2:
            yield f"channel {channel!r} must hold rows (count, width), got shape {np.shape(rows)}"


def _runs_on_system_coins(subject: Subject) -> Complaints:
    sums = Devices(subject.protocol, SystemCoins()).add(0, subject.datasets[0])
    if sums.shape != (_released(subject),) or not np.all(np.isfinite(sums)):
        yield f"analyze must give {_released(subject)} finite numbers, got {sums}"


def _draws_from_coins(subject: Subject) -> Complaints:
    first, second = subject.reports(), subject.reports()
    for channel in first:
        if not np.array_equal(first[channel], second[channel]):
            yield f"channel {channel!r} differs between two runs with the same coins"


def _ignores_order(subject: Subject) -> Complaints:
    messages = subject.reports()
    arrived = subject.release.analyze(messages)
    coins = subject.coins(7)
    others = [{channel: rows[::-1] for channel, rows in messages.items()}]
    others += [dict(shuffle(messages, coins)) for _ in range(8)]
    for other in others:
        moved = float(np.max(np.abs(subject.release.analyze(other) - arrived)))
        if not moved <= subject.tolerance:
            yield f"another order of the same messages moves the sum by {moved:.3g}"


def _counts_add_up(subject: Subject) -> Complaints:
    """Only of releases whose reports may travel in shares, or as counts of their bits."""
    release = subject.release
    if not isinstance(release, AdditiveRelease):
        return
    coins = subject.coins(9)
    reports = [release.randomize(row, coins) for row in subject.datasets[0]]
    each, together = [release.tally(one) for one in reports], release.tally(gather(reports))
    if together.shape != (len(release.counted),) or together.dtype.kind not in "iu":
        yield f"tally must give {len(release.counted)} whole numbers, got {together!r}"
    elif not np.array_equal(np.sum(each, axis=0), together):
        yield f"the reports' tallies add up to {np.sum(each, axis=0)}, that of all is {together}"
    elif _are_bits(reports[0]) and (ones := _ones(release, reports[0])) != each[0].tolist():
        yield f"tally of a report of bits must be its ones {ones}, got {each[0]}"
    if unknown := set(release.counted) - set(reports[0]):
        yield f"counted names {sorted(unknown)}, which are no channels of a report"


def _are_bits(messages: Messages) -> bool:
    return all(rows.dtype == np.uint8 and rows.shape[1:] == (1,) for rows in messages.values())


def _ones(release: AdditiveRelease, messages: Messages) -> list[int]:
    return [int(np.count_nonzero(messages.get(name, ()))) for name in release.counted]


def _settles_what_it_counts(subject: Subject) -> Complaints:
    release = subject.release
    if not isinstance(release, AdditiveRelease):
        return
    messages = subject.reports()
    tally, analyzed = release.tally(messages), release.analyze(messages)
    for users in (release.users, np.full(tally.shape, release.users)):
        moved = float(np.max(np.abs(release.settle(tally, users) - analyzed)))
        if not moved <= subject.tolerance:
            yield f"settle of the tally, of users {users!r}, is {moved:.3g} away from analyze"


def _keeps_leading_axes(subject: Subject) -> Complaints:
    batch = subject.datasets[0]
    for axes in ((), (3,), (2, 3)):
        data = np.broadcast_to(batch, (*axes, *batch.shape))
        sums = subject.protocol.collector(subject.rng(8)).add(0, data)
        if np.shape(sums) != (*axes, _released(subject)):
            yield f"sample_sum of {data.shape} has shape {np.shape(sums)}"


def _released(subject: Subject) -> int:
    """Numbers that are released with the first batch."""
    return len(subject.protocol.covers(0)) * subject.layout.size


def _states_guarantees(subject: Subject) -> Complaints:
    for name, value in _guarantees(subject.protocol).items():
        if not isinstance(value, Guarantee):
            yield f"{name} must be a Guarantee, got {value!r}"
        elif not value.method or not (value.proved or value.reason):
            yield f"{name} must name a method, and a reason where nothing is proved"


def _curves_fall(subject: Subject) -> Complaints:
    for name, value in _guarantees(subject.protocol).items():
        for low, high in pairwise(DELTAS):
            if value.epsilon(low) < value.epsilon(high):
                yield f"epsilon of {name} rises from delta {low} to {high}"
        for low, high in pairwise(EPSILONS):
            if value.delta(low) < value.delta(high):
                yield f"delta of {name} rises from epsilon {low} to {high}"


def _ends_on_the_safe_side(subject: Subject) -> Complaints:
    for name, value in _guarantees(subject.protocol).items():
        for delta in DELTAS:
            epsilon = value.epsilon(delta)
            if math.isfinite(epsilon) and value.delta(epsilon) > delta:
                yield f"{name} has delta above {delta} at its own epsilon({delta})"


def _more_reports_cost_more(subject: Subject) -> Complaints:
    once, twice = _guarantee(subject.protocol, 1), _guarantee(subject.protocol, 2)
    for delta in DELTAS:
        if twice.epsilon(delta) < once.epsilon(delta) * (1 - SAME):
            yield f"guarantee(2) is better than guarantee(1) at delta {delta}"


def _more_budget_less_noise(subject: Subject) -> Complaints:
    for calibration in _proved_calibrations(subject.protocol):
        made = list(_calibrated(subject.protocol, calibration))
        for less, tight in made:
            for more, loose in made:
                wider = more.epsilon >= less.epsilon and more.delta >= less.delta
                if wider and _noise(loose) > _noise(tight) * (1 + SAME):
                    yield f"{calibration} noise for {more} is above that for {less}"


def _meets_the_budget(subject: Subject) -> Complaints:
    for calibration in _proved_calibrations(subject.protocol):
        for budget, protocol in _calibrated(subject.protocol, calibration):
            promise = _guarantee(protocol, 1)
            if promise.proved and not promise.meets(budget):
                yield f"{calibration} for {budget} has delta {promise.delta(budget.epsilon):.3g}"


PROMISES: Mapping[str, Callable[[Subject], Complaints]] = {
    "the name is a stable string": _name_is_stable,
    "protocol and release are frozen values": _is_frozen,
    "releases are restored from their parameters through JSON bit for bit": _restores,
    "noise and report size are stated": _states_its_noise,
    "a report is rows in named channels": _sends_rows,
    "a report has the same size whatever the data": _sends_fixed_size,
    "the operating system's coins are enough": _runs_on_system_coins,
    "all of a device's randomness comes from its coins": _draws_from_coins,
    "the analyzer is blind to the order of messages": _ignores_order,
    "counts of reports add up": _counts_add_up,
    "the sum settled from counts is the one analyzed": _settles_what_it_counts,
    "sample_sum keeps leading axes": _keeps_leading_axes,
    "guarantees name their method, or the reason for none": _states_guarantees,
    "more delta never means more epsilon, nor the reverse": _curves_fall,
    "a guarantee ends on the safe side": _ends_on_the_safe_side,
    "two participations are never better than one": _more_reports_cost_more,
    "more budget never means more noise": _more_budget_less_noise,
    "a calibration's guarantee meets its budget": _meets_the_budget,
}


def _shapes(messages: Messages) -> dict[str, tuple[tuple[int, ...], str]]:
    return {name: (np.shape(rows), rows.dtype.str) for name, rows in sorted(messages.items())}


def _guarantee(protocol: Protocol, participations: int) -> Guarantee:
    """The guarantee, none where the participations are outside its range."""
    try:
        return protocol.guarantee(participations)
    except GuaranteeError as error:
        return unproved(str(error))


def _guarantees(protocol: Protocol) -> dict[str, Guarantee]:
    return {
        "guarantee(1)": _guarantee(protocol, 1),
        "guarantee(2)": _guarantee(protocol, 2),
        "local_guarantee()": protocol.local_guarantee(),
    }


def _proved_calibrations(protocol: Protocol) -> list[str]:
    return [name for name in type(protocol).calibrations if name != "released"]


def _calibrated(protocol: Protocol, calibration: str) -> Iterator[tuple[Budget, Protocol]]:
    """The protocol at every budget that the calibration does not refuse."""
    for budget in BUDGETS:
        try:
            terms = Terms(calibration)
            made = type(protocol).calibrate(budget, protocol.layout, protocol.schedule, terms)
        except GuaranteeError:
            continue
        yield budget, made


def _noise(protocol: Protocol) -> float:
    return max(release.noise_std for release in protocol.releases)
