"""Count the bundles of anti-affinity groups, per failure domain and per broker."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from evenkeel.model.policies import Policies
from evenkeel.model.snapshot import Broker
from evenkeel.planning.problem.columns import Bools, Ints

DEFAULT_DOMAIN = "default"
NO_GROUP = -1


def group_of(namespace: str, policies: Policies) -> str | None:
    """The anti-affinity group of a namespace in lower case, because Pulsar ignores case here."""
    group = policies.anti_affinity.get(namespace)
    return group.lower() if group else None


def domains_of(brokers: Sequence[Broker], policies: Policies) -> tuple[str, ...]:
    """Each broker's failure domain: from the policies, else from the broker itself, else Pulsar's default."""
    listed = {
        broker: domain for domain in sorted(policies.failure_domains) for broker in policies.failure_domains[domain]
    }
    return tuple(listed.get(b.broker_id) or b.failure_domain or DEFAULT_DOMAIN for b in brokers)


class GroupCounts:
    """How many bundles of each group every failure domain and broker owns, and how many they may own at most.

    Neither peak of a group may rise. Arrivals are counted but departures are not, so that the counts hold for any
    subset and any order of the moves.
    """

    def __init__(self, group: Ints, owner: Ints, domain: Ints) -> None:
        """`group` and `owner` are per bundle, `domain` is per broker; all are indices."""
        self._domain = domain
        grouped = group != NO_GROUP
        groups, domains = int(group.max(initial=NO_GROUP)) + 1, int(domain.max(initial=0)) + 1
        self._per_broker = np.zeros((groups, len(domain)), dtype=np.int64)
        self._per_domain = np.zeros((groups, domains), dtype=np.int64)
        np.add.at(self._per_broker, (group[grouped], owner[grouped]), 1)
        np.add.at(self._per_domain, (group[grouped], domain[owner[grouped]]), 1)
        self._broker_peaks = self._per_broker.max(axis=1, initial=0)
        self._domain_peaks = self._per_domain.max(axis=1, initial=0)

    def add(self, group: int, source: int, broker: int, count: int = 1) -> None:
        """Count a bundle that moves from `source` to `broker`; a count of -1 reverts that."""
        self._per_broker[group, broker] += count
        if self._domain[source] != self._domain[broker]:
            self._per_domain[group, self._domain[broker]] += count

    def has_room(self, group: int, source: int) -> Bools:
        """For each broker, whether one more bundle from `source` raises neither peak."""
        keeps_broker_peak = self._per_broker[group] < self._broker_peaks[group]
        keeps_domain_peak = (self._per_domain[group] < self._domain_peaks[group])[self._domain]
        stays_in_domain = self._domain == self._domain[source]
        room: Bools = keeps_broker_peak & (keeps_domain_peak | stays_in_domain)
        return room

    def least_crowded(self, group: int, candidates: Bools) -> Bools:
        """The candidates with the fewest bundles of the group, within the failure domain that has the fewest."""
        for crowd in (self._per_domain[group][self._domain], self._per_broker[group]):
            candidates = candidates & (crowd == crowd[candidates].min())
        return candidates
