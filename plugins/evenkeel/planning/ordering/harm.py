"""Drops moves that would do harm because others, which were to make room for them, are left out."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

from evenkeel.planning.ordering.cluster_brokers import ClusterBroker, PooledMove, is_within, loads_after, minus, plus
from evenkeel.planning.pool_plan import Vector, vector

FOREIGN_LOAD = "foreign-load"

Dropped = tuple[PooledMove, str]


def drop_harmful(
    moves: Sequence[PooledMove], dropped: Iterable[Dropped], brokers: Mapping[str, ClusterBroker]
) -> tuple[list[PooledMove], list[Dropped]]:
    """Drop moves into brokers that lost the relief they were to get, least urgent first, until none is worse off.

    Each goes by the rule by which the relief of its destination was dropped. Where none was dropped, it is the load
    of other pools' bundles, of which the pool's own plan does not know whether they leave.
    """
    after = loads_after(brokers, moves)
    ceilings = _Ceilings(moves, brokers)
    rules: dict[str, str] = {}
    for move, rule in dropped:
        rules.setdefault(move.source, rule)
    arrivals: dict[str, list[int]] = defaultdict(list)
    for place, move in enumerate(moves):
        arrivals[move.destination].append(place)
    harmful: dict[int, str] = {}
    doubtful = sorted(arrivals)
    while doubtful:
        name = heapq.heappop(doubtful)
        while arrivals[name]:
            place = arrivals[name][-1]
            move = moves[place]
            if is_within(after[name], ceilings.of(move)):
                break
            arrivals[name].pop()
            harmful[place] = rules.get(name, FOREIGN_LOAD)
            after[name] = minus(after[name], move.move.load)
            # What stays with its owner may be too much for the owner now.
            after[move.source] = plus(after[move.source], move.move.load)
            rules.setdefault(move.source, harmful[place])
            heapq.heappush(doubtful, move.source)
    kept = [move for place, move in enumerate(moves) if place not in harmful]
    return kept, [(moves[place], rule) for place, rule in sorted(harmful.items())]


class _Ceilings:
    """How full a move may leave its destination."""

    def __init__(self, moves: Sequence[PooledMove], brokers: Mapping[str, ClusterBroker]) -> None:
        self._hard = {name: broker.hard_ceiling for name, broker in brokers.items()}
        # Repairs and relief from overload may fill a broker beyond its band; what is for balance may not add to it.
        urgent = loads_after(brokers, [move for move in moves if move.is_urgent])
        self._soft = {
            name: vector(max(pair) for pair in zip(broker.band_ceiling, urgent[name], strict=True))
            for name, broker in brokers.items()
        }

    def of(self, move: PooledMove) -> Vector:
        return self._hard[move.destination] if move.is_urgent else self._soft[move.destination]
