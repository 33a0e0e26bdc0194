"""Where the modular manager would put a bundle of a simulated cluster: its filters, then the lowest message rate.

The rules work on arrays, because a strategy that never stops places a bundle tens of thousands of times. Tests compare
them with a plain version of the same rules that agrees with recorded decisions of Pulsar's classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from evenkeel.model.errors import InputError
from evenkeel.model.load import MILLI
from evenkeel.model.pulsar_settings import PulsarSettings
from evenkeel.model.snapshot import Broker
from evenkeel.planning.problem.columns import Bools, Floats, Ints
from evenkeel.planning.problem.receiving import may_serve
from evenkeel.planning.pulsar_strategies.simulated_cluster import SimulatedCluster
from evenkeel.pulsar_rules.eligibility import SYSTEM_NAMESPACE
from evenkeel.pulsar_rules.placement import Chooser, VersionKey, version_key

UNREADABLE = -1


class _Allowed(NamedTuple):
    """The brokers that isolation policies allow, and how many there are."""

    brokers: Bools
    size: int


class SimulatedPlacement:
    """Chooses new owners; bundles that the current cycle has placed count as on their way until the next cycle."""

    def __init__(self, cluster: SimulatedCluster, settings: PulsarSettings, choose: Chooser) -> None:
        self._cluster = cluster
        self._settings = settings
        self._choose = choose
        self._size = len(cluster.broker_ids)
        self._allowed_by_policy: dict[str | None, _Allowed] = {}
        self._namespace_counts: dict[str, Ints] = {}
        self._group_serving: dict[str, Ints] = {}
        self._version_rank = _rank_versions(cluster.brokers) if settings.prefer_later_versions else None
        names = sorted(set(cluster.groups.values()))
        self._members = {group: [name for name, its in cluster.groups.items() if its == group] for group in names}
        domains = [cluster.domains.get(broker, "") for broker in cluster.broker_ids]
        self._domain = np.unique(domains, return_inverse=True)[1] if settings.failure_domains_enabled else None
        self.begin_cycle()

    def begin_cycle(self) -> None:
        """Read the load reports again."""
        self._is_overloaded: Bools = (
            self._cluster.weighted_usage(self._settings, counts_heap=False)
            > self._settings.broker_overloaded_threshold_percentage / 100
        )
        self._topics: Ints = self._cluster.topics()
        self._can_exceed_topic_limit = int(self._topics.sum()) > self._settings.broker_max_topics
        self._scores: Floats = np.where(self._is_overloaded, np.inf, self._cluster.msg_rates())

    def select(self, row: int) -> int | None:
        """The broker that an unloaded bundle would go to; None if it would return to its owner."""
        owner, namespace = int(self._cluster.owner[row]), str(self._cluster.bundles.namespace[row])
        allowed = self._find_allowed(namespace)
        has_another = allowed.size > (1 if allowed.brokers[owner] else 0)
        if not has_another or not self._may_leave(namespace, owner, allowed.brokers):
            return None
        chosen = self._draw(self._filter(namespace, allowed.brokers))
        if self._is_overloaded[chosen]:
            chosen = self._draw(allowed.brokers)
        return None if chosen == owner else chosen

    def place(self, row: int, destination: int) -> None:
        """Move a bundle and count it as on its way for the rest of the cycle."""
        namespace, owner = str(self._cluster.bundles.namespace[row]), int(self._cluster.owner[row])
        counts, serving = self._count(namespace), self._group_counts(namespace)
        counts[owner] -= 1
        counts[destination] += 1
        if serving is not None:
            serving[owner] -= counts[owner] == 0
            serving[destination] += counts[destination] == 1
        self._scores[destination] += self._cluster.bundles.msg_rate_millis[row] / MILLI
        self._topics[destination] += self._cluster.bundles.topics[row]
        self._cluster.move(row, destination)

    def _filter(self, namespace: str, allowed: Bools) -> Bools:
        left = allowed
        if self._can_exceed_topic_limit:
            below = allowed & (self._topics <= self._settings.broker_max_topics)
            left = below if below.any() else allowed
        owned = self._group_counts(namespace)
        if owned is not None:
            if self._domain is not None and self._cluster.domains:
                of_domain = np.bincount(self._domain, weights=owned * left)
                fewest = of_domain[np.unique(self._domain[left])].min()
                left = left & (of_domain[self._domain] == fewest)
            left = _keep_least(left, owned)
        if self._settings.distribute_bundles_evenly_enabled or namespace == SYSTEM_NAMESPACE:
            left = _keep_least(left, self._count(namespace))
        if self._version_rank is not None:
            latest = _keep_latest(left, self._version_rank)
            left = latest if latest.any() else allowed
        return left

    def _draw(self, candidates: Bools) -> int:
        scores = np.where(candidates, self._scores, np.inf)
        lowest = scores.min()
        # If all candidates are overloaded, Pulsar draws among all of them.
        best = np.flatnonzero(candidates if lowest == np.inf else scores == lowest)
        if len(best) == 1:
            return int(best[0])
        names = [self._cluster.broker_ids[broker] for broker in best]
        return int(best[names.index(self._choose(names))])

    def _may_leave(self, namespace: str, owner: int, allowed: Bools) -> bool:
        owned = self._group_counts(namespace)
        if owned is None or not owned.any():
            return True
        counts = owned[allowed]
        of_owner = owned[owner] if allowed[owner] else 0
        return bool(counts.min() == 0 or of_owner > counts.min() or (counts != counts.min()).any())

    def _find_allowed(self, namespace: str) -> _Allowed:
        policy = self._cluster.eligibility.policy_of(namespace)
        if policy not in self._allowed_by_policy:
            eligible = self._cluster.eligibility.brokers_for(namespace)
            allowed = np.array(
                [broker.broker_id in eligible and may_serve(broker, policy) for broker in self._cluster.brokers],
                dtype=bool,
            )
            self._allowed_by_policy[policy] = _Allowed(allowed, int(allowed.sum()))
        return self._allowed_by_policy[policy]

    def _count(self, namespace: str) -> Ints:
        """The bundles of a namespace on each broker."""
        if namespace not in self._namespace_counts:
            owners = self._cluster.owner[self._cluster.rows_by_namespace.get(namespace, [])]
            counts = np.bincount(owners[owners >= 0], minlength=self._size).astype(np.int64)
            self._namespace_counts[namespace] = counts
        return self._namespace_counts[namespace]

    def _group_counts(self, namespace: str) -> Ints | None:
        """How many namespaces of the anti-affinity group each broker serves; None if the namespace has no group."""
        group = self._cluster.groups.get(namespace)
        if group is None:
            return None
        if group not in self._group_serving:
            serving = [self._count(name) > 0 for name in self._members[group]]
            self._group_serving[group] = np.sum(serving, axis=0, dtype=np.int64)
        return self._group_serving[group]


def _keep_least(candidates: Bools, counts: Ints) -> Bools:
    kept: Bools = candidates & (counts == counts[candidates].min())
    return kept


def _rank_versions(brokers: Sequence[Broker]) -> Ints:
    """Each broker's rank in the order of versions; `UNREADABLE` if its version cannot be parsed."""
    keys: list[VersionKey | None] = []
    for broker in brokers:
        try:
            keys.append(version_key(broker.version))
        except InputError:
            keys.append(None)
    known = sorted({key for key in keys if key is not None})
    return np.array([UNREADABLE if key is None else known.index(key) for key in keys], dtype=np.int64)


def _keep_latest(candidates: Bools, version_rank: Ints) -> Bools:
    """The candidates with the newest version; none if a version cannot be parsed: then the filters start over."""
    ranks = version_rank[candidates]
    if (ranks == UNREADABLE).any():
        return np.zeros_like(candidates)
    kept: Bools = candidates & (version_rank == ranks.max())
    return kept
