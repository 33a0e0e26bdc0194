"""Cut ordered moves into waves, each of which is legal for any subset and any order of its steps."""

from __future__ import annotations

import heapq
from collections import Counter, deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from evenkeel.model.settings import Settings
from evenkeel.planning.cluster.cluster_brokers import ClusterBroker, PooledMove, is_within, minus, plus
from evenkeel.planning.problem.budgets import WAVE_BUDGETS, Ledger


@dataclass(frozen=True, slots=True)
class Waves:
    """Moves by wave, as positions in the given order, and the moves for which no legal wave was found."""

    waves: tuple[tuple[int, ...], ...]
    impossible: tuple[int, ...]


def cut_waves(moves: Sequence[PooledMove], occupancy: Occupancy, settings: Settings) -> Waves:
    """Fill the canary with the cheapest moves, then wave after wave in the given order.

    A move joins a wave only if its destination has room even when everything else in the wave has arrived and nothing
    has left. Then it does not matter which steps succeed, and in which order. Moves that have to wait are skipped.
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
            # The first move of every lane has to wait, but one behind it may be smaller.
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
        """Add moves until the wave has its size or the next move exceeds its budget."""
        for place in candidates:
            if len(self.places) == self._size:
                return
            move = self._moves[place]
            if not self._may_go(move):
                continue
            cost = move.cost
            if self._budget.refusal(cost) is not None:
                return
            self._budget.spend(cost)
            self._occupancy.arrive(move)
            self._gives[move.source] += 1
            self._takes[move.destination] += 1
            self._waiting.remove(place)
            self.places.append(place)

    def _may_go(self, move: PooledMove) -> bool:
        """Whether both brokers have a share of the wave left, and the destination has room in the worst case."""
        return (
            self._has_share(self._gives[move.source], self._waiting.sources[move.source])
            and self._has_share(self._takes[move.destination], self._waiting.destinations[move.destination])
            and self._occupancy.has_room(move)
        )

    def _has_share(self, taken: int, waiting: int) -> bool:
        """Whether a broker may take part once more: up to the configured share, or its proportional share if larger."""
        return taken < self._always or taken * self._moves_left < (taken + waiting) * self._size


class _Waiting:
    """The moves that are in no wave yet, in their order.

    A lane is the queue of the moves from one broker to another. If its first move has to wait, so do those behind it,
    which saves checking each of them for each wave.
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
        """Iterate over the first move of each lane, in order; once it is removed, the next of that lane follows."""
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


class Occupancy:
    """Load, topics and anti-affinity groups of every broker during a wave, in the worst case.

    The worst case is that everything in the wave has arrived and nothing has left yet. A move that has room then may
    be carried out before or after any other move of its wave, or not at all.
    """

    def __init__(
        self, brokers: Mapping[str, ClusterBroker], groups: Mapping[tuple[str, str], int], settings: Settings
    ) -> None:
        """`groups` counts the bundles by group and broker id."""
        self._domain = {name: broker.domain for name, broker in brokers.items()}
        self._load = {name: broker.used for name, broker in brokers.items()}
        self._ceiling = {name: broker.hard_ceiling for name, broker in brokers.items()}
        self._topics = {name: broker.topics for name, broker in brokers.items()}
        self._topic_limit = settings.broker_max_topics
        self._on_broker = Counter(groups)
        self._in_domain: Counter[tuple[str, str]] = Counter()
        for (group, name), count in groups.items():
            self._in_domain[group, self._domain[name]] += count
        self._broker_peaks, self._domain_peaks = _peaks(self._on_broker), _peaks(self._in_domain)

    def has_room(self, move: PooledMove) -> bool:
        """Whether this move on top of all arrivals exceeds no overload line, topic limit or group peak."""
        destination = move.destination
        return (
            is_within(plus(self._load[destination], move.move.load), self._ceiling[destination])
            and self._topics[destination] + move.move.topics < self._topic_limit
            and (move.move.group is None or self._has_room_for_group(move.move.group, move))
        )

    def arrive(self, move: PooledMove) -> None:
        """Count a bundle on its destination; it may still be on its source."""
        self._load[move.destination] = plus(self._load[move.destination], move.move.load)
        self._topics[move.destination] += move.move.topics
        self._count_group(move, move.destination, 1)

    def leave(self, moves: Iterable[PooledMove]) -> None:
        """Take the bundles of a settled wave off their sources."""
        for move in moves:
            self._load[move.source] = minus(self._load[move.source], move.move.load)
            self._topics[move.source] -= move.move.topics
            self._count_group(move, move.source, -1)

    def _has_room_for_group(self, group: str, move: PooledMove) -> bool:
        if self._on_broker[group, move.destination] + 1 > self._broker_peaks[group]:
            return False
        domain = self._domain[move.destination]
        return not self._changes_domain(move) or self._in_domain[group, domain] + 1 <= self._domain_peaks[group]

    def _count_group(self, move: PooledMove, broker: str, count: int) -> None:
        group = move.move.group
        if group is None:
            return
        self._on_broker[group, broker] += count
        # A bundle that stays within its domain counts once there.
        if self._changes_domain(move):
            self._in_domain[group, self._domain[broker]] += count

    def _changes_domain(self, move: PooledMove) -> bool:
        return self._domain[move.source] != self._domain[move.destination]


def _peaks(counts: Mapping[tuple[str, str], int]) -> dict[str, int]:
    peaks: dict[str, int] = {}
    for (group, _), count in counts.items():
        peaks[group] = max(peaks.get(group, 0), count)
    return peaks
