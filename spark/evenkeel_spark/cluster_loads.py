"""The planning loads of a cluster's bundles, as the planner, the verifier and the gate ask for them.

Two classes keep the promise: `SparkLoads`, where bundles stay on the executors, and `DriverLoads`, where this process
holds them. The same figures go in, and the same plans come out.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from evenkeel.model.bundles import BundleName, is_system_namespace
from evenkeel.model.plan import Step, StepKind
from evenkeel.model.policies import Policies
from evenkeel.planning.problem.columns import BundleColumns
from evenkeel.planning.problem.pools import PoolAssignment
from evenkeel.planning.splitting.cuts import Cut, TopicColumns, cut_at, find_cut
from evenkeel.planning.verifier.units import can_be_cut

IDENTITY_COLUMNS = ("bundle", "namespace", "owner", "state", "version_id", "topics", "sessions")
LOAD_COLUMNS: Mapping[str, str] = {
    "msg_rate_millis": "msg_rate_{}_millis",
    "throughput_in": "throughput_in_{}_bytes_per_s",
    "throughput_out": "throughput_out_{}_bytes_per_s",
}
"""Integer load of a row → name pattern of its columns in a profile."""
# Columns of the planning loads, in the order of RESOURCES.
RESOURCE_COLUMNS = ("cpu_millipercent", "throughput_in", "throughput_out")
BUNDLE_COLUMNS = (*IDENTITY_COLUMNS, *LOAD_COLUMNS, "cpu_millipercent")
SUMMED_COLUMNS = ("topics", "sessions", *LOAD_COLUMNS, "cpu_millipercent")

PoolPlanner = Callable[[str, BundleColumns], "PlannedPool"]


@dataclass(frozen=True, slots=True)
class NamespaceTotal:
    """The bundles of a namespace, idle ones included, how many have an owner, and the load that they carry together."""

    namespace: str
    bundles: int
    owned: int
    carried: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class PlannedPool:
    """A pool's plan as JSON, or the error that a user has to know, and how long the planner took."""

    pool: str
    plan: str | None
    error: str | None
    seconds: float


class ClusterLoads(Protocol):
    """What can be asked of a cluster's planning loads."""

    def namespace_totals(self) -> list[NamespaceTotal]:
        """One row a namespace; namespaces are few."""
        ...

    def bundles_above(self, sizes: Mapping[str, Sequence[float]], fewest_topics: int) -> list[Mapping[str, Any]]:
        """The plannable bundles of these namespaces that exceed a size in any resource, which are few."""
        ...

    def find_cuts(self, boundaries: Mapping[str, int | None]) -> dict[str, Cut]:
        """The cut of each bundle at its boundary, or the best one where none is given; none where it cannot be cut."""
        ...

    def plan_pools(self, pools: PoolAssignment, plan: PoolPlanner) -> list[PlannedPool]:
        """Plan each pool with its own bundles and the strangers on its brokers; in order of the pools' names."""
        ...

    def compute(self, function: Callable[[BundleColumns], Any]) -> Any:
        """The value of a function, which is any JSON value, over all plannable bundles."""
        ...

    def placed(self, at_stake: BundlesAtStake) -> list[dict[str, Any]]:
        """The bundles at stake one by one, and the load of the others; each row has a column `is_at_stake`."""
        ...


@dataclass(frozen=True, slots=True)
class BundlesAtStake:
    """The bundles that the verifier has to see one by one to judge some steps.

    These are the bundles that the steps name, and all bundles of the anti-affinity groups that they touch and of the
    namespaces that they split. Of the others it matters only who carries their load, and for which namespace.
    """

    bundles: Collection[str]
    namespaces: Collection[str]

    @classmethod
    def of(cls, steps: Iterable[Step], policies: Policies) -> BundlesAtStake:
        chosen = list(steps)
        names = {step.bundle for step in chosen}
        touched = {policies.anti_affinity.get(_namespace(name), "").lower() for name in names} - {""}
        grouped = {name for name, group in policies.anti_affinity.items() if group.lower() in touched}
        split = {_namespace(step.bundle) for step in chosen if step.kind == StepKind.SPLIT}
        return cls(frozenset(names), frozenset(grouped | split))


def pool_names(pools: PoolAssignment) -> list[str]:
    """The names of all pools, sorted."""
    return sorted({*pools.pool_of_broker.values(), *pools.pool_of_namespace.values()})


def boundaries_of(steps: Iterable[Step]) -> dict[str, int | None]:
    """Where the splits of a plan cut their bundles, whatever else the plan says of them."""
    return {step.bundle: step.split_boundary for step in steps if can_be_cut(step)}


def cut_bundle(bundle: str, topics: TopicColumns, boundary: int | None) -> Cut | None:
    """Cut a bundle at a boundary, or at the best one, given its topics; None where it cannot be cut."""
    its_range = BundleName.parse(bundle).range
    return find_cut(its_range, topics) if boundary is None else cut_at(its_range, topics, boundary)


def as_columns(rows: Sequence[Mapping[str, Any]]) -> BundleColumns:
    """Placed rows as the verifier takes them; of the system's namespaces only those at stake."""
    counted = [row for row in rows if row["is_at_stake"] or not is_system_namespace(row["namespace"])]
    columns: dict[str, Any] = {name: [row[name] for row in counted] for name in BUNDLE_COLUMNS}
    return BundleColumns(**columns)


def _namespace(bundle: str) -> str:
    return bundle.rpartition("/")[0]
