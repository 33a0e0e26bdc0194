"""What brokers carry while a plan is under way, at worst: all that a wave brings has come, nothing has left yet."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

from evenkeel.model.settings import Settings
from evenkeel.planning.ordering.cluster_brokers import ClusterBroker, PooledMove, is_within, minus, plus


class Occupancy:
    """Load, topics and anti-affinity groups of every broker, as the waves go on.

    A move that has room in this view may be done before or after any other move of its wave, or not at all.
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
        """Whether no line, limit or peak is exceeded with this move on top of everything that has come."""
        destination = move.destination
        return (
            is_within(plus(self._load[destination], move.move.load), self._ceiling[destination])
            and self._topics[destination] + move.move.topics < self._topic_limit
            and (move.move.group is None or self._has_room_for_group(move.move.group, move))
        )

    def arrive(self, move: PooledMove) -> None:
        """The bundle is on its destination, and may still be on its source."""
        self._load[move.destination] = plus(self._load[move.destination], move.move.load)
        self._topics[move.destination] += move.move.topics
        self._count_group(move, move.destination, 1)

    def leave(self, moves: Iterable[PooledMove]) -> None:
        """A wave has settled: its bundles have left their sources."""
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
        # A bundle that stays within its domain is there once, wherever it is.
        if self._changes_domain(move):
            self._in_domain[group, self._domain[broker]] += count

    def _changes_domain(self, move: PooledMove) -> bool:
        return self._domain[move.source] != self._domain[move.destination]


def _peaks(counts: Mapping[tuple[str, str], int]) -> dict[str, int]:
    peaks: dict[str, int] = {}
    for (group, _), count in counts.items():
        peaks[group] = max(peaks.get(group, 0), count)
    return peaks
