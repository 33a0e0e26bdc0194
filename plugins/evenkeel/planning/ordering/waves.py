"""Cuts ordered moves into waves, each of which is legal for any subset and any order of its steps."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from evenkeel.model.settings import Settings
from evenkeel.planning.ordering.budgets import WAVE_BUDGETS, Ledger, cost_of
from evenkeel.planning.ordering.cluster_brokers import PooledMove
from evenkeel.planning.ordering.occupancy import Occupancy


@dataclass(frozen=True, slots=True)
class Waves:
    """Places in the given order, wave by wave, and those for which no legal wave was found."""

    waves: tuple[tuple[int, ...], ...]
    impossible: tuple[int, ...]


def cut_waves(moves: Sequence[PooledMove], occupancy: Occupancy, settings: Settings) -> Waves:
    """Fill the canary with the cheapest moves, then wave after wave in the given order.

    A move enters a wave only if there is room for it with everything that the wave brings, and without what the wave
    takes away: then it does not matter which steps succeed, and in which order. What has to wait is passed over.
    """
    waiting = _Waiting(moves)
    waves: list[tuple[int, ...]] = []
    while len(waiting):
        size = settings.wave_steps if waves else settings.canary_steps
        wave = _Wave(moves, waiting, occupancy, settings, size)
        if waves:
            wave.fill(waiting.lane_heads())
        else:
            wave.fill(sorted(waiting, key=lambda place: (moves[place].client_ms, place)))
        if not wave.places:
            # The first move of each lane has to wait; one behind it may be smaller.
            wave.fill(list(waiting))
        if not wave.places:
            break
        occupancy.leave(moves[place] for place in wave.places)
        waves.append(tuple(wave.places))
    return Waves(tuple(waves), tuple(waiting))


class _Wave:
    """A wave under construction."""

    def __init__(
        self, moves: Sequence[PooledMove], waiting: _Waiting, occupancy: Occupancy, settings: Settings, size: int
    ) -> None:
        self.places: list[int] = []
        self._moves, self._waiting, self._occupancy, self._size = moves, waiting, occupancy, size
        self._budget = Ledger(WAVE_BUDGETS, settings)
        self._always = settings.wave_broker_share * size
        self._moves_left = len(waiting)
        self._gives: Counter[str] = Counter()
        self._takes: Counter[str] = Counter()

    def fill(self, candidates: Iterable[int]) -> None:
        """Take what may go, until the wave has its size or the next move is beyond its budget."""
        for place in candidates:
            if len(self.places) == self._size:
                return
            move = self._moves[place]
            if not self._may_go(move):
                continue
            cost = cost_of(move)
            if self._budget.refusal(cost) is not None:
                return
            self._budget.spend(cost)
            self._occupancy.arrive(move)
            self._gives[move.source] += 1
            self._takes[move.destination] += 1
            self._waiting.remove(place)
            self.places.append(place)

    def _may_go(self, move: PooledMove) -> bool:
        """Whether both brokers have their share left, and the destination has room whatever else happens."""
        return (
            self._has_share(self._gives[move.source], self._waiting.sources[move.source])
            and self._has_share(self._takes[move.destination], self._waiting.destinations[move.destination])
            and self._occupancy.has_room(move)
        )

    def _has_share(self, taken: int, waiting: int) -> bool:
        """Whether a broker may have one more: up to the set share, or its part if its moves were spread evenly."""
        return taken < self._always or taken * self._moves_left < (taken + waiting) * self._size


class _Waiting:
    """The moves that are in no wave yet, in their order.

    A lane is the queue of the moves from one broker to another. Where its first move has to wait, so do those behind
    it, which saves looking at each of them for each wave.
    """

    def __init__(self, moves: Sequence[PooledMove]) -> None:
        self._moves = moves
        self._is_gone = [False] * len(moves)
        self._left = len(moves)
        self.sources = Counter(move.source for move in moves)
        self.destinations = Counter(move.destination for move in moves)
        self._lanes: dict[tuple[str, str], deque[int]] = {}
        for place, move in enumerate(moves):
            self._lanes.setdefault((move.source, move.destination), deque()).append(place)
        self._heads = [(lane[0], name) for name, lane in self._lanes.items()]
        heapq.heapify(self._heads)
        self._passed_over: list[tuple[int, tuple[str, str]]] = []

    def __len__(self) -> int:
        return self._left

    def __iter__(self) -> Iterator[int]:
        return (place for place, is_gone in enumerate(self._is_gone) if not is_gone)

    def remove(self, place: int) -> None:
        move = self._moves[place]
        self._is_gone[place] = True
        self._left -= 1
        for counts, broker in ((self.sources, move.source), (self.destinations, move.destination)):
            counts[broker] -= 1
            if not counts[broker]:
                del counts[broker]

    def lane_heads(self) -> Iterator[int]:
        """The first move of each lane in order, and once it was removed the next of that lane."""
        for head in self._passed_over:
            heapq.heappush(self._heads, head)
        self._passed_over = []
        while self._heads:
            place, name = self._heads[0]
            if self._is_gone[place]:
                self._advance(name)
                continue
            yield place
            if not self._is_gone[place]:
                self._passed_over.append(heapq.heappop(self._heads))

    def _advance(self, name: tuple[str, str]) -> None:
        lane = self._lanes[name]
        while lane and self._is_gone[lane[0]]:
            lane.popleft()
        if lane:
            heapq.heapreplace(self._heads, (lane[0], name))
        else:
            heapq.heappop(self._heads)
