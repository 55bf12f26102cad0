"""The analyzer's page: the newest model, what it was learnt from, and what privacy it cost."""

from __future__ import annotations

from croupier.service.console import words
from croupier.service.console.common_page import key_section, refused_table
from croupier.service.console.common_view import Snapshot
from croupier.service.console.page_parts import Fact, Gauge, Page, Section, Table, Trend


def analyzer_page(seen: Snapshot) -> Page:
    """The page of a snapshot; rewards are on it only where somebody tells them."""
    rewards = () if seen["rewards"] is None else (_rewards(seen),)
    sections = (_model(seen), _privacy(seen), *rewards, _published(seen), _taken(seen))
    page = (*sections, key_section(seen))
    return Page("Analyzer", seen["plan"], _news(seen), seen["draining"], page)


def _news(seen: Snapshot) -> str:
    if seen["draining"]:
        return "The service is shutting down."
    left = seen["batches_total"] - seen["learnt"]
    told = f"Model {seen['model_version']} is published"
    if left == 0:
        return f"{told}; the plan has ended."
    return f"{told}; the plan has {words.batches(left)} left."


def _model(seen: Snapshot) -> Section:
    return Section(
        "Model",
        (
            Gauge("learnt", "Batches learnt from", seen["learnt"], seen["batches_total"]),
            Fact("version", "Version", str(seen["model_version"])),
            Fact("hash", "Hash", words.short(seen["model_hash"])),
            Fact("age", "Age", _age(seen)),
            Fact("reports", "Reports counted", f"{seen['reports']:,}"),
            Fact("repairs", "Eigenvalues raised", f"{seen['repairs']:,}"),
            Fact("clipped", "Counts clipped", f"{seen['clipped']:,}"),
        ),
    )


def _age(seen: Snapshot) -> str:
    """No times are stored: of a model that was there at the start, only a least age is known."""
    told = words.duration(seen["model_seconds"])
    return told if seen["model_seen_new"] else f"{told}, at least"


def _privacy(seen: Snapshot) -> Section:
    limit = words.batches(seen["participation_limit"])
    return Section(
        "Privacy",
        (
            Gauge("entries", "Batches charged", seen["entries"], seen["batches_total"]),
            Fact("left", "Batches left", f"{seen['batches_total'] - seen['entries']:,}"),
            Fact("epsilon", "Certified epsilon", words.number(seen["epsilon"])),
            Fact("delta", "At delta", words.number(seen["delta"])),
            Fact("limit", "For a user in at most", limit),
            Fact("once", "In one batch alone", words.number(seen.get("epsilon_batch"))),
            Fact("asked", "Epsilon asked for", words.number(seen.get("epsilon_asked"))),
            Fact("method", "Proved by", seen["method"]),
            Fact("head", "The ledger ends in", words.short(seen["ledger_head"])),
        ),
    )


def _rewards(seen: Snapshot) -> Section:
    means = tuple(one["mean"] for one in seen["rewards"])
    trend = Trend("rewards", "Mean reward by batch", means, _course(seen["rewards"]))
    return Section("Rewards", (trend,))


def _course(rewards: list[Snapshot]) -> str:
    if not rewards:
        return "Nobody has told a reward yet."
    first, last = rewards[0], rewards[-1]
    return (
        f"From {first['mean']:.3f} in batch {first['batch']} "
        f"to {last['mean']:.3f} in batch {last['batch']}."
    )


def _published(seen: Snapshot) -> Section:
    models = tuple(
        (str(one["model_version"]), words.short(one["model_hash"])) for one in seen["newest_models"]
    )
    return Section(
        "Publications",
        (
            Fact("publications", "Models published", f"{seen['publications']:,}"),
            Table("models", "Newest models", ("Version", "Hash"), models, "None yet."),
        ),
    )


def _taken(seen: Snapshot) -> Section:
    rows = tuple(
        (str(one["batch"]), f"{one['size']:,}", str(one["model_version"]))
        for one in seen["newest_batches"]
    )
    columns = ("Batch", "Reports", "Model after it")
    batches = Table("batches", "Newest batches", columns, rows, "None yet.")
    return Section("Batches", (batches, refused_table(seen)))
