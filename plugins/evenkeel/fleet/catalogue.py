"""Which bundles exist now, and which topics lie in them; splits change it while the fleet runs."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

from evenkeel.fleet.layout import Topic
from evenkeel.model.bundles import BundleName, ranges_between
from evenkeel.pulsar.topic_hash import find_range


class BundleCatalogue:
    """The bundles of all namespaces by their boundaries; safe to use from several threads."""

    def __init__(self, topics: Sequence[Topic], boundaries: Mapping[str, Sequence[int]]) -> None:
        self._lock = threading.Lock()
        self.topics = tuple(topics)
        self._topics_by_namespace: dict[str, list[int]] = {}
        for index, topic in enumerate(self.topics):
            self._topics_by_namespace.setdefault(BundleName.parse(topic.bundle).namespace, []).append(index)
        self._boundaries: dict[str, tuple[int, ...]] = {}
        self._topics_by_bundle: dict[str, tuple[int, ...]] = {}
        self.generation = 0
        for namespace, points in boundaries.items():
            self.set_boundaries(namespace, points)

    def set_boundaries(self, namespace: str, points: Sequence[int]) -> None:
        """Cut a namespace anew; its topics fall into the bundles that now hold their hashes."""
        with self._lock:
            if self._boundaries.get(namespace) == tuple(points):
                return
            for part in ranges_between(self._boundaries.get(namespace, ())):
                self._topics_by_bundle.pop(f"{namespace}/{part}", None)
            members: dict[str, list[int]] = {f"{namespace}/{part}": [] for part in ranges_between(points)}
            for index in self._topics_by_namespace.get(namespace, ()):
                members[f"{namespace}/{find_range(points, self.topics[index].hash)}"].append(index)
            self._topics_by_bundle |= {bundle: tuple(indexes) for bundle, indexes in members.items()}
            self._boundaries[namespace] = tuple(points)
            self.generation += 1

    def boundaries(self, namespace: str) -> tuple[int, ...] | None:
        """The boundaries of a namespace, or None where there is no such namespace."""
        with self._lock:
            return self._boundaries.get(namespace)

    def bundles(self) -> dict[str, tuple[int, ...]]:
        """All bundles, each with the indexes of its topics."""
        with self._lock:
            return dict(self._topics_by_bundle)

    def topics_of(self, bundle: str) -> tuple[Topic, ...]:
        """The topics of a bundle; none for a bundle that does not exist."""
        return tuple(self.topics[index] for index in self.topic_indexes_of(bundle))

    def topic_indexes_of(self, bundle: str) -> tuple[int, ...]:
        with self._lock:
            return self._topics_by_bundle.get(bundle, ())

    def has(self, bundle: str) -> bool:
        with self._lock:
            return bundle in self._topics_by_bundle
