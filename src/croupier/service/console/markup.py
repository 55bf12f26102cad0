"""A page as HTML, complete without scripts; whatever comes from outside is escaped."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from html import escape
from importlib.resources import files
from itertools import groupby
from string import Template

from croupier.service.console.page_parts import (
    Page,
    PageFact,
    PageGauge,
    PagePart,
    PageSection,
    PageTable,
    TrendLine,
)


def render_page(page: Page) -> str:
    """The whole document."""
    return _template().substitute(
        title=escape(page.title),
        plan=escape(page.plan),
        news=escape(page.news),
        sections="\n".join(_section(number, one) for number, one in enumerate(page.sections)),
    )


@cache
def _template() -> Template:
    return Template(read_static("page.html").decode())


def read_static(name: str) -> bytes:
    """A file that comes with the package."""
    return files("croupier.service.console").joinpath("static", name).read_bytes()


def _section(number: int, section: PageSection) -> str:
    runs = groupby(section.parts, key=lambda part: isinstance(part, PageFact))
    inside = "\n".join(_facts(run) if of_facts else _parts(run) for of_facts, run in runs)
    title = escape(section.title)
    return (
        f'<section aria-labelledby="section-{number}">'
        f'<h2 id="section-{number}">{title}</h2>\n{inside}\n</section>'
    )


def _facts(parts: Iterable[PagePart]) -> str:
    return f"<dl>\n{_parts(parts)}\n</dl>"


def _parts(parts: Iterable[PagePart]) -> str:
    return "\n".join(_part(part) for part in parts)


def _part(part: PagePart) -> str:
    match part:
        case PageFact():
            return _fact(part)
        case PageGauge():
            return _gauge(part)
        case PageTable():
            return _table(part)
        case TrendLine():
            return _trend(part)


def _fact(fact: PageFact) -> str:
    return (
        f"<div><dt>{escape(fact.label)}</dt>"
        f'<dd data-text="{escape(fact.key)}">{escape(fact.text)}</dd></div>'
    )


def _gauge(gauge: PageGauge) -> str:
    key, text = escape(gauge.key), escape(gauge.text)
    return (
        f'<p class="gauge"><label for="gauge-{key}">{escape(gauge.label)}</label> '
        f'<span data-text="{key}">{text}</span>\n'
        f'<progress id="gauge-{key}" data-gauge="{key}" value="{gauge.value}" '
        f'max="{max(gauge.most, 1)}">{text}</progress></p>'
    )


def _table(table: PageTable) -> str:
    key, hidden = escape(table.key), "" if table.rows else " hidden"
    heads = "".join(f'<th scope="col">{escape(name)}</th>' for name in table.columns)
    empty = " hidden" if table.rows else ""
    return (
        f'<table data-table="{key}"{hidden}><caption>{escape(table.caption)}</caption>\n'
        f"<thead><tr>{heads}</tr></thead>\n<tbody>{_rows(table)}</tbody></table>\n"
        f'<p class="empty" data-empty="{key}"{empty}>{escape(table.empty)}</p>'
    )


def _rows(table: PageTable) -> str:
    return "".join(
        f'<tr><th scope="row">{escape(first)}</th>'
        + "".join(f"<td>{escape(cell)}</td>" for cell in cells)
        + "</tr>"
        for first, *cells in table.rows
    )


def _trend(trend: TrendLine) -> str:
    key = escape(trend.key)
    return (
        f'<figure><svg viewBox="0 -2 {trend.WIDTH} {trend.HEIGHT + 4}" aria-hidden="true" '
        f'preserveAspectRatio="none"><polyline data-trend="{key}" points="{trend.points}"/></svg>\n'
        f"<figcaption>{escape(trend.label)}, from 0 at the bottom to 1 at the top. "
        f'<span data-text="{key}">{escape(trend.text)}</span></figcaption></figure>'
    )
