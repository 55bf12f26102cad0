"""The command ``audit``: what a plan gives away when it is run, against what it claims."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from croupier.cli import options, screen, words
from croupier.documents import finite_or_null, guarantee_document
from croupier.plan import Plan
from croupier.privacy.audit_statistics import FALSE_ALARM, Errors
from croupier.simulation.audit import TRIALS, AuditReport
from croupier.simulation.audit import audit as run_audit

DEVICE_SECONDS = 3.0


def audit(
    file: options.PlanFile,
    trials: Annotated[int, typer.Option(help="Runs with either data of the user.")] = TRIALS,
    seed: options.Seed = 0,
    batches: Annotated[
        int | None, typer.Option(help="Batches that the user is in; the plan's own most.")
    ] = None,
    as_json: options.Json = False,
) -> None:
    """Run a plan on its worst pair of users and measure mu; exits 1 if it is above the claim.

    Example: croupier audit plan.json --trials 400000
    """
    made = screen.read_plan(file)
    with screen.waiting(f"auditing {made.protocol}"):
        report = run_audit(
            made, trials=trials, seed=seed, batches=batches, device_seconds=DEVICE_SECONDS
        )
    screen.emit(report_document(made, report), report_words(made, report), as_json)
    if report.flagged:
        raise typer.Exit(1)


def report_document(plan: Plan, report: AuditReport) -> dict[str, Any]:
    """Everything that was measured, as plain values; null where it is infinite or not there."""
    return {
        "kind": "audit",
        "plan": plan.id,
        "protocol": plan.protocol,
        "calibration": plan.calibration,
        "batches": report.batches,
        "trials": report.trials,
        "seed": report.seed,
        "mu_lower": finite_or_null(report.mu_lower),
        "mu_estimate": finite_or_null(report.mu_estimate),
        "mu_certified": finite_or_null(report.mu_certified),
        "delta_lower": report.delta_lower,
        "confidence": 1 - FALSE_ALARM,
        "claim": guarantee_document(report.guarantee, report.delta)
        | {"mu": finite_or_null(report.mu_certified)},
        "budget": report.budget and vars(report.budget),
        "middle": _errors_document(report.middle),
        "sharp": _errors_document(report.sharp),
        "pair": None if report.pair is None else report.pair.tolist(),
        "devices": report.devices and vars(report.devices),
        "reports": report.reports and vars(report.reports) | {"agrees": report.reports.agrees},
        "promise_refuted": report.promise_refuted,
        "budget_refuted": report.budget_refuted,
        "flagged": report.flagged,
        "verdict": verdict(report),
        "seconds": report.seconds,
    }


def _errors_document(errors: Errors | None) -> dict[str, Any] | None:
    if errors is None:
        return None
    return {
        "false_positive": errors.rates.false_positive,
        "false_negative": errors.rates.false_negative,
        "false_positive_upper": errors.bounds().false_positive,
        "false_negative_upper": errors.bounds().false_negative,
    }


def report_words(plan: Plan, report: AuditReport) -> str:
    """The report for somebody who has to decide about the plan."""
    lines = [
        f"Audit of plan {plan.id} ({plan.protocol}, {plan.calibration})",
        f"  claimed       {words.guarantee_words(report.guarantee, report.delta)}",
        *_measured(report),
        *_budget(report),
        f"  verdict       {verdict(report)}",
    ]
    return "\n".join(lines)


def _measured(report: AuditReport) -> list[str]:
    if report.middle is None or report.pair is None:
        return []
    rates = report.middle.rates
    first, second = (", ".join(f"{value:.3f}" for value in row) for row in report.pair)
    return [
        f"  measured      mu at least {report.mu_lower:.6g}, estimated {report.mu_estimate:.6g}",
        f"  errors        {rates.false_positive:.4g} and {rates.false_negative:.4g} of the test",
        f"  runs          {report.trials} a side, batches with the user: {report.batches}, "
        f"{report.seconds:.1f} s",
        f"  pair          ({first}) and ({second}), both rewarded most",
        *_devices(report),
        *_reports(report),
        f"  confidence    an honest plan is flagged with probability {FALSE_ALARM:g} at most",
    ]


def _devices(report: AuditReport) -> list[str]:
    found = report.devices
    if found is None:
        return []
    word = "follow" if found.agrees else "do NOT follow"
    return [f"  devices       {found.runs} batches of real devices {word} the measured law"]


def _reports(report: AuditReport) -> list[str]:
    """Single reports against their exact law, with the least likely of all that was seen."""
    found = report.reports
    if found is None:
        return []
    drawn = f"  reports       {found.reports:,} single ones, {found.pairs:,} pairs of labels: "
    if found.agrees:
        return [f"{drawn}as they should be (p = {found.chance:.2g})"]
    return [f"{drawn}NOT as they should be in {found.least_likely} (p = {found.chance:.2g})"]


def _budget(report: AuditReport) -> list[str]:
    """What was measured at the budget's epsilon, and what could have been at most."""
    budget, least = report.budget, report.delta_lower
    if budget is None or least is None:
        return []
    most = Errors(0, 0, report.trials).bounds().delta(budget.epsilon)
    shown = f"delta at least {least:.4g} at epsilon {budget.epsilon:g}, asked for {budget.delta:g}"
    lines = [f"  budget        {shown} (no privacy at all would show {most:.4g})"]
    if report.guarantee.proved and not report.guarantee.meets(budget):
        lines.append(f"                {words.verdict(report.guarantee, budget)}")
    return lines


def verdict(report: AuditReport) -> str:
    """The answer in a sentence."""
    if report.middle is None:
        return "nothing is claimed, so nothing was run"
    if report.devices_differ:
        return "REFUTED: real devices do not do what was measured"
    if report.reports_differ:
        return "REFUTED: single reports do not follow the law that is certified"
    if report.promise_refuted:
        return "REFUTED: more was measured than the guarantee allows"
    if report.budget_refuted:
        return "REFUTED: more was measured than the budget allows"
    return "nothing above the claim was measured"
