"""Which broker gets a bundle that nobody owns: Pulsar's isolation rule, then the least loaded."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from evenkeel.fleet.broker import SimulatedBroker
from evenkeel.fleet.cluster import Cluster


def find_eligible(namespace: str, broker_ids: Iterable[str], isolation: Mapping[str, Any]) -> list[str]:
    """The live brokers that a namespace may use by the isolation policies, matched against hosts as Pulsar does."""
    hosts = {broker: broker.rpartition(":")[0] for broker in sorted(broker_ids)}
    for policy in isolation.values():
        if _matches(policy["namespaces"], namespace):
            primaries = [broker for broker, host in hosts.items() if _matches(policy["primary"], host)]
            if len(primaries) >= int(policy["auto_failover_policy"]["parameters"]["min_limit"]):
                return primaries
            secondaries = [broker for broker, host in hosts.items() if _matches(policy["secondary"], host)]
            return primaries + [broker for broker in secondaries if broker not in primaries]
    reserved = [pattern for policy in isolation.values() for pattern in policy["primary"]]
    return [broker for broker, host in hosts.items() if not _matches(reserved, host)]


def _matches(patterns: Iterable[str], text: str) -> bool:
    return any(re.fullmatch(pattern, text) for pattern in patterns)


class Placement:
    """Selects owners, and remembers its choices until ZooKeeper shows them, so that a burst is spread."""

    def __init__(self, cluster: Cluster, owners: Callable[[], Mapping[str, str]]) -> None:
        self._cluster = cluster
        self._owners = owners
        self._lock = threading.Lock()
        self._chosen: dict[str, str] = {}

    def select(self, bundle: str, decider: SimulatedBroker) -> str | None:
        """The eligible broker with the least load, or None where there is none, as a broker decides it."""
        namespace = bundle.rpartition("/")[0]
        isolation = decider.policies.isolation(decider.configuration_client)
        eligible = find_eligible(namespace, self._receiving(), isolation)
        if not eligible:
            return None
        with self._lock:
            loads = self._cluster.traffic.bundle_loads()
            carried = dict.fromkeys(eligible, 0.0)
            for held, owner in {**self._owners(), **self._chosen}.items():
                if owner in carried and held in loads:
                    carried[owner] += loads[held].message_rate_in
            chosen = min(eligible, key=lambda broker: (carried[broker], broker))
            self._chosen[bundle] = chosen
        return chosen

    def _receiving(self) -> list[str]:
        # A registration lasts a session time-out longer than its broker, and a silent broker is as good as gone.
        now_s = self._cluster.clock()
        alive = [broker for broker in map(self._cluster.alive, self._cluster.registered) if broker is not None]
        return [broker.id for broker in alive if not broker.is_silent(now_s)]

    def settle(self, bundle: str) -> None:
        """Forget the choice for a bundle whose owner is in ZooKeeper now."""
        with self._lock:
            self._chosen.pop(bundle, None)
