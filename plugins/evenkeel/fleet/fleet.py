"""A fleet of simulated Pulsar brokers on a real ZooKeeper, each with a session of its own.

    with Fleet(FleetSettings(brokers=6, bundles=96), "127.0.0.1:2181") as fleet:
        fleet.kill_broker("b02.fleet:8080")

`evenkeel.fleet.http_server.FleetControl` does the same to a fleet in another process.

The brokers write Pulsar's documents at Pulsar's paths and serve Pulsar's HTTP API, so that a reader or a writer cannot
tell them from real brokers. They carry no messages.
"""

from __future__ import annotations

import logging
import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from kazoo.client import KazooClient, KazooState

from evenkeel.adapters.zookeeper.paths import PulsarPaths
from evenkeel.fleet.admin_api import AdminApi
from evenkeel.fleet.broker import SimulatedBroker
from evenkeel.fleet.cluster import Cluster
from evenkeel.fleet.documents import service_url
from evenkeel.fleet.extensible import ExtensibleLoadManager, LeaderMonitor
from evenkeel.fleet.http_server import CONTROL_NAME, BrokerHttpServer
from evenkeel.fleet.layout import BundleCatalogue, build_layout
from evenkeel.fleet.load_manager import LoadManager
from evenkeel.fleet.metadata import Stores, write_metadata
from evenkeel.fleet.modular import ModularLoadManager
from evenkeel.fleet.session_recovery import SessionRecovery
from evenkeel.fleet.sessions import BrokerSession, connect
from evenkeel.fleet.settings import FleetSettings, LoadManagerKind, SessionExpiredPolicy
from evenkeel.fleet.timers import Timers
from evenkeel.fleet.traffic import TrafficModel
from evenkeel.model.errors import InputError, UnavailableError

READY_TIMEOUT_S = 120.0
POLL_INTERVAL_S = 0.02

_log = logging.getLogger(__name__)


class Fleet:
    """Simulated brokers that run in this process until `stop` is called."""

    def __init__(self, settings: FleetSettings, zookeeper_hosts: str, clock: Callable[[], float] = time.time) -> None:
        self.settings = settings
        self.paths = PulsarPaths(settings.root, settings.configuration_root or None)
        self._hosts = zookeeper_hosts
        self._clock = clock
        self._timers = Timers()
        self._client: KazooClient | None = None
        self._http: BrokerHttpServer | None = None
        self._cluster: Cluster | None = None
        self._manager: LoadManager | None = None
        self._is_stopping = False
        self._recovery = SessionRecovery(
            self._running_manager, clock, settings.new_session_delay_s, on_shut_down=self._on_shut_down
        )
        self.failed = threading.Event()
        """Set when the last broker has shut itself down."""

    def start(self) -> None:
        """Start all brokers; returns when every bundle has its owner and every broker responds."""
        try:
            self._start()
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all brokers. Their ephemeral nodes go away with their sessions; everything else stays."""
        self._is_stopping = True
        if self._manager is not None:
            self._manager.stop()
        if self._http is not None:
            self._http.stop()
        self._recovery.stop()
        self._timers.stop()
        for broker in self._cluster.brokers.values() if self._cluster else ():
            broker.stop()
        if self._client is not None:
            self._client.stop()
            self._client.close()
            self._client = None

    @property
    def control_url(self) -> str:
        """The address of the fault injection API; see `evenkeel.fleet.http_server`."""
        if self._http is None:
            raise ValueError("the fleet is not running; call start() first")
        return self._http.url_of(CONTROL_NAME)

    @property
    def broker_ids(self) -> tuple[str, ...]:
        return self.settings.broker_ids

    def web_url(self, broker_id: str) -> str:
        """Return the address of a broker's HTTP API."""
        return self._broker(broker_id).web_url

    def owner_of(self, bundle: str) -> str | None:
        """Return the broker that serves a bundle now, or None."""
        return self._running_manager().owner_of(bundle)

    def owners(self) -> dict[str, str]:
        """Return the broker that serves each bundle now, without heartbeat bundles."""
        catalogue = self._running().catalogue
        owners = self._running_manager().owners()
        return {bundle: owner for bundle, owner in owners.items() if catalogue.has(bundle)}

    def unloads(self) -> dict[str, int]:
        """Return how often admin calls took each bundle from its owner; modular brokers only."""
        manager = self._running_manager()
        return dict(manager.unloads) if isinstance(manager, ModularLoadManager) else {}

    def leader(self) -> str | None:
        """Return the current leader, or None."""
        leadership = self._running().leadership
        return leadership.broker_id if leadership else None

    def kill_broker(self, broker_id: str) -> None:
        """Kill a broker: its session is closed, nothing is handed over or cleaned up."""
        broker = self._broker(broker_id)
        broker.stop()
        self._running_manager().on_broker_lost(broker_id)

    def expire_session(self, broker_id: str) -> None:
        """Expire a broker's ZooKeeper session; returns when the broker knows, before it has reacted."""
        self._expire(self._broker(broker_id).local, broker_id)

    def expire_configuration_session(self, broker_id: str) -> None:
        """Expire a broker's session with the configuration store, which may be its only session."""
        self._expire(self._broker(broker_id).configuration, broker_id)

    def set_session_policy(self, broker_id: str, policy: str) -> None:
        """Set what a broker does when it loses its session: reconnect or shutdown."""
        try:
            self._broker(broker_id).policy = SessionExpiredPolicy(policy)
        except ValueError as error:
            raise InputError(f"unknown session policy {policy!r}", "use reconnect or shutdown") from error

    def set_hand_over_delay(self, seconds: float) -> None:
        """Set how long brokers take to close a bundle."""
        if not 0 <= seconds < math.inf:
            raise InputError(f"hand-over delay {seconds} s is out of range", "use 0 or more seconds")
        self._running().hand_over_delay_s = seconds

    def state(self) -> dict[str, Any]:
        """Return the leader and the state of every broker as plain values."""
        cluster = self._running()
        leader = cluster.leader
        return {
            "leader": leader.id if leader else None,
            "hand_over_delay_s": cluster.hand_over_delay_s,
            "brokers": {broker.id: _describe(broker) for broker in cluster.brokers.values()},
        }

    def restart_broker(self, broker_id: str) -> None:
        """Start a new incarnation of a broker; kill it first if it is running."""
        if self._broker(broker_id).is_running:
            self.kill_broker(broker_id)
        with self._recovery.lock_for(broker_id):
            self._start_broker(self._broker(broker_id))
        self._wait_until(lambda: broker_id in self._running().registered, f"{broker_id} did not register")

    def freeze_reports(self, broker_id: str) -> None:
        """Make a broker's load stale: it writes no load reports (modular) or does not respond to HTTP (extensible)."""
        broker = self._broker(broker_id)
        broker.is_frozen = True
        broker.is_mute = self.settings.load_manager is LoadManagerKind.EXTENSIBLE

    def thaw_reports(self, broker_id: str) -> None:
        """Let a frozen broker report its load again."""
        broker = self._broker(broker_id)
        broker.is_frozen = broker.is_mute = False

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    def _start(self) -> None:
        settings = self.settings
        self._client = client = connect(self._hosts, settings.session_timeout_s)
        client.add_listener(self._on_observer_state)
        self._http = http = BrokerHttpServer(settings.http_port)
        layout = build_layout(settings)
        first = settings.broker_ids[0]
        with self._open_stores(client) as stores:
            boundaries = write_metadata(stores, self.paths, settings, layout, http.url_of(first), service_url(first))
        catalogue = BundleCatalogue(layout.topics, boundaries)
        traffic = TrafficModel(settings, catalogue, self._clock)
        brokers = {
            broker_id: SimulatedBroker(
                broker_id,
                http.url_of(broker_id),
                self._hosts,
                settings,
                self.paths.isolation(self.settings.cluster),
                self._recovery.on_lost,
                self._recovery.on_configuration_lost,
            )
            for broker_id in settings.broker_ids
        }
        self._cluster = Cluster(
            settings, self.paths, catalogue, traffic, brokers, self._timers, self._clock, settings.hand_over_delay_s
        )
        self._timers.start()
        self._start_manager(client, {b: owner for b, owner in layout.owners.items() if catalogue.has(b)})
        http.start(brokers, AdminApi(self._cluster, self._running_manager()), self)

    @contextmanager
    def _open_stores(self, local: KazooClient) -> Iterator[Stores]:
        """Open both stores to write the metadata; each broker has its own sessions later."""
        if not self.settings.configuration_zookeeper:
            yield Stores(local, local)
            return
        configuration = connect(self.settings.configuration_zookeeper, self.settings.session_timeout_s)
        try:
            yield Stores(local, configuration)
        finally:
            configuration.stop()
            configuration.close()

    def _start_manager(self, client: KazooClient, owners: dict[str, str]) -> None:
        cluster = self._running()
        if self.settings.load_manager is LoadManagerKind.EXTENSIBLE:
            extensible = ExtensibleLoadManager(cluster, client)
            monitor = LeaderMonitor(cluster, extensible)
            self._start_brokers(extensible, client, owners, inspect=monitor.run_pass)
            self._timers.every(self.settings.monitor_interval_s, monitor.run_pass)
            self._timers.every(self.settings.report_interval_s, extensible.record_reports)
        else:
            modular = ModularLoadManager(cluster, client)
            self._start_brokers(modular, client, owners, inspect=None)
            modular.reports.report_all(must_write=True)
            self._timers.every(self.settings.report_interval_s, modular.reports.report_all)
        _log.info("%d brokers serve %d bundles", len(cluster.brokers), len(owners))

    def _start_brokers(
        self, manager: LoadManager, client: KazooClient, owners: dict[str, str], inspect: Callable[[], None] | None
    ) -> None:
        cluster = self._running()
        self._manager = manager
        for broker in cluster.brokers.values():
            self._start_broker(broker)

        def on_change() -> None:
            if not self._is_stopping:
                manager.on_registry_change()
                if inspect is not None:
                    self._timers.submit(inspect)

        cluster.watch_shared_nodes(client, on_change)
        manager.seed(owners)
        # Start observing after seeding: one sweep over 5,000 nodes is cheaper than 5,000 events.
        manager.start(READY_TIMEOUT_S)

        def is_up() -> bool:
            is_led = cluster.registered >= set(cluster.brokers) and cluster.leader is not None
            return is_led and owners.keys() <= manager.owners().keys()

        self._wait_until(is_up, "the brokers did not start")

    def _start_broker(self, broker: SimulatedBroker) -> None:
        try:
            broker.start(self._clock())
            self._running_manager().start_broker(broker)
        except BaseException:
            # A broker that failed halfway would keep its session.
            broker.stop()
            raise

    def _expire(self, session: BrokerSession, broker_id: str) -> None:
        losses = session.losses
        session.expire()
        self._wait_until(lambda: session.losses > losses, f"{broker_id} did not notice that its session expired")

    def _on_shut_down(self) -> None:
        if not self._is_stopping and not any(broker.is_running for broker in self._running().brokers.values()):
            self.failed.set()

    def _on_observer_state(self, state: KazooState) -> None:
        # The observer is not a broker: kazoo may replace its session, and it reads everything again.
        if state == KazooState.LOST and not self._is_stopping:
            _log.warning("the observing session was lost; reading everything again with a new one")

    def _wait_until(self, is_met: Callable[[], bool], complaint: str) -> None:
        deadline = time.monotonic() + READY_TIMEOUT_S
        while not is_met():
            if time.monotonic() > deadline:
                raise UnavailableError(f"{complaint} within {READY_TIMEOUT_S:g} s", "check ZooKeeper")
            time.sleep(POLL_INTERVAL_S)

    def _broker(self, broker_id: str) -> SimulatedBroker:
        broker = self._running().brokers.get(broker_id)
        if broker is None:
            raise InputError(f"no broker {broker_id} in the fleet", f"use one of {', '.join(self.broker_ids)}")
        return broker

    def _running(self) -> Cluster:
        if self._cluster is None:
            raise ValueError("the fleet is not running; call start() first")
        return self._cluster

    def _running_manager(self) -> LoadManager:
        if self._manager is None:
            raise ValueError("the fleet is not running; call start() first")
        return self._manager


def _describe(broker: SimulatedBroker) -> dict[str, Any]:
    return {
        "is_running": broker.is_running,
        "has_session": broker.is_alive,
        "session_id": broker.session_id,
        "sessions_lost": broker.local.losses,
        "session_policy": broker.policy.value,
        "web_url": broker.web_url,
    }
