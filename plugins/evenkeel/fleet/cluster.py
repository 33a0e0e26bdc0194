"""The state that all parts of a running fleet share: brokers, bundles, traffic, registrations, the leader."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import ZnodeStat

from evenkeel.adapters.zookeeper.paths import PulsarPaths
from evenkeel.fleet import documents
from evenkeel.fleet.broker import SimulatedBroker, read_json
from evenkeel.fleet.layout import BundleCatalogue
from evenkeel.fleet.settings import FleetSettings
from evenkeel.fleet.timers import Timers
from evenkeel.fleet.traffic import TrafficModel
from evenkeel.model.errors import UnavailableError
from evenkeel.model.pulsar_versions import reverts_removed_keys

ELECTION_RETRY_S = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Leadership:
    """One term of a leader: it lasts as long as the node that the leader's session created."""

    broker_id: str
    session_id: int
    term: int
    """The transaction that created the leader's node."""


@dataclass(slots=True)
class Cluster:
    """The shared state. Each mutable field is replaced as a whole, by the one thread that watches it."""

    settings: FleetSettings
    paths: PulsarPaths
    catalogue: BundleCatalogue
    traffic: TrafficModel
    brokers: Mapping[str, SimulatedBroker]
    timers: Timers
    clock: Callable[[], float]
    hand_over_delay_s: float
    """How long a broker takes to close the topics of a bundle; may change while the fleet runs."""
    registered: frozenset[str] = frozenset()
    leadership: Leadership | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)

    @property
    def now_ms(self) -> int:
        return int(self.clock() * 1000)

    def alive(self, broker_id: str | None) -> SimulatedBroker | None:
        """Return the broker with this id if it is running and has a session."""
        broker = self.brokers.get(broker_id or "")
        return broker if broker is not None and broker.is_alive else None

    def is_running(self, broker_id: str) -> bool:
        """Whether the broker is running, with or without a session."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_running

    def alive_brokers(self) -> list[SimulatedBroker]:
        return [broker for broker in self.brokers.values() if broker.is_alive]

    @property
    def leader(self) -> SimulatedBroker | None:
        """The current leader, if any. A node left by an earlier session of a broker does not make it the leader."""
        leadership = self.leadership
        broker = self.alive(leadership.broker_id) if leadership else None
        return broker if leadership and broker and broker.session_id == leadership.session_id else None

    def watch_shared_nodes(self, client: KazooClient, on_change: Callable[[], None]) -> None:
        """Keep registrations, leader and configuration current; call on_change for the first two."""
        client.ensure_path(self.paths.brokers)

        def see_brokers(children: list[str]) -> None:
            self.registered = frozenset(children)
            on_change()

        def see_leader(data: bytes | None, stat: ZnodeStat | None) -> None:
            broker_id = self._name_leader(read_json(data))
            if broker_id is None or stat is None:
                self.leadership = None
                self.timers.submit(self.elect_leader)
            else:
                self.leadership = Leadership(broker_id, stat.ephemeralOwner, stat.czxid)
                on_change()

        def see_configuration(data: bytes | None, _stat: object) -> None:
            # What old brokers were told once they keep until they restart.
            kept = {} if reverts_removed_keys(self.settings.broker_version) else self.configuration
            self.configuration = {**kept, **read_json(data)}

        client.ChildrenWatch(self.paths.brokers, see_brokers)
        client.DataWatch(self.paths.leader(self.settings.load_manager), see_leader)
        client.DataWatch(self.paths.configuration, see_configuration)

    def elect_leader(self) -> None:
        """Let every broker with a session try to become the leader; ZooKeeper lets one succeed.

        A leader that lost its session is a candidate like any other once it has a new one. Its old node is no longer
        its own and must go away first.
        """
        path = self.paths.leader(self.settings.load_manager)
        for broker in self.alive_brokers():
            found = documents.leader(broker.id, broker.web_url)
            if self.settings.names_leader_by_url:
                del found["brokerId"]
            document = documents.encode(found)
            try:
                broker.client.create(path, document, ephemeral=True, makepath=True)
            except NodeExistsError:
                break
            except (KazooException, KazooTimeoutError, UnavailableError) as error:
                _log.debug("%s cannot become the leader: %r", broker.id, error)
                continue
            _log.info("%s is the leader", broker.id)
            break
        # A watch misses a node that appears and vanishes between two reads, so check again later.
        self.timers.after(ELECTION_RETRY_S, self._elect_if_leaderless)

    def _name_leader(self, document: Mapping[str, Any]) -> str | None:
        url = document.get("serviceUrl")
        by_url = (broker.id for broker in self.brokers.values() if broker.web_url == url)
        return document.get("brokerId") or next(by_url, None)

    def _elect_if_leaderless(self) -> None:
        if self.leadership is None:
            self.elect_leader()
