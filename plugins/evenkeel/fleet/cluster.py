"""What all parts of a running fleet share: brokers, bundles, traffic, and what ZooKeeper says about them."""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import ZnodeStat

from evenkeel.fleet import documents
from evenkeel.fleet.broker import SimulatedBroker
from evenkeel.fleet.catalogue import BundleCatalogue
from evenkeel.fleet.paths import PulsarPaths
from evenkeel.fleet.policy_cache import read_json
from evenkeel.fleet.settings import FleetSettings
from evenkeel.fleet.timers import Timers
from evenkeel.fleet.traffic import TrafficModel
from evenkeel.model.errors import UnavailableError

ELECTION_RETRY_S = 1.0

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Leadership:
    """One term of a leader: it begins with a node of its session and ends with that node, whoever leads next."""

    broker_id: str
    session_id: int
    term: int
    """The change that created the leader's node."""


@dataclass(slots=True)
class Cluster:
    """The shared state; each field that changes is replaced as a whole by the one thread that watches it."""

    settings: FleetSettings
    paths: PulsarPaths
    catalogue: BundleCatalogue
    traffic: TrafficModel
    brokers: Mapping[str, SimulatedBroker]
    timers: Timers
    clock: Callable[[], float]
    hand_over_delay_s: float
    """How long a broker takes to close the topics of a bundle; may be changed while the fleet runs."""
    registered: frozenset[str] = frozenset()
    leadership: Leadership | None = None
    configuration: Mapping[str, str] = field(default_factory=dict)

    @property
    def now_ms(self) -> int:
        return int(self.clock() * 1000)

    def alive(self, broker_id: str | None) -> SimulatedBroker | None:
        """The broker of that name, if it runs and has a session."""
        broker = self.brokers.get(broker_id or "")
        return broker if broker is not None and broker.is_alive else None

    def is_running(self, broker_id: str) -> bool:
        """Whether the process of that name runs, with or without a session."""
        broker = self.brokers.get(broker_id)
        return broker is not None and broker.is_running

    def alive_brokers(self) -> list[SimulatedBroker]:
        return [broker for broker in self.brokers.values() if broker.is_alive]

    @property
    def leader(self) -> SimulatedBroker | None:
        """The broker that leads, if there is one. A node that its earlier session left does not make it one."""
        leadership = self.leadership
        broker = self.alive(leadership.broker_id) if leadership else None
        return broker if leadership and broker and broker.session_id == leadership.session_id else None

    def watch_shared_nodes(self, client: KazooClient, on_change: Callable[[], None]) -> None:
        """Keep registrations, leader and configuration current; report the first two's changes."""
        client.ensure_path(self.paths.brokers)

        def see_brokers(children: list[str]) -> None:
            self.registered = frozenset(children)
            on_change()

        def see_leader(data: bytes | None, stat: ZnodeStat | None) -> None:
            broker_id = read_json(data).get("brokerId")
            if broker_id is None or stat is None:
                self.leadership = None
                self.timers.submit(self.elect_leader)
            else:
                self.leadership = Leadership(broker_id, stat.ephemeralOwner, stat.czxid)
                on_change()

        def see_configuration(data: bytes | None, _stat: object) -> None:
            self.configuration = read_json(data)

        client.ChildrenWatch(self.paths.brokers, see_brokers)
        client.DataWatch(self.paths.leader(self.settings.load_manager), see_leader)
        client.DataWatch(self.paths.configuration, see_configuration)

    def elect_leader(self) -> None:
        """Let every broker that has a session try to become the leader; ZooKeeper admits one.

        A leader that lost its session is a candidate like any other once it has another one; until then the rest
        decide among themselves. Its old node is not its own any more: it has to go first.
        """
        path = self.paths.leader(self.settings.load_manager)
        for broker in self.alive_brokers():
            document = documents.encode(documents.leader(broker.id, broker.web_url))
            try:
                broker.client.create(path, document, ephemeral=True, makepath=True)
            except NodeExistsError:
                break
            except (KazooException, KazooTimeoutError, UnavailableError) as error:
                _log.debug("%s cannot lead: %r", broker.id, error)
                continue
            _log.info("%s leads", broker.id)
            break
        # A node that came and went between two looks of the watch is never told of, so nobody relies on it alone.
        self.timers.after(ELECTION_RETRY_S, self._elect_if_leaderless)

    def _elect_if_leaderless(self) -> None:
        if self.leadership is None:
            self.elect_leader()
