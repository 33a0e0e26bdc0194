"""The brokers of a cluster with the load of all pools, and the moves of all pools with what they cost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evenkeel.model.bundles import tenant_of
from evenkeel.model.load import RESOURCES
from evenkeel.model.plan import StepKind
from evenkeel.model.settings import Settings
from evenkeel.planning.pool.plan import BrokerLoad, Move, PoolPlan
from evenkeel.planning.problem.budgets import Cost
from evenkeel.planning.problem.columns import UNLIMITED, Vector, vector
from evenkeel.planning.problem.disruption import step_prices
from evenkeel.planning.search.hot_brokers import LargestLoads

NOTHING: Vector = (0, 0, 0)
PPB = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ClusterBroker:
    """A broker with the load of all pools; `pool` is empty if it is a member of no pool.

    `peak_ppb` is the lowest peak that its pool could reach, per resource, in parts per billion of the limit.
    `balance_limit` is how far moves for balance may fill it: to the end of its band, unless its pool plan differs.
    A broker that `is_emptied` takes no part in balancing.
    """

    broker_id: str
    pool: str
    incarnation: int | None
    domain: str
    limit: Vector
    band_limit: Vector
    balance_limit: Vector
    overload_limit: Vector
    peak_ppb: Vector
    used: Vector
    topics: int
    largest: LargestLoads
    is_emptied: bool = False

    @property
    def arrival_ceiling(self) -> Vector:
        """The most load with which the broker counts as having room: inside its band, and not above the line for it."""
        ceilings = zip(self.limit, self.band_limit, self.overload_limit, self.used, strict=True)
        return vector(
            min(band or UNLIMITED, max(line, used)) if limit else UNLIMITED for limit, band, line, used in ceilings
        )

    def outside_band(self, load: Vector) -> tuple[int, ...]:
        """The resources of which this load is above its band; none for a broker that takes no part in balancing."""
        if not self.pool or self.is_emptied:
            return ()
        bands = zip(load, self.band_limit, self.limit, strict=True)
        return tuple(index for index, (value, band, limit) in enumerate(bands) if limit and band and value > band)

    @property
    def band_ceiling(self) -> Vector:
        """The most load that moves for balance may leave on the broker."""
        most = [value if limit else UNLIMITED for value, limit in zip(self.balance_limit, self.limit, strict=True)]
        return vector(max(pair) for pair in zip(most, self.used, strict=True))

    @property
    def hard_ceiling(self) -> Vector:
        """The most load that may ever be on the broker: the overload line, or what it carried before."""
        line = [value if limit else UNLIMITED for value, limit in zip(self.overload_limit, self.limit, strict=True)]
        return vector(max(pair) for pair in zip(line, self.used, strict=True))

    def is_overloaded(self, load: Vector) -> bool:
        return any(
            limit and value > line for value, line, limit in zip(load, self.overload_limit, self.limit, strict=True)
        )

    def height(self, load: Vector) -> int:
        """Load of the fullest resource relative to the end of its band, in parts per billion; 0 without a band."""
        return max(value * PPB // band if band else 0 for value, band in zip(load, self.band_limit, strict=True))


@dataclass(frozen=True, slots=True)
class PooledMove:
    """A move with the names of its pool and brokers, and its disruption in client-milliseconds."""

    pool: str
    source: str
    destination: str
    move: Move
    client_ms: int

    @property
    def tenant(self) -> str:
        return tenant_of(self.move.bundle)

    @property
    def bytes_per_s(self) -> int:
        return self.move.load[1] + self.move.load[2]

    @property
    def cost(self) -> Cost:
        return Cost(1, self.bytes_per_s, self.move.sessions, self.client_ms)

    @property
    def is_urgent(self) -> bool:
        """Whether the move is a repair or leaves an overloaded broker, and is not just for balance."""
        return self.move.is_repair or self.move.leaves_overloaded_owner


def collect_brokers(pool_plans: Iterable[PoolPlan]) -> dict[str, ClusterBroker]:
    """Add up each broker's load over all pools; sorted by name."""
    seen: dict[str, list[tuple[PoolPlan, BrokerLoad]]] = {}
    for plan in pool_plans:
        for broker in plan.brokers:
            seen.setdefault(broker.broker_id, []).append((plan, broker))
    return {name: _add_up(rows) for name, rows in sorted(seen.items())}


def collect_moves(pool_plans: Sequence[PoolPlan], settings: Settings) -> list[PooledMove]:
    """List the moves of all pools with their prices."""
    moves = [move for plan in pool_plans for move in plan.moves]
    sessions = np.array([move.sessions for move in moves], dtype=np.int64)
    throughput_out = np.array([move.load[2] for move in moves], dtype=np.int64)
    prices = iter(step_prices(StepKind.TRANSFER, sessions, throughput_out, settings).tolist())
    return [
        PooledMove(plan.pool, plan.brokers[m.source].broker_id, plan.brokers[m.destination].broker_id, m, next(prices))
        for plan in pool_plans
        for m in plan.moves
    ]


def count_groups(pool_plans: Iterable[PoolPlan]) -> Counter[tuple[str, str]]:
    """How many bundles of each anti-affinity group each broker owns before the plan, by group and broker id."""
    counts: Counter[tuple[str, str]] = Counter()
    for plan in pool_plans:
        for row in plan.group_counts:
            counts[row.group, plan.brokers[row.broker].broker_id] += row.bundles
    return counts


def loads_after(brokers: Mapping[str, ClusterBroker], moves: Iterable[PooledMove]) -> dict[str, Vector]:
    """The load of every broker once these moves are done."""
    after = {name: broker.used for name, broker in brokers.items()}
    for move in moves:
        after[move.source] = minus(after[move.source], move.move.load)
        after[move.destination] = plus(after[move.destination], move.move.load)
    return after


def pool_loads_after(plans: Iterable[PoolPlan], moves: Iterable[PooledMove]) -> dict[tuple[str, str], Vector]:
    """The load that each pool's own bundles put on each broker once these moves are done, by pool and broker id."""
    after = {(plan.pool, row.broker_id): row.used for plan in plans for row in plan.brokers}
    for move in moves:
        source, destination = (move.pool, move.source), (move.pool, move.destination)
        after[source] = minus(after[source], move.move.load)
        after[destination] = plus(after[destination], move.move.load)
    return after


def plus(left: Vector, right: Vector) -> Vector:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


def minus(left: Vector, right: Vector) -> Vector:
    return left[0] - right[0], left[1] - right[1], left[2] - right[2]


def is_within(load: Vector, ceiling: Vector) -> bool:
    return load[0] <= ceiling[0] and load[1] <= ceiling[1] and load[2] <= ceiling[2]


def _add_up(rows: Sequence[tuple[PoolPlan, BrokerLoad]]) -> ClusterBroker:
    # Only the pool that the broker belongs to knows its band; bundles of other pools still count as load.
    plan, broker = next(((p, b) for p, b in rows if b.is_member), rows[0])
    used = NOTHING
    for _, row in rows:
        used = plus(used, row.used)
    return ClusterBroker(
        broker_id=broker.broker_id,
        pool=plan.pool if broker.is_member else "",
        incarnation=broker.incarnation,
        domain=broker.domain,
        limit=broker.limit,
        band_limit=broker.band_limit,
        balance_limit=broker.balance_limit or broker.band_limit,
        overload_limit=broker.overload_limit,
        peak_ppb=plan.bounds.peak_ppb if broker.is_member else NOTHING,
        used=used,
        is_emptied=broker.is_emptied,
        topics=sum(row.topics for _, row in rows),
        largest=tuple(
            tuple(sorted((load for _, row in rows for load in row.largest[resource]), reverse=True))
            for resource in range(len(RESOURCES))
        ),
    )


def total_cost(moves: Sequence[PooledMove]) -> Cost:
    total = Cost()
    for move in moves:
        total = total.plus(move.cost)
    return total
