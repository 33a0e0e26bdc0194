"""Counts the bundles of anti-affinity groups, per failure domain and per broker."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from evenkeel.model.policies import Policies
from evenkeel.model.snapshot import Broker

DEFAULT_DOMAIN = "default"


def group_of(namespace: str, policies: Policies) -> str | None:
    """The anti-affinity group of a namespace, in the one spelling that Pulsar compares: case does not matter."""
    group = policies.anti_affinity.get(namespace)
    return group.lower() if group else None


def domains_of(brokers: Sequence[Broker], policies: Policies) -> tuple[str, ...]:
    """Each broker's failure domain; the policies speak first, then the broker's own row, then Pulsar's default."""
    listed = {
        broker: domain for domain in sorted(policies.failure_domains) for broker in policies.failure_domains[domain]
    }
    return tuple(listed.get(b.broker_id) or b.failure_domain or DEFAULT_DOMAIN for b in brokers)


@dataclass(frozen=True, slots=True)
class GroupPeaks:
    """For each group the most bundles in one failure domain, and the most on one broker."""

    per_domain: Mapping[str, int]
    per_broker: Mapping[str, int]

    @property
    def worst_domain(self) -> int:
        return max(self.per_domain.values(), default=0)

    @property
    def worst_broker(self) -> int:
        return max(self.per_broker.values(), default=0)


class GroupCounts:
    """How many bundles of each group a failure domain and a broker own."""

    def __init__(self, owned: Iterable[tuple[str | None, int]], domains: Sequence[str]) -> None:
        """`owned` are pairs of a bundle's group and the index of its owner."""
        self._domains = domains
        self._per_broker = Counter((group, owner) for group, owner in owned if group is not None)
        self._per_domain: Counter[tuple[str, str]] = Counter()
        for (group, owner), count in self._per_broker.items():
            self._per_domain[group, domains[owner]] += count

    def peaks(self) -> GroupPeaks:
        return GroupPeaks(_highest(self._per_domain), _highest(self._per_broker))

    def add(self, group: str, broker: int) -> None:
        self._per_broker[group, broker] += 1
        self._per_domain[group, self._domains[broker]] += 1

    def has_room(self, group: str, source: int, destination: int, peaks: GroupPeaks) -> bool:
        """Whether one more bundle on the destination keeps both peaks, even if nothing else of the plan happens."""
        if self._per_broker[group, destination] + 1 > peaks.per_broker[group]:
            return False
        if self._domains[source] == self._domains[destination]:
            return True
        return self._per_domain[group, self._domains[destination]] + 1 <= peaks.per_domain[group]


def _highest(counts: Counter[tuple[str, int]] | Counter[tuple[str, str]]) -> dict[str, int]:
    highest: dict[str, int] = {}
    for (group, _), count in counts.items():
        highest[group] = max(highest.get(group, 0), count)
    return highest
