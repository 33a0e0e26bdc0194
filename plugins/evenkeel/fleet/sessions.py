"""The ZooKeeper sessions of a simulated broker: a lost session is dead, and a new one may replace it.

    connected ──▶ suspended ──▶ connected     the same session; kazoo reconnects
                      └──▶ lost               the session's ephemeral nodes are gone, or will be
                             └─ reopen() ─▶   a new session, which owns nothing yet

kazoo would replace a lost session silently. PIP-57 requires a broker to check every node it had, so the broker must
know: a lost client is closed at once, and `reopen` creates another.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from typing import Any

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException
from kazoo.handlers.threading import AsyncResult, KazooTimeoutError, SequentialThreadingHandler

from evenkeel.model.errors import UnavailableError

CONNECT_TIMEOUT_S = 10.0
CALL_TIMEOUT_SESSIONS = 2
"""A call that takes longer than this many session time-outs has lost its session."""
SHORTEST_CALL_TIMEOUT_S = 4.0
CLOSE_TIMEOUT_S = 5.0

_log = logging.getLogger(__name__)


class _BoundedResult(AsyncResult):  # type: ignore[misc]
    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        return super().get(block, self._handler.call_timeout_s if timeout is None else timeout)


class _BoundedHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Gives every call a time-out: a call made while its client is being closed would never return."""

    def __init__(self, call_timeout_s: float) -> None:
        super().__init__()
        self.call_timeout_s = call_timeout_s

    def async_result(self) -> AsyncResult:
        return _BoundedResult(self)


def connect(hosts: str, session_timeout_s: float) -> KazooClient:
    """Open a session; UnavailableError if ZooKeeper does not respond."""
    call_timeout_s = max(CALL_TIMEOUT_SESSIONS * session_timeout_s, SHORTEST_CALL_TIMEOUT_S)
    client = KazooClient(hosts, timeout=session_timeout_s, handler=_BoundedHandler(call_timeout_s))
    try:
        client.start(timeout=CONNECT_TIMEOUT_S)
    except KazooTimeoutError as error:
        client.close()
        raise UnavailableError(
            f"ZooKeeper at {hosts} did not respond within {CONNECT_TIMEOUT_S:g} s", "check the address and the server"
        ) from error
    return client


class BrokerSession:
    """A broker's sessions with one store; at most one is open."""

    def __init__(self, name: str, hosts: str, session_timeout_s: float, on_lost: Callable[[], None]) -> None:
        self._name = name
        self._hosts = hosts
        self._session_timeout_s = session_timeout_s
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._client: KazooClient | None = None
        self._closers: list[threading.Thread] = []
        self._is_closed = True
        self.losses = 0
        """How many sessions were lost; closed ones do not count."""

    @property
    def is_open(self) -> bool:
        return self._client is not None

    @property
    def client(self) -> KazooClient:
        """The client of the open session; UnavailableError while there is none."""
        client = self._client
        if client is None:
            raise UnavailableError(f"{self._name} has no ZooKeeper session", "wait, or restart the broker")
        return client

    @property
    def session_id(self) -> int:
        """The id of the open session; 0 while there is none."""
        client = self._client
        ids = client.client_id if client is not None else None
        return int(ids[0]) if ids is not None else 0

    def open(self) -> None:
        """Open the first session of a process."""
        with self._lock:
            self._is_closed = False
        self.reopen(attempts=1)

    def reopen(self, attempts: int) -> None:
        """Replace a lost session with a new one; after the last attempt, raise its error."""
        for attempt in range(1, attempts + 1):
            try:
                client = connect(self._hosts, self._session_timeout_s)
                break
            except UnavailableError as error:
                _log.warning("%s: attempt %d of %d: %s", self._name, attempt, attempts, error)
                if attempt == attempts:
                    raise

        def listen(state: KazooState) -> None:
            # Runs on kazoo's thread. The lost client is detached and closed at once, so that a call still waiting on it
            # cannot succeed in a session that kazoo opens behind our back.
            with self._lock:
                if state != KazooState.LOST or self._client is not client:
                    return
                self._client = None
                self.losses += 1
                closer = threading.Thread(target=_close, args=(client, self._name), daemon=True)
                # Started under the lock: close() joins what it finds here, and only a started thread can be joined.
                closer.start()
                self._closers = [*(other for other in self._closers if other.is_alive()), closer]
            self._on_lost()

        with self._lock:
            is_wanted = not self._is_closed
            self._client = client if is_wanted else None
        if not is_wanted:
            _close(client, self._name)
            raise UnavailableError(f"{self._name} was stopped while it opened a new session", "restart it")
        client.add_listener(listen)

    def close(self) -> None:
        """Close the session, which removes its ephemeral nodes. Nothing else is cleaned up."""
        with self._lock:
            client, self._client, self._is_closed = self._client, None, True
        if client is not None:
            _close(client, self._name)
        for closer in list(self._closers):
            closer.join(CLOSE_TIMEOUT_S)

    def expire(self) -> None:
        """Make ZooKeeper expire the session, as after a long pause; its owner learns of it from ZooKeeper."""
        # A second connection with the same session id takes the session over; closing it ends the session.
        twin = KazooClient(self._hosts, timeout=self._session_timeout_s, client_id=self.client.client_id)
        twin.start(timeout=CONNECT_TIMEOUT_S)
        _close(twin, self._name)


def _close(client: KazooClient, name: str) -> None:
    try:
        client.stop()
        client.close()
    except (KazooException, KazooTimeoutError) as error:
        _log.debug("%s: closing the session failed: %r", name, error)
