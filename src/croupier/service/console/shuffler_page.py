"""The shuffler's page: how full the open batch is, what was released, what was refused."""

from __future__ import annotations

from croupier.service.console import words
from croupier.service.console.common_page import key_section, refused_table
from croupier.service.console.common_view import Snapshot
from croupier.service.console.page_parts import Page, PageFact, PageGauge, PageSection, PageTable

SHORT = {
    "wait": "waits for more reports",
    "pad": "is padded with zero-input reports",
    "drop": "is dropped and begun again",
}


def shuffler_page(seen: Snapshot) -> Page:
    """The page of a snapshot; of a plan that has ended, nothing is open and nothing waits."""
    counted = (_released(seen), _reports(seen))
    first, rules = ((_end(seen),), ()) if seen["ended"] else ((_open(seen),), (_rules(seen),))
    sections = (*first, *counted, *rules, key_section(seen))
    return Page("Shuffler", seen["plan"], _news(seen), seen["draining"], sections)


def _news(seen: Snapshot) -> str:
    if seen["draining"]:
        return "The service is shutting down."
    if seen["ended"]:
        return "The plan has ended; no more reports are taken."
    if seen["rolled_back"]:
        return f"Rolled back, nothing is taken or released: {seen['rolled_back']}."
    if not seen["begun"]:
        return "The plan has not begun: the analyzer's first model has not been fetched."
    if seen["state"] == "open":
        return f"Batch {seen['batch']} is open and {words.fill(seen['filled'], seen['size'])}."
    return f"Batch {seen['batch']} is {seen['state']}; the next is not open yet."


def _open(seen: Snapshot) -> PageSection:
    version = seen.get("model_version")
    waits = seen.get("state") == "open" and seen["filled"] > 0
    waiting = words.duration(seen["oldest_seconds"]) if waits else words.NOTHING
    return PageSection(
        "Newest batch",
        (
            PageGauge("filled", "Reports", seen.get("filled", 0), seen.get("size", 0)),
            PageFact("batch", "Batch", str(seen.get("batch", words.NOTHING))),
            PageFact("state", "State", seen.get("state", "not begun")),
            PageFact("oldest", "Has had reports for", waiting),
            PageFact(
                "model", "Made with model", words.NOTHING if version is None else str(version)
            ),
            PageFact("padded", "Zero-input reports in it", f"{seen.get('padded', 0):,}"),
            PageFact("dropped", "Reports dropped before", f"{seen.get('dropped', 0):,}"),
            PageFact("why", "What it waits for", seen.get("why", "The analyzer's first model.")),
        ),
    )


def _end(seen: Snapshot) -> PageSection:
    return PageSection("End of the plan", (PageFact("why", "How it ended", seen["why"]),))


def _released(seen: Snapshot) -> PageSection:
    rows = tuple(
        (str(one["batch"]), one["state"], f"{one['filled']:,} of {one['size']:,}")
        for one in seen["newest_batches"]
    )
    return PageSection(
        "Batches",
        (
            PageGauge("released", "Released", seen["released"], seen["batches_total"]),
            PageFact("trouble", "Trouble in delivery", seen["trouble"] or "none"),
            PageTable(
                "batches", "Newest batches", ("Batch", "State", "Reports"), rows, "None yet."
            ),
        ),
    )


def _reports(seen: Snapshot) -> PageSection:
    accepted = PageFact("accepted", "Accepted", f"{seen['accepted']:,}")
    return PageSection("Reports since the start", (accepted, refused_table(seen)))


def _rules(seen: Snapshot) -> PageSection:
    limit = words.counted(seen["participation_limit"], "report")
    return PageSection(
        "Rules of the plan",
        (
            PageFact("limit", "A user may send", f"{limit} in all, one in a batch"),
            PageFact("transport", "Reports travel as", seen["transport"]),
            PageFact("short", "A batch that stays short", SHORT[seen["short_policy"]]),
        ),
    )
