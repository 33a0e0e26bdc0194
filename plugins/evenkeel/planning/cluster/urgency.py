"""Order the moves of all pools by urgency, so that a plan may be cut short anywhere.

Repairs come first, then moves off brokers that are above the overload line at that point, then all others. Within each
kind, the next move leaves the broker that is furthest above its band by then, and of its moves the one that takes off
the most load. So every prefix of the order gives the most balance for its number of moves.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable, Mapping
from enum import IntEnum

from evenkeel.planning.cluster.cluster_brokers import ClusterBroker, PooledMove, minus, plus


class Urgency(IntEnum):
    """What a move is for, most urgent first."""

    REPAIR = 0
    RELIEF = 1
    BALANCE = 2


# The waiting moves of one broker: either its repairs or its other moves.
_Lane = tuple[bool, str]


def order_by_urgency(moves: Iterable[PooledMove], brokers: Mapping[str, ClusterBroker]) -> list[PooledMove]:
    """Sort moves by urgency; ties are broken by price, then by name."""
    queue = _Queue(moves, brokers)
    ordered = []
    while (move := queue.next()) is not None:
        ordered.append(move)
    return ordered


class _Queue:
    """The waiting moves by source, and the load of the brokers after the moves taken so far."""

    def __init__(self, moves: Iterable[PooledMove], brokers: Mapping[str, ClusterBroker]) -> None:
        self._brokers = brokers
        self._used = {name: broker.used for name, broker in brokers.items()}
        self._height = {name: broker.height(broker.used) for name, broker in brokers.items()}
        self._waiting: dict[_Lane, deque[PooledMove]] = {}
        for move in sorted(moves, key=lambda m: (-m.move.benefit_ppb, m.client_ms, m.move.bundle)):
            self._waiting.setdefault((move.move.is_repair, move.source), deque()).append(move)
        # The most urgent lane is on top; an entry whose broker has changed since is pushed again with its new rank.
        self._heap = [(*self._rank(lane), lane) for lane in self._waiting]
        heapq.heapify(self._heap)

    def next(self) -> PooledMove | None:
        while self._heap:
            urgency, height, lane = heapq.heappop(self._heap)
            if not self._waiting[lane]:
                continue
            if (urgency, height) != self._rank(lane):
                self._enter(lane)
                continue
            move = self._next_of(lane)
            self._waiting[move.move.is_repair, move.source].popleft()
            self._apply(move)
            self._enter(lane)
            return move
        return None

    def _rank(self, lane: _Lane) -> tuple[Urgency, int]:
        is_repair, source = lane
        if is_repair:
            urgency = Urgency.REPAIR
        else:
            urgency = Urgency.RELIEF if self._brokers[source].is_overloaded(self._used[source]) else Urgency.BALANCE
        return urgency, -self._height[source]

    def _next_of(self, lane: _Lane) -> PooledMove:
        """The lane's first move, or the move off its destination that has to come first to keep the peak down."""
        move = self._waiting[lane][0]
        destination = move.destination
        before_it = self._waiting.get((move.move.is_repair, destination))
        rises_to = self._brokers[destination].height(plus(self._used[destination], move.move.load))
        return before_it[0] if before_it and rises_to > self._height[move.source] else move

    def _apply(self, move: PooledMove) -> None:
        for name, change in ((move.source, minus), (move.destination, plus)):
            self._used[name] = change(self._used[name], move.move.load)
            self._height[name] = self._brokers[name].height(self._used[name])
        # The destination may have become the highest broker.
        for is_repair in (True, False):
            self._enter((is_repair, move.destination))

    def _enter(self, lane: _Lane) -> None:
        if self._waiting.get(lane):
            heapq.heappush(self._heap, (*self._rank(lane), lane))
