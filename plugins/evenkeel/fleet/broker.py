"""One simulated broker: its ZooKeeper sessions, its registration, its heartbeat, its cache of policies."""

from __future__ import annotations

import json
import logging
import threading
import time
from collections.abc import Callable, Mapping
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError, NoNodeError
from kazoo.protocol.states import WatchedEvent

from evenkeel.fleet.documents import encode, service_url
from evenkeel.fleet.metadata import Stores
from evenkeel.fleet.sessions import BrokerSession
from evenkeel.fleet.settings import FleetSettings, SessionExpiredPolicy
from evenkeel.model.errors import UnavailableError

STALE_NODE_SESSIONS = 3
"""Wait this many session time-outs for another session's node to go away; after that, another broker has the name."""
STALE_NODE_POLL_S = 0.1

SessionLost = Callable[["SimulatedBroker"], None]
_log = logging.getLogger(__name__)


class PolicyCache:
    """One broker's copy of the isolation policies, read on demand with its own session.

    A change of the node and the end of the session both empty it.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._policies: Mapping[str, Any] | None = None

    def isolation(self, client: KazooClient) -> Mapping[str, Any]:
        """Return the policies, from memory if they are known to be current."""
        with self._lock:
            if self._policies is None:
                self._policies = self._read(client)
            return self._policies

    def drop(self) -> None:
        """Empty the cache; the next call reads the store."""
        with self._lock:
            self._policies = None

    def _read(self, client: KazooClient) -> Mapping[str, Any]:
        try:
            return read_json(client.get(self._path, watch=self._on_event)[0])
        except NoNodeError:
            if client.exists(self._path, watch=self._on_event) is None:
                return {}
        return self._read(client)

    def _on_event(self, _event: WatchedEvent) -> None:
        # kazoo also calls this when the connection breaks, and a change could be missed after that.
        self.drop()


def read_json(data: bytes | None) -> dict[str, Any]:
    """Parse a watched node; an empty or invalid one counts as an empty object."""
    if not data:
        return {}
    try:
        value = json.loads(data)
    except ValueError as error:
        _log.warning("a watched node is not valid JSON: %s", error)
        return {}
    return value if isinstance(value, dict) else {}


class SimulatedBroker:
    """A broker as ZooKeeper and its clients see it. Its process may live through several sessions."""

    def __init__(
        self,
        broker_id: str,
        web_url: str,
        hosts: str,
        settings: FleetSettings,
        isolation_path: str,
        on_session_lost: SessionLost,
        on_configuration_session_lost: SessionLost,
    ) -> None:
        self.id = broker_id
        self.web_url = web_url
        self.service_url = service_url(broker_id)
        self.policy = settings.session_expired_policy
        """What to do when the session with the local store is lost."""
        self.started_s = 0.0
        self.is_running = False
        """The process is up, with or without a session."""
        self.is_frozen = False
        """Writes no load reports."""
        self.is_mute = False
        """Does not respond to HTTP requests."""
        self.assignments = 0
        self.registered_by = 0
        """The session that owns its registration; 0 before it registers."""
        self.reported_s = 0.0
        """When it last reported its load, which is its heartbeat."""
        self.new_session_s: float | None = None
        """When it last replaced a lost session; None if this process never lost one."""
        self.policies = PolicyCache(isolation_path)
        self._attempts = 1 + settings.session_retries
        self._heartbeat = settings.heartbeat_timeouts
        timeout_s = settings.session_timeout_s
        self._stale_node_wait_s = STALE_NODE_SESSIONS * timeout_s
        self.local = BrokerSession(broker_id, hosts, timeout_s, lambda: on_session_lost(self))
        # Pulsar's brokers use one session for both stores if both are in the same ensemble.
        self.configuration = self.local
        if settings.configuration_zookeeper:
            self.configuration = BrokerSession(
                f"{broker_id} (configuration store)",
                settings.configuration_zookeeper,
                timeout_s,
                lambda: on_configuration_session_lost(self),
            )

    @property
    def client(self) -> KazooClient:
        """The session with the local store; UnavailableError while the broker has none."""
        return self.local.client

    @property
    def configuration_client(self) -> KazooClient:
        """The session with the configuration store; UnavailableError while the broker has none."""
        return self.configuration.client

    @property
    def stores(self) -> Stores:
        """Both sessions."""
        return Stores(self.client, self.configuration_client)

    @property
    def is_alive(self) -> bool:
        """Whether it is up and has a session, and so can write."""
        return self.is_running and self.local.is_open

    @property
    def session_id(self) -> int:
        """The id of the session that owns its ephemeral nodes; 0 while it has none."""
        return self.local.session_id

    @property
    def started_ms(self) -> int:
        return int(self.started_s * 1000)

    @property
    def is_registered(self) -> bool:
        """Whether its current session owns its registration, so that it may write it."""
        return self.is_alive and self.registered_by == self.session_id

    def is_fenced(self, now_s: float) -> bool:
        """Whether its heartbeat is so old that it accepts no more bundles; it finishes what it has begun."""
        return self._heartbeat.is_fenced(now_s - self.reported_s)

    def is_silent(self, now_s: float) -> bool:
        """Whether its heartbeat is so old that other brokers assign it no more bundles."""
        return self._heartbeat.is_overdue(now_s - self.reported_s)

    def start(self, now_s: float) -> None:
        """Start a new process with new sessions."""
        self.started_s = self.reported_s = now_s
        self.new_session_s = None
        self.is_frozen = self.is_mute = False
        self.policies.drop()
        self.is_running = True
        self.local.open()
        if self.configuration is not self.local:
            self.configuration.open()

    def take_new_session(self, now_s: float) -> None:
        """Replace the lost session with the local store; raises when every attempt fails."""
        self.policies.drop()
        self.local.reopen(self._attempts)
        self.new_session_s = now_s

    def take_new_configuration_session(self) -> None:
        """Replace the lost session with the configuration store and drop what was read with the old one."""
        self.policies.drop()
        self.configuration.reopen(self._attempts)

    def register(self, path: str, document: dict[str, Any]) -> None:
        """Create the registration node. Wait for a node of an earlier session to go away; never adopt it."""
        deadline_s = time.monotonic() + self._stale_node_wait_s
        while time.monotonic() < deadline_s:
            try:
                session_id = self.session_id
                self.client.create(path, encode(document), ephemeral=True, makepath=True)
                self.registered_by = session_id
                return
            except NodeExistsError:
                stat = self.client.exists(path)
                if stat is not None and stat.ephemeralOwner == session_id:
                    self.registered_by = session_id
                    return
                time.sleep(STALE_NODE_POLL_S)
        raise UnavailableError(f"{path} belongs to another session", "stop the other broker of that name")

    def stop(self) -> None:
        """Stop the process and close its sessions. Only their ephemeral nodes go away."""
        self.is_running = False
        self.local.close()
        if self.configuration is not self.local:
            self.configuration.close()

    @property
    def can_reconnect(self) -> bool:
        """Whether it replaces a lost session, rather than shutting down."""
        return self.policy is SessionExpiredPolicy.RECONNECT
