"""Brokers with the load of all pools, and the moves of all pools with their price."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from evenkeel.model.bundles import tenant_of
from evenkeel.model.load import RESOURCES
from evenkeel.model.plan import StepKind
from evenkeel.model.settings import Settings
from evenkeel.planning.arrays import UNLIMITED
from evenkeel.planning.disruption import step_prices
from evenkeel.planning.largest_loads import LargestLoads
from evenkeel.planning.pool_plan import BrokerLoad, Move, PoolPlan, Vector, vector

NOTHING: Vector = (0, 0, 0)
PPB = 1_000_000_000


@dataclass(frozen=True, slots=True)
class ClusterBroker:
    """A broker with the load of all pools; `pool` is empty where no pool plan has it as a member.

    `peak_ppb` is the lowest peak that its pool could reach, per resource, in parts per billion of the limit.
    `balance_limit` is how far moves for balance may fill it: to the end of its band, unless its pool says otherwise.
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

    @property
    def band_ceiling(self) -> Vector:
        """The most that moves for balance may leave on it."""
        most = [value if limit else UNLIMITED for value, limit in zip(self.balance_limit, self.limit, strict=True)]
        return vector(max(pair) for pair in zip(most, self.used, strict=True))

    @property
    def hard_ceiling(self) -> Vector:
        """The most that may ever be on it: the overload line, or what it carried before."""
        line = [value if limit else UNLIMITED for value, limit in zip(self.overload_limit, self.limit, strict=True)]
        return vector(max(pair) for pair in zip(line, self.used, strict=True))

    def is_overloaded(self, load: Vector) -> bool:
        return any(
            limit and value > line for value, line, limit in zip(load, self.overload_limit, self.limit, strict=True)
        )

    def height(self, load: Vector) -> int:
        """The load of its fullest resource against the end of its band, in parts per billion; 0 without a band."""
        return max(value * PPB // band if band else 0 for value, band in zip(load, self.band_limit, strict=True))


@dataclass(frozen=True, slots=True)
class PooledMove:
    """A move with the names of its brokers and its pool, and what it costs the clients."""

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
    def is_urgent(self) -> bool:
        """Whether it is for more than balance: its owner may not keep the bundle, or is overloaded."""
        return self.move.is_repair or self.move.leaves_overloaded_owner


def collect_brokers(pool_plans: Iterable[PoolPlan]) -> dict[str, ClusterBroker]:
    """Add up what the pools say about each broker, in order of name."""
    seen: dict[str, list[tuple[PoolPlan, BrokerLoad]]] = {}
    for plan in pool_plans:
        for broker in plan.brokers:
            seen.setdefault(broker.broker_id, []).append((plan, broker))
    return {name: _add_up(rows) for name, rows in sorted(seen.items())}


def collect_moves(pool_plans: Sequence[PoolPlan], settings: Settings) -> list[PooledMove]:
    """The moves of all pools with their prices."""
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


def plus(left: Vector, right: Vector) -> Vector:
    return left[0] + right[0], left[1] + right[1], left[2] + right[2]


def minus(left: Vector, right: Vector) -> Vector:
    return left[0] - right[0], left[1] - right[1], left[2] - right[2]


def is_within(load: Vector, ceiling: Vector) -> bool:
    return load[0] <= ceiling[0] and load[1] <= ceiling[1] and load[2] <= ceiling[2]


def _add_up(rows: Sequence[tuple[PoolPlan, BrokerLoad]]) -> ClusterBroker:
    # Only the pool that the broker belongs to knows its band; what others put on it is load all the same.
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
        topics=sum(row.topics for _, row in rows),
        largest=tuple(
            tuple(sorted((load for _, row in rows for load in row.largest[resource]), reverse=True))
            for resource in range(len(RESOURCES))
        ),
    )
