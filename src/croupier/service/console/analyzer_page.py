"""The analyzer's page: the newest model, what it was learnt from, and what privacy it cost."""

from __future__ import annotations

from croupier.service.console import words
from croupier.service.console.common_page import key_section, refused_table
from croupier.service.console.common_view import Snapshot
from croupier.service.console.page_parts import (
    Page,
    PageFact,
    PageGauge,
    PageSection,
    PageTable,
    TrendLine,
)


def analyzer_page(seen: Snapshot) -> Page:
    """The page of a snapshot; rewards are on it only where somebody tells them."""
    rewards = () if seen["rewards"] is None else (_rewards(seen),)
    sections = (_model(seen), _privacy(seen), *rewards, _published(seen), _taken(seen))
    page = (*sections, key_section(seen))
    return Page("Analyzer", seen["plan"], _news(seen), seen["draining"], page)


def _news(seen: Snapshot) -> str:
    if seen["draining"]:
        return "The service is shutting down."
    if seen["rolled_back"]:
        return f"Rolled back, nothing is learnt: {seen['rolled_back']}."
    left = seen["batches_total"] - seen["learnt"]
    told = f"Model {seen['model_version']} is published"
    if left == 0:  # before what is quarantined: no model follows any more
        return f"{told}; the plan has ended."
    if seen["quarantined"] is not None:
        waits = "it is not learnt from before you have decided"
        return f"Batch {seen['quarantined']} is quarantined: {waits}."
    return f"{told}; the plan has {words.batches(left)} left."


def _model(seen: Snapshot) -> PageSection:
    return PageSection(
        "Model",
        (
            PageGauge("learnt", "Batches learnt from", seen["learnt"], seen["batches_total"]),
            PageFact("version", "Version", str(seen["model_version"])),
            PageFact("hash", "Hash", words.short(seen["model_hash"])),
            PageFact("age", "Age", _age(seen)),
            PageFact("reports", "Reports counted", f"{seen['reports']:,}"),
            PageFact("repairs", "Eigenvalues raised", f"{seen['repairs']:,}"),
            PageFact("clipped", "Counts clipped", f"{seen['clipped']:,}"),
        ),
    )


def _age(seen: Snapshot) -> str:
    """No times are stored: of a model that was there at the start, only a least age is known."""
    told = words.duration(seen["model_seconds"])
    return told if seen["model_seen_new"] else f"{told}, at least"


def _privacy(seen: Snapshot) -> PageSection:
    limit = words.batches(seen["participation_limit"])
    left = seen["batches_total"] - seen["entries"]
    still = (PageFact("left", "Batches left", f"{left:,}"),) if left else ()
    return PageSection(
        "Privacy",
        (
            PageGauge("entries", "Batches charged", seen["entries"], seen["batches_total"]),
            *still,
            PageFact("epsilon", "Certified epsilon", words.number(seen["epsilon"])),
            PageFact("delta", "At delta", words.number(seen["delta"])),
            PageFact("limit", "For a user in at most", limit),
            PageFact("once", "In one batch alone", words.number(seen.get("epsilon_batch"))),
            PageFact("asked", "Epsilon asked for", words.number(seen.get("epsilon_asked"))),
            PageFact("method", "Proved by", seen["method"]),
            PageFact("head", "The ledger ends in", words.short(seen["ledger_head"])),
        ),
    )


def _rewards(seen: Snapshot) -> PageSection:
    means = tuple(one["mean"] for one in seen["rewards"])
    trend = TrendLine("rewards", "Mean reward by batch", means, _course(seen["rewards"]))
    return PageSection("Rewards", (trend,))


def _course(rewards: list[Snapshot]) -> str:
    if not rewards:
        return "Nobody has told a reward yet."
    first, last = rewards[0], rewards[-1]
    return (
        f"From {first['mean']:.3f} in batch {first['batch']} "
        f"to {last['mean']:.3f} in batch {last['batch']}."
    )


def _published(seen: Snapshot) -> PageSection:
    models = tuple(
        (str(one["model_version"]), words.short(one["model_hash"])) for one in seen["newest_models"]
    )
    return PageSection(
        "Publications",
        (
            PageFact("publications", "Models published", f"{seen['publications']:,}"),
            PageTable("models", "Newest models", ("Version", "Hash"), models, "None yet."),
        ),
    )


def _taken(seen: Snapshot) -> PageSection:
    rows = tuple(
        (str(one["batch"]), f"{one['size']:,}", str(one["model_version"]), one["standing"])
        for one in seen["newest_batches"]
    )
    columns = ("Batch", "Reports", "Model after it", "Learnt from")
    batches = PageTable("batches", "Newest batches", columns, rows, "None yet.")
    return PageSection("Batches", (batches, refused_table(seen)))
