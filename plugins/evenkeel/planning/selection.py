"""Chooses which moves of all pools fit the step budget, and orders them totally into waves."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evenkeel.model.settings import Settings
from evenkeel.planning.arrays import UNLIMITED
from evenkeel.planning.pool_plan import BrokerLoad, Move, PoolPlan, Vector, vector
from evenkeel.planning.waves import Transfer, cut_waves, is_within, plus

STEP_BUDGET = "step-budget"
WAVE_ORDER = "wave-order"


@dataclass(frozen=True, slots=True)
class ClusterBroker:
    """A broker with the load of all pools; `pool` is empty where no pool plan has it as a member."""

    broker_id: str
    pool: str
    incarnation: int | None
    domain: str
    limit: Vector
    band_limit: Vector
    overload_limit: Vector
    used: Vector

    @property
    def band_ceiling(self) -> Vector:
        """The most that moves for balance may leave on it."""
        band = [value if limit else UNLIMITED for value, limit in zip(self.band_limit, self.limit, strict=True)]
        return vector(max(pair) for pair in zip(band, self.used, strict=True))

    @property
    def hard_ceiling(self) -> Vector:
        """The most that may ever be on it: the overload line, or what it carried before."""
        line = [value if limit else UNLIMITED for value, limit in zip(self.overload_limit, self.limit, strict=True)]
        return vector(max(pair) for pair in zip(line, self.used, strict=True))


@dataclass(frozen=True, slots=True)
class PooledMove:
    """A move with the names of its brokers and its pool."""

    pool: str
    source: str
    destination: str
    move: Move

    @property
    def urgency(self) -> tuple[bool, bool, int, str]:
        """The total order of moves: repairs first, then relief from overload, then by benefit, then by name."""
        move = self.move
        return not move.is_repair, not move.leaves_overloaded_owner, -move.benefit_ppb, move.bundle


@dataclass(frozen=True, slots=True)
class Selection:
    """Moves wave by wave, and those that were dropped, with the rule that dropped them."""

    waves: tuple[tuple[PooledMove, ...], ...]
    dropped: tuple[tuple[PooledMove, str], ...]


def collect_brokers(pool_plans: Iterable[PoolPlan]) -> dict[str, ClusterBroker]:
    """Add up what the pools say about each broker, in order of name."""
    seen: dict[str, tuple[str, BrokerLoad]] = {}
    used: dict[str, Vector] = {}
    for plan in pool_plans:
        for broker in plan.brokers:
            used[broker.broker_id] = plus(used.get(broker.broker_id, (0, 0, 0)), broker.used)
            if broker.is_member or broker.broker_id not in seen:
                seen[broker.broker_id] = (plan.pool if broker.is_member else "", broker)
    return {
        name: ClusterBroker(
            name,
            pool,
            broker.incarnation,
            broker.domain,
            broker.limit,
            broker.band_limit,
            broker.overload_limit,
            used[name],
        )
        for name, (pool, broker) in sorted(seen.items())
    }


def select(pool_plans: Iterable[PoolPlan], brokers: Mapping[str, ClusterBroker], settings: Settings) -> Selection:
    """Keep the most urgent moves within the budget, drop what the cut made harmful, and cut waves."""
    moves = sorted(_pooled(pool_plans), key=lambda move: move.urgency)
    kept, dropped = moves[: settings.max_steps], [(move, STEP_BUDGET) for move in moves[settings.max_steps :]]
    used = {name: broker.used for name, broker in brokers.items()}
    ceiling = {name: broker.hard_ceiling for name, broker in brokers.items()}
    rule = STEP_BUDGET
    while True:
        kept, harmful = _without_harm(kept, brokers)
        dropped += [(move, rule) for move in harmful]
        transfers = [Transfer(move.source, move.destination, move.move.load) for move in kept]
        cut = cut_waves(transfers, used, ceiling, settings)
        if not cut.impossible:
            waves = tuple(tuple(kept[place] for place in wave) for wave in cut.waves)
            return Selection(waves, tuple(dropped))
        rule = WAVE_ORDER
        dropped += [(kept[place], rule) for place in cut.impossible]
        impossible = set(cut.impossible)
        kept = [move for place, move in enumerate(kept) if place not in impossible]


def loads_after(brokers: Mapping[str, ClusterBroker], moves: Iterable[PooledMove]) -> dict[str, Vector]:
    """The load of every broker once these moves are done."""
    after = {name: list(broker.used) for name, broker in brokers.items()}
    for move in moves:
        for resource, load in enumerate(move.move.load):
            after[move.source][resource] -= load
            after[move.destination][resource] += load
    return {name: vector(load) for name, load in after.items()}


def _pooled(pool_plans: Iterable[PoolPlan]) -> list[PooledMove]:
    return [
        PooledMove(plan.pool, plan.brokers[move.source].broker_id, plan.brokers[move.destination].broker_id, move)
        for plan in pool_plans
        for move in plan.moves
    ]


def _is_urgent(move: PooledMove) -> bool:
    return move.move.is_repair or move.move.leaves_overloaded_owner


def _without_harm(
    moves: Sequence[PooledMove], brokers: Mapping[str, ClusterBroker]
) -> tuple[list[PooledMove], list[PooledMove]]:
    """Drop moves into brokers that lost the relief they were to get, least urgent first, until none is worse off."""
    after = loads_after(brokers, moves)
    # Repairs and relief from overload may fill a broker beyond its band; what is done for balance may not add to it.
    urgent = loads_after(brokers, [move for move in moves if _is_urgent(move)])
    arrivals: dict[str, list[tuple[int, PooledMove]]] = {}
    for place, move in enumerate(moves):
        arrivals.setdefault(move.destination, []).append((place, move))
    dropped: set[int] = set()
    doubtful = list(arrivals)
    heapq.heapify(doubtful)
    while doubtful:
        name = heapq.heappop(doubtful)
        while arrivals.get(name):
            place, move = arrivals[name][-1]
            ceiling = brokers[name].hard_ceiling
            if not _is_urgent(move):
                ceiling = vector(max(pair) for pair in zip(brokers[name].band_ceiling, urgent[name], strict=True))
            if is_within(after[name], ceiling):
                break
            arrivals[name].pop()
            dropped.add(place)
            after[name] = vector(value - load for value, load in zip(after[name], move.move.load, strict=True))
            # What stays with its owner may be too much for the owner now.
            after[move.source] = plus(after[move.source], move.move.load)
            heapq.heappush(doubtful, move.source)
    kept = [move for place, move in enumerate(moves) if place not in dropped]
    return kept, [moves[place] for place in sorted(dropped)]
