"""What a page is made of, as values: markup and events are both made from them.

Which parts a page has changes only when its plan ends: then it is loaded anew. Otherwise only what
they show does.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Shown = dict[str, dict[str, Any]]
"""What every part shows, by kind of place and then by key."""

Rows = tuple[tuple[str, ...], ...]


@dataclass(frozen=True)
class PageFact:
    """A name and what it is now."""

    key: str
    label: str
    text: str

    @property
    def shown(self) -> Shown:
        """Its text."""
        return {"texts": {self.key: self.text}}


@dataclass(frozen=True)
class PageGauge:
    """How much of something there is, of how much."""

    key: str
    label: str
    value: int
    most: int

    @property
    def text(self) -> str:
        """In words; complete only when nothing is missing."""
        percent = 100 * self.value // self.most if self.most else 0
        return f"{self.value:,} of {self.most:,} ({percent} %)"

    @property
    def shown(self) -> Shown:
        """The two numbers, and the words for them."""
        return {"texts": {self.key: self.text}, "gauges": {self.key: [self.value, self.most]}}


@dataclass(frozen=True)
class PageTable:
    """Rows under a caption; ``empty`` is said where there are none."""

    key: str
    caption: str
    columns: tuple[str, ...]
    rows: Rows
    empty: str

    @property
    def shown(self) -> Shown:
        """Every cell."""
        return {"tables": {self.key: [list(row) for row in self.rows]}}


@dataclass(frozen=True)
class TrendLine:
    """Numbers from 0 to 1 in their order; ``text`` says what the line shows."""

    key: str
    label: str
    values: tuple[float, ...]
    text: str

    WIDTH, HEIGHT = 300, 60

    @property
    def points(self) -> str:
        """A line through all of them, as SVG has it; a single number is a level line."""
        values = self.values if len(self.values) != 1 else self.values * 2
        step = self.WIDTH / max(len(values) - 1, 1)
        return " ".join(
            f"{place * step:.1f},{self.HEIGHT * (1 - min(max(value, 0.0), 1.0)):.1f}"
            for place, value in enumerate(values)
        )

    @property
    def shown(self) -> Shown:
        """The line and the words for it."""
        return {"texts": {self.key: self.text}, "trends": {self.key: self.points}}


PagePart = PageFact | PageGauge | PageTable | TrendLine


@dataclass(frozen=True)
class PageSection:
    """Parts under a heading."""

    title: str
    parts: tuple[PagePart, ...]


@dataclass(frozen=True)
class Page:
    """All of it. ``news`` is a sentence that changes only when something has happened."""

    title: str
    plan: str
    news: str
    draining: bool = False
    sections: tuple[PageSection, ...] = field(default=())

    @property
    def shown(self) -> Shown:
        """What every place of the page shows."""
        made: Shown = {"texts": {"news": self.news}, "gauges": {}, "tables": {}, "trends": {}}
        for section in self.sections:
            for part in section.parts:
                for kind, places in part.shown.items():
                    made[kind] |= places
        return made
