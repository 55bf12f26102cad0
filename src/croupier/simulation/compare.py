"""Algorithms side by side: one plan each, on the same users."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any

from croupier.baselines.central import Central
from croupier.errors import GuaranteeError
from croupier.plan import Plan
from croupier.plan_defaults import PAPERS, unless_papers, uses_papers_layout
from croupier.policies import registry as policy_registry
from croupier.policies.sampling import Sampling
from croupier.policies.ucb import Ucb
from croupier.schedules import FixedBatches, GrowingBatches
from croupier.simulation import registry
from croupier.simulation.jobs import SweepJob

PAPERS_BATCH = 20
"""Users per batch in the paper's figures."""

TREE, TOEPLITZ, FRESH = "tree", "toeplitz", "fresh"
STRATEGY_WORDS = {TREE: "tree", TOEPLITZ: "Toeplitz", FRESH: "fresh noise"}


@dataclass(frozen=True)
class Entry:
    """An algorithm: ``label`` is its name in the paper, ``words`` what it is with other policies.

    ``sequential`` ones update after every round; ``levels`` are those of a tree. ``strategy`` is
    that of the central model where several are certified, None for the one of least noise.
    """

    label: str
    protocol: str
    sequential: bool = False
    words: str = ""
    levels: int | None = None
    strategy: str | None = None

    def named(self, arena: Arena) -> str:
        """The paper's names are those of its own policy and tree; a sampler is no LinUCB."""
        papers = arena.policy_name == Ucb.name or not self.words
        name = self.label if papers else self.words
        strategy = self.drawn_strategy(arena)
        if strategy is None or (papers and strategy == TREE):
            return name
        return f"{name} ({STRATEGY_WORDS[strategy]})"

    def drawn_strategy(self, arena: Arena) -> str | None:
        """How the central model correlates its noise; the paper's constants are the tree's."""
        if self.protocol != Central.name:
            return None
        if arena.calibration != "certified":
            return TREE
        fresh = not self.sequential and arena.policy_name != Ucb.name
        return self.strategy or (FRESH if fresh else TOEPLITZ)


LINUCB = Entry("LinUCB", "linucb", sequential=True, words="non-private, sequential")
CENTRAL = Entry(
    "LinUCB-JDP", "central", sequential=True, words="central, sequential", strategy=TREE
)
"""The tree of Shariff and Sheffet, whatever the constants."""

AMPLIFIED = Entry("LinUCB-SDP-Amp", "amplified-gaussian", words="shuffle (amplified)")
VECTOR = Entry("LinUCB-SDP-Vec", "vector-sum", words="shuffle (vector-sum)")
LOCAL = Entry("LinUCB-LDP", "local", sequential=True, words="local, sequential")
BATCHED = Entry("Batched-LinUCB", "linucb", words="non-private, batched")
BATCHED_CENTRAL = Entry("Batched-Central-LinUCB", "central", words="central, batched")
BATCHED_LOCAL = Entry("Batched-Local-LinUCB", "local", words="local, batched")
UNIFORM = Entry("uniform play", "noiseless")

FIGURE_ENTRIES = (LINUCB, CENTRAL, VECTOR, AMPLIFIED, LOCAL)
"""The five algorithms of the paper's figures."""

FAIR_ENTRIES = (LINUCB, CENTRAL, BATCHED_CENTRAL, VECTOR, AMPLIFIED, LOCAL)
"""The five, and the central model with the batches of the shuffle model, which suit it better."""

ALL_ENTRIES = (
    LINUCB,
    BATCHED,
    CENTRAL,
    BATCHED_CENTRAL,
    VECTOR,
    AMPLIFIED,
    LOCAL,
    BATCHED_LOCAL,
)
"""Every algorithm of the paper."""


@dataclass(frozen=True)
class Arena:
    """What all algorithms of a comparison share; names left out are the plan's defaults.

    Everybody is honest, as in the paper and in published regret, unless a share is named. The
    problem's constant feature is ``declared``, where it has one and none is named, and so are its
    blocks. ``drift`` is what plans declare of preferences that move.
    """

    dim: int
    horizon: int
    epsilon: float
    delta: float
    calibration: str = "certified"
    arms: int = 100
    problem: str = "sphere"
    policy: str | None = None
    batches: str | None = None
    batch_size: int | None = None
    max_participations: int = 1
    constant_feature: tuple[int, float] | None = None
    declared: bool = True
    drift: float = 0.0
    honest_fraction: float = 1.0

    @property
    def policy_name(self) -> str:
        """The policy that is played."""
        return self.policy or unless_papers(self.calibration, Ucb.name, Sampling.name)

    @property
    def batches_name(self) -> str:
        """The schedule of the entries that are not sequential."""
        return self.batches or unless_papers(
            self.calibration, FixedBatches.name, GrowingBatches.name
        )

    @property
    def first_size(self) -> int | None:
        """The first batch of that schedule; None where a plan sizes it to its noise."""
        if self.batch_size is None and self.batches_name == FixedBatches.name:
            return min(PAPERS_BATCH, self.horizon)
        return self.batch_size

    @property
    def constant(self) -> tuple[int, float] | None:
        """The constant feature that plans declare; the paper's constants have no use for it."""
        if self.constant_feature is not None or not self.declared or self.calibration in PAPERS:
            return self.constant_feature
        if self.policy_name == Ucb.name and self._own_blocks:
            return None
        return registry.find(self.problem).constant_of(self.dim // (self.blocks or 1))

    @property
    def blocks(self) -> int | None:
        """The blocks of features that plans declare, where the problem has some."""
        papers = uses_papers_layout(self.calibration, policy_registry.find(self.policy_name))
        return None if papers or not self.declared else self._own_blocks

    @property
    def _own_blocks(self) -> int | None:
        return registry.find(self.problem).blocks_of(self.arms)

    @property
    def feature_norm(self) -> float:
        """The norm that plans declare; the paper's constants are stated for 1."""
        return 1.0 if self.calibration in PAPERS else registry.find(self.problem).feature_norm


def line_up(entries: Iterable[Entry], arena: Arena) -> list[SweepJob]:
    """A job per entry; one that its theorem does not cover runs its formula and says so."""
    return [enter(entry, arena) for entry in entries]


def enter(entry: Entry, arena: Arena, label: str | None = None) -> SweepJob:
    """The job of one algorithm, under its own name unless another ``label`` is given."""
    try:
        plan, refused = _plan(entry, arena), ""
    except GuaranteeError as error:
        plan, refused = _plan(entry, arena, outside=True), str(error)
    kind = registry.find(arena.problem)
    name = label or entry.named(arena)
    return SweepJob(name, plan, kind.for_plan(plan, arena.arms), refused)


def uniform_play(arena: Arena, label: str | None = None) -> SweepJob:
    """Arms at random: ``sampling`` plays them until its first batch is released, here the last."""
    whole = replace(
        arena,
        calibration="certified",
        policy=Sampling.name,
        batches=FixedBatches.name,
        batch_size=arena.horizon,
    )
    return enter(UNIFORM, whole, label)


def _plan(entry: Entry, arena: Arena, **more: Any) -> Plan:
    return Plan.calibrate(
        entry.protocol,
        dim=arena.dim,
        batch_size=1 if entry.sequential else arena.first_size,
        batches=FixedBatches.name if entry.sequential else arena.batches_name,
        horizon=arena.horizon,
        calibration=arena.calibration,
        epsilon=arena.epsilon,
        delta=arena.delta,
        policy=arena.policy_name,
        max_participations=arena.max_participations,
        honest_fraction=arena.honest_fraction,
        feature_norm=arena.feature_norm,
        constant_feature=arena.constant,
        blocks=arena.blocks,
        drift=arena.drift,
        levels=entry.levels,
        strategy=entry.drawn_strategy(arena) if arena.calibration == "certified" else None,
        **more,
    )
