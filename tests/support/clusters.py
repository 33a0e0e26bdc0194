"""Small clusters for the planner's tests, and the way from a cluster to a plan."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import numpy as np

from evenkeel.model.load import RESOURCES, SplitCandidate
from evenkeel.model.policies import IsolationPolicy, Policies
from evenkeel.model.settings import Settings
from evenkeel.model.snapshot import Broker
from evenkeel.planning.cluster.assembly import PlanContext, PlannedCluster, assemble
from evenkeel.planning.explaining.policy_findings import explain_policies
from evenkeel.planning.pool.plan import PoolPlan
from evenkeel.planning.pool.planner import Certifier, plan_pools
from evenkeel.planning.problem.columns import BundleColumns
from evenkeel.planning.problem.pools import live_broker_ids
from evenkeel.planning.search.bounds import PoolBounds, certify
from evenkeel.planning.search.optimiser import always
from evenkeel.planning.search.placement import Solution

KBPS_PER_BYTE = 8 / 1000
# Limits in the planner's units: 1000 a unit of broker size for each of the three resources.
UNITS = 1000


@dataclass(frozen=True, slots=True)
class Cluster:
    """Brokers, bundles and policies, as a snapshot would give them."""

    brokers: tuple[Broker, ...]
    bundles: BundleColumns
    policies: Policies = field(default_factory=Policies)

    def shuffled(self, seed: int) -> Cluster:
        """The same cluster with its rows in another order."""
        chance = random.Random(seed)
        rows = list(range(len(self.bundles)))
        chance.shuffle(rows)
        brokers = chance.sample(self.brokers, len(self.brokers))
        return Cluster(tuple(brokers), self.bundles.take(np.array(rows, dtype=np.intp)), self.policies)


def broker(
    name: str,
    size: float = 1.0,
    state: str = "Active",
    incarnation: int | None = 7,
    domain: str | None = None,
    limits: tuple[float, float, float] | None = None,
) -> Broker:
    """A broker `name:8080` whose limits are 1000 units of each resource a size, or these three; 0 is unknown."""
    cpu, bandwidth_in, bandwidth_out = limits or (size * UNITS,) * 3
    return Broker(
        f"{name}:8080",
        incarnation,
        state,
        None,
        "extensible",
        domain,
        None,
        None,
        cpu_limit_percent=cpu / 1000 or None,
        bandwidth_in_limit_kbps=bandwidth_in * KBPS_PER_BYTE or None,
        bandwidth_out_limit_kbps=bandwidth_out * KBPS_PER_BYTE or None,
    )


def bundles(placed: Mapping[str, Sequence[tuple[str, int] | tuple[str, tuple[int, int, int]]]]) -> BundleColumns:
    """Columns from `{"b1": [("tenant/ns", load), …]}`; a load is one number for all resources, or three."""
    rows: list[tuple[object, ...]] = []
    for owner, owned in placed.items():
        for namespace, load in owned:
            cpu, rate_in, rate_out = (load,) * 3 if isinstance(load, int) else load
            name = f"{namespace}/0x{len(rows):08x}_0x{len(rows) + 1:08x}"
            rows.append((name, namespace, f"{owner}:8080", 2, 1, 10, cpu, rate_in, rate_out, cpu))
    if not rows:
        return no_bundles()
    return BundleColumns(*(np.array(column, dtype=object) for column in zip(*rows, strict=True)))


def no_bundles() -> BundleColumns:
    return BundleColumns(**{f.name: np.zeros(0, dtype=object) for f in dataclasses.fields(BundleColumns)})


def isolation(
    name: str, namespaces: Sequence[str], primary: Sequence[str], secondary: Sequence[str] = (), min_limit: int = 1
) -> IsolationPolicy:
    return IsolationPolicy(name, tuple(namespaces), tuple(primary), tuple(secondary), min_limit)


def leave_uncertified(solution: Solution) -> PoolBounds:
    """Bounds of 0, for tests that look at the steps alone: a certificate takes longer than the search."""
    nothing = (0,) * len(RESOURCES)
    return PoolBounds(0, 0, nothing, nothing, nothing)


def solve_pools(
    cluster: Cluster,
    settings: Settings,
    candidates: Sequence[SplitCandidate] = (),
    has_time: Callable[[], bool] = always,
    certifier: Certifier = certify,
) -> list[PoolPlan]:
    """Plan pool by pool, as the executors do, and send each plan through its JSON form."""
    plans = plan_pools(cluster.brokers, cluster.bundles, cluster.policies, settings, candidates, has_time, certifier)
    return [PoolPlan.from_json(plan.to_json()) for plan in plans]


def context(settings: Settings, **changes: object) -> PlanContext:
    made = PlanContext(
        cluster="test",
        load_manager="extensible",
        snapshot_id="snapshot",
        taken_at=datetime(2026, 1, 31, 3, tzinfo=UTC),
        profile_id="profile",
        candidates_id="candidates",
        strategy="certified",
        settings=settings,
        policy_versions={},
        anti_affinity={},
        library_version="0",
    )
    return dataclasses.replace(made, **changes)  # type: ignore[arg-type]


def plan(
    cluster: Cluster,
    settings: Settings | None = None,
    candidates: Sequence[SplitCandidate] = (),
    has_time: Callable[[], bool] = always,
    certifier: Certifier = certify,
) -> PlannedCluster:
    settings = settings or Settings()
    namespaces = map(str, cluster.bundles.namespace)
    findings = explain_policies(cluster.policies, live_broker_ids(cluster.brokers), namespaces)
    return assemble(
        solve_pools(cluster, settings, candidates, has_time, certifier), context(settings, findings=findings)
    )


def destinations(planned: PlannedCluster) -> dict[str, tuple[str, str]]:
    """Where each moved bundle's namespace went: `{"tenant/ns": ("b1", "b2")}`."""
    return {
        step.bundle.rpartition("/")[0]: (step.source.partition(":")[0], str(step.destination).partition(":")[0])
        for step in planned.steps
    }


def random_cluster(seed: int, n_brokers: int = 8, n_bundles: int = 120, is_varied: bool = True) -> Cluster:
    """Uneven brokers and bundles; a few isolation policies, anti-affinity groups, odd states and unknown limits."""
    chance = random.Random(seed)
    names = [f"b{index:03d}" for index in range(n_brokers)]
    states = chance.choices(["Active", "Stopping", "Inactive", "Initial"], [12, 1, 1, 1], k=n_brokers)
    brokers = [
        broker(
            name,
            state=state if is_varied else "Active",
            domain=f"zone-{index % 3}" if is_varied else None,
            limits=tuple(0 if is_varied and chance.random() < 0.05 else size * 1e7 for _ in range(3)),  # type: ignore[arg-type]
        )
        for index, (name, state) in enumerate(zip(names, states, strict=True))
        for size in [chance.choice((1, 2, 4)) if is_varied else 2]
    ]
    pull = [chance.lognormvariate(0, 0.5) for _ in names]
    namespaces = [f"t/ns{index}" for index in range(max(1, n_bundles // 6))]
    # The largest bundles are cut to about a quarter of an average broker's load, so that they can be placed at all.
    sizes = [min(chance.lognormvariate(0, 1.2), n_bundles / n_brokers / 2) for _ in range(n_bundles)]
    unit = 0.45 * n_brokers * 2e7 / sum(sizes)
    placed: dict[str, list[tuple[str, tuple[int, int, int]]]] = {name: [] for name in names}
    for size in sizes:
        vary = [chance.lognormvariate(0, 0.6) if is_varied else 1.0 for _ in range(3)]
        cpu, rate_in, rate_out = (round(size * unit * part) for part in vary)
        placed[chance.choices(names, pull)[0]].append((chance.choice(namespaces), (cpu, rate_in, rate_out)))
    policies = Policies()
    if is_varied:
        reserved = "|".join(names[: max(1, n_brokers // 3)])
        groups = {
            name: f"Group-{index % 2}" for index, name in enumerate(chance.sample(namespaces, len(namespaces) // 4))
        }
        policies = Policies(
            isolation=(isolation("reserved", [r"t/ns\d"], [reserved]),),
            anti_affinity=groups,
            excluded_namespaces=frozenset(namespaces[-1:]),
        )
    return Cluster(tuple(brokers), bundles(placed), policies)
