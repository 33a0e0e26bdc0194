"""One simulated broker: a ZooKeeper session of its own, a registration, and whether it answers."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException, NodeExistsError
from kazoo.handlers.threading import KazooTimeoutError

from evenkeel.fleet.documents import encode, service_url
from evenkeel.model.errors import UnavailableError

CONNECT_TIMEOUT_S = 10.0
STALE_NODE_RETRIES = 200
STALE_NODE_WAIT_S = 0.1

_log = logging.getLogger(__name__)


def connect(hosts: str, session_timeout_s: float) -> KazooClient:
    """Open a session, or say in one sentence that ZooKeeper does not answer."""
    client = KazooClient(hosts, timeout=session_timeout_s)
    try:
        client.start(timeout=CONNECT_TIMEOUT_S)
    except KazooTimeoutError as error:
        client.close()
        raise UnavailableError(
            f"ZooKeeper at {hosts} did not answer in {CONNECT_TIMEOUT_S:g} s", "check the address and the server"
        ) from error
    return client


class SimulatedBroker:
    """A broker as ZooKeeper and its clients see it; an incarnation lasts from start to end."""

    def __init__(self, broker_id: str, web_url: str, hosts: str, session_timeout_s: float) -> None:
        self.id = broker_id
        self.web_url = web_url
        self.service_url = service_url(broker_id)
        self.started_s = 0.0
        self.is_alive = False
        self.is_frozen = False
        """Writes no load reports."""
        self.is_mute = False
        """Does not answer HTTP requests."""
        self.assignments = 0
        self._hosts = hosts
        self._session_timeout_s = session_timeout_s
        self._client: KazooClient | None = None

    @property
    def client(self) -> KazooClient:
        """The broker's own session; refused while the broker is down."""
        if self._client is None:
            raise UnavailableError(f"{self.id} is down", "restart it first")
        return self._client

    @property
    def session_id(self) -> int:
        """The id of the broker's ZooKeeper session, which owns its ephemeral nodes."""
        return int(self.client.client_id[0])

    @property
    def started_ms(self) -> int:
        return int(self.started_s * 1000)

    def start(self, now_s: float, on_session_lost: Callable[[SimulatedBroker], None]) -> None:
        """Begin a new incarnation with a new session."""
        client = connect(self._hosts, self._session_timeout_s)
        self._client, self.started_s = client, now_s
        self.is_frozen = self.is_mute = False
        self.is_alive = True

        def listen(state: KazooState) -> None:
            if state == KazooState.LOST and self._client is client and self.is_alive:
                self.is_alive = False
                on_session_lost(self)

        client.add_listener(listen)

    def register(self, path: str, document: dict[str, Any]) -> None:
        """Make the registration node; one that an earlier incarnation left is waited out."""
        for _ in range(STALE_NODE_RETRIES):
            try:
                self.client.create(path, encode(document), ephemeral=True, makepath=True)
                return
            except NodeExistsError:
                stat = self.client.exists(path)
                if stat is not None and stat.ephemeralOwner == self.session_id:
                    return
                time.sleep(STALE_NODE_WAIT_S)
        raise UnavailableError(f"{path} belongs to another session", "stop the other broker of that name")

    def end(self) -> None:
        """Close the session, which removes all its ephemeral nodes; nothing else is cleaned up."""
        client, self._client, self.is_alive = self._client, None, False
        if client is None:
            return
        try:
            client.stop()
            client.close()
        except (KazooException, KazooTimeoutError) as error:
            _log.debug("%s closed its session badly: %r", self.id, error)

    def expire_session(self) -> None:
        """Let ZooKeeper expire the session, as after a long pause; the broker learns of it from ZooKeeper."""
        # A second connection that takes the session over and closes it ends it for both.
        twin = KazooClient(self._hosts, timeout=self._session_timeout_s, client_id=self.client.client_id)
        twin.start(timeout=CONNECT_TIMEOUT_S)
        twin.stop()
        twin.close()
