"""Sections that both pages have."""

from __future__ import annotations

from croupier.service.console import words
from croupier.service.console.common_view import Snapshot
from croupier.service.console.page_parts import PageSection, PageTable
from croupier.service.http.metrics import INTERNAL
from croupier.service.http.reasons import Reason

TITLES = {reason.code: reason.title for reason in Reason} | {INTERNAL: "An error of the service"}
USES = {"seal": "to seal for", "sign": "to sign with"}


def refused_table(seen: Snapshot) -> PageTable:
    """What was refused and why."""
    rows = words.tally(seen["refused"], TITLES)
    return PageTable(
        "refused", "Refused, by reason", ("Reason", "Count"), rows, "Nothing was refused."
    )


def key_section(seen: Snapshot) -> PageSection:
    """States of this role's keys."""
    rows = tuple((USES[key["use"]], key["state"], _ends(key)) for key in seen["keys"])
    columns = ("Key", "State", "Ends")
    return PageSection(
        "Keys", (PageTable("keys", "Keys of this role", columns, rows, "There are none."),)
    )


def _ends(key: Snapshot) -> str:
    left = key["expires_seconds"]
    return "not set" if left is None else f"in {words.duration(left)}"
