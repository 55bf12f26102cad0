"""Prometheus metrics: counts of refusals by reason, and gauges of public facts."""

from __future__ import annotations

from collections.abc import Mapping

from prometheus_client import CollectorRegistry, Counter, Gauge, generate_latest
from prometheus_client.exposition import CONTENT_TYPE_LATEST

from croupier.service.http.reasons import Reason

ACCEPTED, INTERNAL = "accepted", "internal"
MEDIA_TYPE = CONTENT_TYPE_LATEST


class Tally:
    """A counter by outcome; every outcome is there from the start, at zero."""

    def __init__(self, registry: CollectorRegistry, name: str, text: str) -> None:
        self._counter = Counter(name, text, ["reason"], registry=registry)
        codes = [ACCEPTED, INTERNAL, *(reason.code for reason in Reason if reason.status)]
        self._children = {code: self._counter.labels(code) for code in codes}

    def add(self, reason: Reason | str | None, count: int = 1) -> None:
        """Count an outcome; None is acceptance."""
        code = reason.code if isinstance(reason, Reason) else reason or ACCEPTED
        self._children[code].inc(count)

    @property
    def counts(self) -> dict[str, int]:
        """How often each outcome has happened, of those that have."""
        (found,) = self._counter.collect()
        totals = [one for one in found.samples if one.name.endswith("_total") and one.value]
        return {one.labels["reason"]: int(one.value) for one in totals}


class Gauges:
    """Numbers that are set when they are asked for."""

    def __init__(self, registry: CollectorRegistry, texts: Mapping[str, str]) -> None:
        self._gauges = {
            name: Gauge(f"croupier_{name}", text, registry=registry) for name, text in texts.items()
        }

    def set(self, **values: float) -> None:
        """Set some of them."""
        for name, value in values.items():
            self._gauges[name].set(value)


class Metrics:
    """What a role shows."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._registry = CollectorRegistry()
        self.gauges = Gauges(self._registry, texts)

    def tally(self, name: str, text: str) -> Tally:
        """A counter by outcome among them."""
        return Tally(self._registry, name, text)

    def text(self) -> bytes:
        """The exposition."""
        return generate_latest(self._registry)
