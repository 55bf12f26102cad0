"""Plans, models and guarantees in words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from croupier.documents import fewer_honest
from croupier.layouts import Blocks, Layout
from croupier.model import Model
from croupier.plan import Plan
from croupier.plan_promises import AGAINST
from croupier.privacy.budget import LEAST_DELTA, Budget
from croupier.privacy.guarantee import Guarantee
from croupier.protocols.base import AdditiveRelease, Release
from croupier.schedules import Schedule

SHOWN_BATCHES = 20

POLICY_NUMBERS = ("regularizer", "radius", "exploration", "spread")


def plan_words(plan: Plan) -> str:
    """A plan for somebody who has to decide about it."""
    return "\n".join([*_frame(plan), *_noise(plan), *_every_batch(plan), *_promises(plan)])


def _frame(plan: Plan) -> list[str]:
    sizes, layout = plan.schedule, plan.layout
    kind = "can be deployed" if plan.deployable else "a baseline, for simulations only"
    lines = [
        f"Plan {plan.id}",
        f"  protocol      {plan.protocol} ({kind}), calibration {plan.calibration!r}",
        f"  features      dimension {layout.dim}, norm at most {layout.feature_norm:g}; "
        f"rewards in [{layout.reward_range[0]:g}, {layout.reward_range[1]:g}]{_constant(layout)}",
        *_blocks(layout),
        f"  batches       {sizes.batches} of {_sizes(sizes)} users ({sizes.name}), "
        f"{sizes.rounds} in all",
        f"  policy        {plan.policy.name}: {_policy(plan)}",
        f"  publication   {_publication(plan)}",
        f"  users         each in at most {plan.participations} of the batches, "
        "at most once in a batch",
    ]
    lines += [f"  {name:<14}{text}" for name, text in plan.mechanism.words().items()]
    if sizes.unreleased:
        lines.append(f"  left over     the last {sizes.unreleased} users are not released")
    return lines


def _constant(layout: Layout) -> str:
    if layout.constant is None:
        return ""
    index, value = layout.constant
    where = "" if layout.blocks == 1 else " of the own block"
    return f"; feature {index}{where} is {value:.6g} for everybody"


def _blocks(layout: Layout) -> list[str]:
    if not isinstance(layout, Blocks):
        return []
    return [f"  blocks        {layout.blocks} of {layout.width} features, zero outside one of them"]


def _sizes(sizes: Schedule) -> str:
    listed = sizes.sizes()
    return str(listed[0]) if len(listed) == 1 else f"{min(listed)} to {max(listed)}"


def _policy(plan: Plan) -> str:
    own = plan.policy.parameters
    shown = {name: own[name] for name in POLICY_NUMBERS if name in own}
    return ", ".join(
        f"{name} {value:.6g}" if isinstance(value, float) else f"{name} by the lemma"
        for name, value in shown.items()
    )


def _publication(plan: Plan) -> str:
    rule = plan.publication
    if rule.growth is None:
        return "a model after every batch"
    when = f"a model when it knows {rule.growth:g} times more ({rule.name})"
    most = rule.most(plan.policy, plan.layout, plan.schedule)
    if most is None:
        return f"{when}; how many is not proved"
    return f"{when}, at most {most} of them while noise keeps to its bound"


def _noise(plan: Plan) -> list[str]:
    first = plan.release(0)
    own = ", ".join(f"{name} {_number(value)}" for name, value in first.parameters.items())
    size = first.report_bits
    return [
        f"  parameters    {own or 'none'}",
        f"  noise         std {first.noise_std:.6g} per coordinate of a batch sum"
        f"{_rounding(first)}{_floor(plan)}",
        f"  report        {size} bits, {bytes_words(size)}",
        f"  one report    {_weight(plan)}",
    ]


def _weight(plan: Plan) -> str:
    """What a hostile user can do with a report that looks like any other."""
    if math.isinf(plan.report_weight):
        return "weighs without limit where it is hostile"
    shares = "; in shares, any number" if isinstance(plan.release(0), AdditiveRelease) else ""
    return f"weighs up to {plan.report_weight:.3g} honest ones where it is hostile{shares}"


def _every_batch(plan: Plan) -> list[str]:
    """Users, bits and noise of each batch, where they differ."""
    releases = plan.mechanism.releases
    if len(releases) == 1:
        return []
    shown = [
        f"    {one.users:>10} users, {one.report_bits:>8} bits a report, std {one.noise_std:.6g}"
        for one in releases[:SHOWN_BATCHES]
    ]
    more = len(releases) - len(shown)
    return ["  each batch", *shown, *([f"    and {more} more"] if more else [])]


def _rounding(first: Release) -> str:
    if first.noise_std == first.privacy_noise_std:
        return ""
    return f" ({first.privacy_noise_std:.6g} for privacy, the rest is rounding)"


def _floor(plan: Plan) -> str:
    if plan.noise_floor is None:
        return ""
    return f"; no analysis allows less than {plan.noise_floor:.6g}"


def _number(value: object) -> str:
    if isinstance(value, tuple):
        return " / ".join(map(_number, value))
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def bytes_words(bits: int) -> str:
    """A size that people can picture."""
    size = bits / 8
    for unit in ("bytes", "kB", "MB"):
        if size < 1000:
            return f"{size:.3g} {unit}"
        size /= 1000
    return f"{size:.3g} GB"


def _promises(plan: Plan) -> list[str]:
    lines = ["", *_claim(plan), "What is proved:"]
    delta = plan.budget.delta if plan.budget else None
    for name, guarantee in plan.guarantees().items():
        lines.append(f"  {name:<8}against {AGAINST[name]}: {guarantee_words(guarantee, delta)}")
    proved = [guarantee for guarantee in plan.guarantees().values() if guarantee.proved]
    shown = dict.fromkeys(text for guarantee in proved for text in guarantee.assumptions)
    heading = ["Assuming:"] if shown else []
    return [*lines, *heading, *(f"  - {text}" for text in shown), *_fewer_honest(plan)]


def _fewer_honest(plan: Plan) -> list[str]:
    """What is left where fewer are honest than the plan relies on."""
    rows = fewer_honest(plan)
    if not rows or plan.budget is None:
        return []
    listed = (
        f"  {100 * row['honest_fraction']:>4.3g} % honest: epsilon {_epsilon(row['epsilon'])}"
        for row in rows
    )
    return [f"With fewer honest users, at delta {plan.budget.delta:g}:", *listed]


def _claim(plan: Plan) -> list[str]:
    if plan.budget is None:
        return ["No privacy is asked for."]
    asked = f"({plan.budget.epsilon:g}, {plan.budget.delta:g})"
    if plan.terms.outside:
        return [f"Asked for: {asked}, outside the theorem's range: nothing is claimed."]
    return [f"Asked for: {asked}: {verdict(plan.promise, plan.budget)}."]


def verdict(guarantee: Guarantee, budget: Budget) -> str:
    """Whether a claim holds, as far as anything is proved."""
    if not guarantee.proved:
        return "not proved"
    if guarantee.meets(budget):
        return "proved to hold"
    return f"does NOT hold, the proved delta is {delta_words(guarantee.delta(budget.epsilon))}"


def delta_words(delta: float) -> str:
    """A computed delta; what floating point cannot hold is not said to be 0."""
    return f"{delta:.4g}" if delta >= LEAST_DELTA else f"below {LEAST_DELTA:g}"


def guarantee_words(guarantee: Guarantee, delta: float | None) -> str:
    """One guarantee in a line."""
    if not guarantee.proved:
        return f"not proved ({guarantee.reason})"
    if delta is None:
        return f"mu = {guarantee.mu}"
    epsilon = guarantee.epsilon(delta)
    if math.isinf(epsilon):
        return f"nothing is proved at delta {delta:g} ({guarantee.method})"
    mu = guarantee.mu_at(delta)
    known = f", mu = {mu:.6g}" if mu is not None else ""
    return f"epsilon {_epsilon(epsilon)} at delta {delta:g}{known} ({guarantee.method})"


def _epsilon(value: float | None) -> str:
    """Infinite where there is no number."""
    return "infinite" if value is None or math.isinf(value) else f"{value:.6g}"


def together_words(plans: Sequence[Plan], found: Mapping[str, float], delta: float) -> str:
    """What plans on the same people are worth together."""
    heading = f"{len(plans)} plans on the same people, each with all of its participations:"
    lines = [
        f"{name:<8} epsilon {_epsilon(value)} at delta {delta:g}, against {AGAINST[name]}"
        for name, value in found.items()
    ]
    return "\n".join([heading, *lines])


def model_words(model: Model) -> str:
    """A model for somebody who wants to know what a device would do with it."""
    spread = np.sqrt(np.maximum(np.linalg.eigvalsh(model.matrix), 0.0))
    theta = ", ".join(f"{value:.4g}" for value in model.theta)
    return "\n".join(
        [
            f"Model {model.hash[:32]}, version {model.version} (policy {model.policy})",
            f"  plan          {model.plan_id or 'none'}",
            f"  learnt from   {model.users} users in {model.version} batches",
            f"  theta         ({theta}), norm {np.linalg.norm(model.theta):.4g}",
            f"  optimism      {model.scale:.4g} widths; a unit feature is "
            f"{spread.min():.4g} to {spread.max():.4g} wide",
            f"  repairs       {model.repairs} eigenvalues were raised for this model",
        ]
    )
