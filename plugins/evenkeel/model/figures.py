"""The figures of a plan: how balanced the cluster gets, what no plan can beat, and what the clients pay.

`plan.json` holds them under the names of their fields: adding, renaming or dropping a field changes every plan id.
Ratios are rounded to six digits by whoever computes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from evenkeel.model.load import Resource


@dataclass(frozen=True, slots=True)
class StepCounts:
    """How many steps of each kind a plan has."""

    transfers: int = 0
    splits: int = 0
    unloads: int = 0

    @property
    def moves(self) -> int:
        """The steps after which a bundle has another owner."""
        return self.transfers + self.unloads

    @property
    def total(self) -> int:
        return self.transfers + self.splits + self.unloads


@dataclass(frozen=True, slots=True)
class Utilisation:
    """One resource over all brokers whose limit is known, as shares of their limits.

    The mean is all load over all capacity, which no move changes.
    """

    mean: float
    max: float
    std: float
    max_over_mean: float


@dataclass(frozen=True, slots=True)
class Balance:
    """The utilisation of each resource before the plan and, as predicted, after it."""

    before: Mapping[Resource, Utilisation]
    after: Mapping[Resource, Utilisation]

    @property
    def resources(self) -> tuple[Resource, ...]:
        """The resources that both sides have."""
        return tuple(resource for resource in Resource if resource in self.before and resource in self.after)


@dataclass(frozen=True, slots=True)
class Bounds:
    """Lower bounds that hold for any plan that reaches the band."""

    moves: int
    sessions: int
    moved_share: Mapping[Resource, float]
    max_over_mean: Mapping[Resource, float]


@dataclass(frozen=True, slots=True)
class Gap:
    """What the plan takes divided by its bound; None where the bound is 0 and the plan takes something."""

    moves: float | None
    sessions: float | None
    moved_share: Mapping[Resource, float | None]
    max_over_mean: Mapping[Resource, float | None]


@dataclass(frozen=True, slots=True)
class StepCosts:
    """What some steps cost the clients together."""

    steps: int = 0
    sessions: int = 0
    client_seconds: float = 0.0
    moved_bytes_per_s: int = 0


@dataclass(frozen=True, slots=True, kw_only=True)
class WaveCosts(StepCosts):
    """What the steps of one wave cost."""

    wave: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TenantCosts(StepCosts):
    """What the steps on one tenant's bundles cost."""

    tenant: str


@dataclass(frozen=True, slots=True)
class Disruption(StepCosts):
    """What the whole plan costs, wave by wave, and for the tenants who pay most."""

    waves: tuple[WaveCosts, ...] = ()
    tenants: tuple[TenantCosts, ...] = ()
    tenants_in_all: int = 0


@dataclass(frozen=True, slots=True)
class BrokenRules:
    """Bundles that may not stay where they are, and the highest count of an anti-affinity group in one place."""

    misplaced: int
    to_be_emptied: int
    anti_affinity_peak: int
    anti_affinity_domain_peak: int

    @property
    def bundles_to_move(self) -> int:
        """The bundles that have to leave their broker: a policy forbids it, or it is to be emptied."""
        return self.misplaced + self.to_be_emptied


@dataclass(frozen=True, slots=True)
class Violations:
    """Broken rules before the plan and after it."""

    before: BrokenRules
    after: BrokenRules


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """What the first moves of a plan achieve, and the fewest moves with which any plan could get as far.

    `worst` is the highest utilisation over the lowest peak that its pool can reach: 1 is perfect. A lower peak than
    `min_utilisation` asks for counts as that much, so that the band ends at 1 + tolerance in any case.
    """

    moves: int
    sessions: int
    client_seconds: float
    worst: float
    resources: Mapping[Resource, float]
    least_moves: int


class PoolLimit(StrEnum):
    """What keeps a pool from being better balanced; `NOTHING` where every broker is inside the band."""

    NOTHING = "nothing"
    NO_BROKER = "no-broker"
    NO_LOAD = "no-load"
    NO_REPORT = "no-load-report"
    ONE_BROKER = "one-broker"
    BUDGET = "budget"
    CAPACITY = "capacity"
    POLICIES = "policies"
    GIANT_BUNDLE = "giant-bundle"
    EXCLUDED_NAMESPACES = "excluded-namespaces"
    LEFT_ALONE = "left-alone"
    IN_FLIGHT = "in-flight"
    ANTI_AFFINITY = "anti-affinity"
    TOPIC_LIMIT = "topic-limit"
    BUNDLE_SIZES = "bundle-sizes"
    FOREIGN_LOAD = "foreign-load"


@dataclass(frozen=True, slots=True)
class PoolDiagnosis:
    """What limits a pool, and what would help; peaks are shares of the brokers' limits.

    `policies` are the isolation policies that its namespaces are under; none for the shared brokers.
    """

    binding_resource: Resource | None
    lowest_peak: Mapping[Resource, float]
    limited_by: PoolLimit
    advice: tuple[str, ...]
    policies: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class PoolFigures(PoolDiagnosis):
    """A pool with its size, its moves, and how the plan leaves it; one without a name has no broker."""

    pool: str
    brokers: int
    bundles: int
    moves: int
    bound_moves: int
    gap: float | None
    peak_before: Mapping[Resource, float]
    peak_after: Mapping[Resource, float]
    reaches_band: bool


@dataclass(frozen=True, slots=True)
class StrategyReplay:
    """What one of Pulsar's own strategies would have done; the figures are None where it was not replayed."""

    strategy: str
    stopped_because: str
    explanation: tuple[str, ...] = ()
    cycles: int | None = None
    unloads: int | None = None
    repeat_unloads: int | None = None
    moves: int | None = None
    worst_before: float | None = None
    worst_after: float | None = None
    moved_sessions: int | None = None
    client_seconds: float | None = None
    illegal: int | None = None
