"""What the two load managers share: their interface, the placement of unowned bundles, the simulated clients."""

from __future__ import annotations

import logging
import re
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from evenkeel.fleet.broker import SimulatedBroker
from evenkeel.fleet.cluster import Cluster
from evenkeel.model.errors import EvenkeelError
from evenkeel.pulsar_rules.ring import hash_topic

CLIENT_RETRY_S = 1.0

_log = logging.getLogger(__name__)


class HttpError(Exception):
    """A request that a broker rejects with an HTTP status and a reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class UnexpectedServerError(HttpError):
    """A mistake of the caller that Pulsar nevertheless reports as an internal error."""

    def __init__(self, message: str) -> None:
        super().__init__(500, f"\n --- An unexpected error occurred in the server ---\n\nMessage: {message}")


class LoadManager(Protocol):
    """How one of Pulsar's load managers handles the ownership of bundles."""

    def start(self, timeout_s: float) -> None:
        """Read the current ownership, then react to every change."""

    def stop(self) -> None:
        """Stop observing and reacting."""

    def seed(self, owners: Mapping[str, str]) -> None:
        """Write the initial ownership of bundles that have no owner yet."""

    def start_broker(self, broker: SimulatedBroker) -> None:
        """Register a broker that has a session, and let it resume its bundles."""

    def on_broker_lost(self, broker_id: str) -> None:
        """Drop what a broker kept in memory; its process is gone."""

    def on_session_lost(self, broker: SimulatedBroker) -> None:
        """Drop what a broker can no longer trust after losing its session; its process is still up."""

    def on_new_session(self, broker: SimulatedBroker) -> None:
        """Let a broker with a new session find out which bundles are still its own."""

    def on_registry_change(self) -> None:
        """React to a broker that registered or went away."""

    def owners(self) -> Mapping[str, str]:
        """Return the broker that serves each bundle now."""

    def served_by(self, broker: SimulatedBroker) -> list[str]:
        """Return the bundles whose topics a broker has open now, sorted by name."""

    def owner_of(self, bundle: str) -> str | None:
        """Return the broker that serves a bundle now, or None."""

    def responsible_for(self, bundle: str) -> str | None:
        """Return the broker that handles admin requests for a bundle: its owner, or the one about to own it."""

    def assign(self, broker: SimulatedBroker, bundle: str) -> bool:
        """Let the broker that handles a lookup find an owner for a bundle; False if no broker is eligible."""

    def look_up(self, broker: SimulatedBroker, bundle: str) -> str | None:
        """Return the owner of a bundle, assigning one if needed; None if no broker is eligible."""

    def unload(self, broker: SimulatedBroker, bundle: str, destination: str | None) -> None:
        """Let the owner unload a bundle, and wait until it is done."""

    def split(self, broker: SimulatedBroker, bundle: str, cuts: Sequence[int], must_unload: bool) -> None:
        """Let the owner split a bundle, and wait until it is done."""


class SimulatedClients:
    """The clients of all bundles: shortly after losing their broker they look their bundle up again."""

    def __init__(self, cluster: Cluster, assign: Callable[[SimulatedBroker, str], bool]) -> None:
        self._cluster = cluster
        self._assign = assign
        self._lock = threading.Lock()
        self._waiting: set[str] = set()

    def disconnect(self, bundle: str) -> None:
        """Disconnect the clients of a bundle from their broker."""
        if not self._cluster.traffic.has_clients(bundle):
            return
        with self._lock:
            if bundle in self._waiting:
                return
            self._waiting.add(bundle)
        self._cluster.timers.after(self._cluster.settings.clients_look_up_after_s, self._look_up, bundle)

    def _look_up(self, bundle: str) -> None:
        with self._lock:
            self._waiting.discard(bundle)
        if not self._cluster.catalogue.has(bundle):
            return
        brokers = self._cluster.alive_brokers()
        # Spread the clients over the brokers in any fixed way.
        broker = brokers[hash_topic(bundle) % len(brokers)] if brokers else None
        if broker is None or not self._try_assign(broker, bundle):
            with self._lock:
                self._waiting.add(bundle)
            self._cluster.timers.after(CLIENT_RETRY_S, self._look_up, bundle)

    def _try_assign(self, broker: SimulatedBroker, bundle: str) -> bool:
        # If the broker dies or loses its session during the call, the clients just try again.
        try:
            return self._assign(broker, bundle)
        except (KazooException, KazooTimeoutError, EvenkeelError) as error:
            _log.debug("%s could not assign %s: %r", broker.id, bundle, error)
            return False


def find_eligible(namespace: str, broker_ids: Iterable[str], isolation: Mapping[str, Any]) -> list[str]:
    """Return the brokers that a namespace may use by the isolation policies; like Pulsar, match them against hosts."""
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
    """Selects owners: eligible by the isolation policies, then the least loaded.

    It remembers its choices until ZooKeeper shows them, so that a burst of lookups is spread over the brokers.
    """

    def __init__(self, cluster: Cluster, owners: Callable[[], Mapping[str, str]]) -> None:
        self._cluster = cluster
        self._owners = owners
        self._lock = threading.Lock()
        self._chosen: dict[str, str] = {}

    def select(self, bundle: str, decider: SimulatedBroker) -> str | None:
        """Return the least loaded eligible broker from the view of the deciding broker, or None."""
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
        # A registration outlives its broker by a session time-out, and a broker without heartbeat counts as gone.
        now_s = self._cluster.clock()
        alive = [broker for broker in map(self._cluster.alive, self._cluster.registered) if broker is not None]
        return [broker.id for broker in alive if not broker.is_silent(now_s)]

    def confirm(self, bundle: str) -> None:
        """Forget the choice for a bundle whose owner is in ZooKeeper now."""
        with self._lock:
            self._chosen.pop(bundle, None)
