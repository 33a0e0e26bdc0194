"""What all parts of a running fleet share: brokers, bundles, traffic, and what ZooKeeper says about them."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NodeExistsError

from evenkeel.fleet import documents
from evenkeel.fleet.broker import SimulatedBroker
from evenkeel.fleet.catalogue import BundleCatalogue
from evenkeel.fleet.paths import PulsarPaths
from evenkeel.fleet.settings import FleetSettings
from evenkeel.fleet.timers import Timers
from evenkeel.fleet.traffic import TrafficModel
from evenkeel.model.errors import UnavailableError

ELECTION_RETRY_S = 1.0

_log = logging.getLogger(__name__)


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
    registered: frozenset[str] = frozenset()
    leader_id: str | None = None
    isolation: Mapping[str, Any] = field(default_factory=dict)
    configuration: Mapping[str, str] = field(default_factory=dict)

    @property
    def now_ms(self) -> int:
        return int(self.clock() * 1000)

    def alive(self, broker_id: str | None) -> SimulatedBroker | None:
        """The broker of that name, if it runs."""
        broker = self.brokers.get(broker_id or "")
        return broker if broker is not None and broker.is_alive else None

    def alive_brokers(self) -> list[SimulatedBroker]:
        return [broker for broker in self.brokers.values() if broker.is_alive]

    @property
    def leader(self) -> SimulatedBroker | None:
        """The broker that leads, if there is one."""
        return self.alive(self.leader_id)

    def watch_shared_nodes(self, client: KazooClient, on_change: Callable[[], None]) -> None:
        """Keep registrations, leader, isolation policies and configuration current; report the first two's changes."""
        client.ensure_path(self.paths.brokers)

        def see_brokers(children: list[str]) -> None:
            self.registered = frozenset(children)
            on_change()

        def see_leader(data: bytes | None, _stat: object) -> None:
            self.leader_id = _read_json(data).get("brokerId")
            if self.leader_id is None:
                self.timers.submit(self.elect_leader)
            else:
                on_change()

        def see_isolation(data: bytes | None, _stat: object) -> None:
            self.isolation = _read_json(data)

        def see_configuration(data: bytes | None, _stat: object) -> None:
            self.configuration = _read_json(data)

        client.ChildrenWatch(self.paths.brokers, see_brokers)
        client.DataWatch(self.paths.leader(self.settings.load_manager), see_leader)
        client.DataWatch(self.paths.isolation, see_isolation)
        client.DataWatch(self.paths.configuration, see_configuration)

    def elect_leader(self) -> None:
        """Let every broker try to become the leader; ZooKeeper admits one."""
        path = self.paths.leader(self.settings.load_manager)
        for broker in self.alive_brokers():
            document = documents.encode(documents.leader(broker.id, broker.web_url))
            try:
                broker.client.create(path, document, ephemeral=True, makepath=True)
            except NodeExistsError:
                return
            except (KazooException, UnavailableError) as error:
                _log.debug("%s cannot lead: %r", broker.id, error)
                continue
            _log.info("%s leads", broker.id)
            return
        self.timers.after(ELECTION_RETRY_S, self.elect_leader)


def _read_json(data: bytes | None) -> dict[str, Any]:
    if not data:
        return {}
    try:
        value = json.loads(data)
    except ValueError as error:
        _log.warning("a watched node holds no JSON: %s", error)
        return {}
    return value if isinstance(value, dict) else {}
