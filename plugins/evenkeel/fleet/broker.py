"""One simulated broker: ZooKeeper sessions of its own, a registration, and whether it answers."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NodeExistsError

from evenkeel.fleet.documents import encode, service_url
from evenkeel.fleet.policy_cache import PolicyCache
from evenkeel.fleet.sessions import BrokerSession
from evenkeel.fleet.settings import FleetSettings, SessionExpiredPolicy
from evenkeel.model.errors import UnavailableError

STALE_NODE_SESSIONS = 3
"""How many session time-outs a node of another session is waited for; after that, another broker has the name."""
STALE_NODE_POLL_S = 0.1

SessionLost = Callable[["SimulatedBroker"], None]


class SimulatedBroker:
    """A broker as ZooKeeper and its clients see it; its process lasts from start to end, over several sessions."""

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
        """What it does when its session with the local store is lost."""
        self.started_s = 0.0
        self.is_running = False
        """The process runs, with or without a session."""
        self.is_frozen = False
        """Writes no load reports."""
        self.is_mute = False
        """Does not answer HTTP requests."""
        self.assignments = 0
        self.registered_by = 0
        """The session that its registration is a node of; 0 before it has registered."""
        self.reported_s = 0.0
        """When it last reported its load: its heartbeat."""
        self.new_session_s: float | None = None
        """When it last got a session in place of a lost one; None in a process that lost none."""
        self.policies = PolicyCache(isolation_path)
        self._attempts = 1 + settings.session_retries
        self._heartbeat = settings.heartbeat_timeouts
        timeout_s = settings.session_timeout_s
        self._stale_node_wait_s = STALE_NODE_SESSIONS * timeout_s
        self.local = BrokerSession(broker_id, hosts, timeout_s, lambda: on_session_lost(self))
        # Where both stores are one ensemble, Pulsar's brokers use one session for both.
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
        """The broker's own session; refused while the broker is down or between two sessions."""
        return self.local.client

    @property
    def configuration_client(self) -> KazooClient:
        """The broker's session with the configuration store."""
        return self.configuration.client

    @property
    def is_alive(self) -> bool:
        """Whether it runs and can write: between two sessions it cannot."""
        return self.is_running and self.local.is_open

    @property
    def session_id(self) -> int:
        """The id of the broker's ZooKeeper session, which owns its ephemeral nodes; 0 while it has none."""
        return self.local.session_id

    @property
    def started_ms(self) -> int:
        return int(self.started_s * 1000)

    @property
    def is_registered(self) -> bool:
        """Whether its registration is a node of its session, and so its own to write."""
        return self.is_alive and self.registered_by == self.session_id

    def is_fenced(self, now_s: float) -> bool:
        """Whether it has not reported for so long that it takes nothing new; it finishes what it has."""
        return self._heartbeat.is_fenced(now_s - self.reported_s)

    def is_silent(self, now_s: float) -> bool:
        """Whether it has not reported for so long that others give it nothing new."""
        return self._heartbeat.is_overdue(now_s - self.reported_s)

    def start(self, now_s: float) -> None:
        """Begin a new process with new sessions."""
        self.started_s = self.reported_s = now_s
        self.new_session_s = None
        self.is_frozen = self.is_mute = False
        self.policies.drop()
        self.is_running = True
        self.local.open()
        if self.configuration is not self.local:
            self.configuration.open()

    def take_new_session(self, now_s: float) -> None:
        """Follow a lost session of the local store with another; several attempts, then it is told."""
        self.policies.drop()
        self.local.reopen(self._attempts)
        self.new_session_s = now_s

    def take_new_configuration_session(self) -> None:
        """Follow a lost session of the configuration store with another; what was known from there is dropped."""
        self.policies.drop()
        self.configuration.reopen(self._attempts)

    def register(self, path: str, document: dict[str, Any]) -> None:
        """Make the registration node; one that an earlier session left is waited out, never taken for one's own."""
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

    def end(self) -> None:
        """End the process and its sessions, with all their ephemeral nodes; nothing else is cleaned up."""
        self.is_running = False
        self.local.close()
        if self.configuration is not self.local:
            self.configuration.close()

    @property
    def keeps_its_process(self) -> bool:
        """Whether a lost session is followed by another."""
        return self.policy is SessionExpiredPolicy.RECONNECT
