"""ZooKeeper sessions as a simulated broker holds them: one that is lost is dead, and another may follow it.

    connected ──▶ suspended ──▶ connected     the same session; kazoo sees to it
                      └──▶ lost               this session's ephemeral nodes are gone or will go
                             └─ reopen() ─▶   another session, which owns nothing yet

kazoo would go on with a new session by itself after a lost one. A broker must know of it, since PIP-57 asks it to
look at every node that it had, so a lost client is put away at once and `reopen` makes another.
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
"""A call that takes longer than so many session time-outs has no session any more."""
SHORTEST_CALL_TIMEOUT_S = 4.0
END_TIMEOUT_S = 5.0

_log = logging.getLogger(__name__)


class _BoundedResult(AsyncResult):  # type: ignore[misc]
    def get(self, block: bool = True, timeout: float | None = None) -> Any:
        return super().get(block, self._handler.call_timeout_s if timeout is None else timeout)


class _BoundedHandler(SequentialThreadingHandler):  # type: ignore[misc]
    """Lets no call wait for ever: one that is made while its client is put away would never be answered."""

    def __init__(self, call_timeout_s: float) -> None:
        super().__init__()
        self.call_timeout_s = call_timeout_s

    def async_result(self) -> AsyncResult:
        return _BoundedResult(self)


def connect(hosts: str, session_timeout_s: float) -> KazooClient:
    """Open a session, or say in one sentence that ZooKeeper does not answer."""
    call_timeout_s = max(CALL_TIMEOUT_SESSIONS * session_timeout_s, SHORTEST_CALL_TIMEOUT_S)
    client = KazooClient(hosts, timeout=session_timeout_s, handler=_BoundedHandler(call_timeout_s))
    try:
        client.start(timeout=CONNECT_TIMEOUT_S)
    except KazooTimeoutError as error:
        client.close()
        raise UnavailableError(
            f"ZooKeeper at {hosts} did not answer in {CONNECT_TIMEOUT_S:g} s", "check the address and the server"
        ) from error
    return client


class BrokerSession:
    """A broker's session with one store, and those that follow it; at most one is current."""

    def __init__(self, name: str, hosts: str, session_timeout_s: float, on_lost: Callable[[], None]) -> None:
        self._name = name
        self._hosts = hosts
        self._session_timeout_s = session_timeout_s
        self._on_lost = on_lost
        self._lock = threading.Lock()
        self._client: KazooClient | None = None
        self._undertakers: list[threading.Thread] = []
        self._is_closed = True
        self.losses = 0
        """How many sessions were lost, other than by closing them."""

    @property
    def is_open(self) -> bool:
        return self._client is not None

    @property
    def client(self) -> KazooClient:
        """The current session; refused while there is none."""
        client = self._client
        if client is None:
            raise UnavailableError(f"{self._name} has no ZooKeeper session now", "wait for it, or restart the broker")
        return client

    @property
    def session_id(self) -> int:
        """The session that owns the ephemeral nodes which are made now; 0 while there is none."""
        client = self._client
        ids = client.client_id if client is not None else None
        return int(ids[0]) if ids is not None else 0

    def open(self) -> None:
        """Start the first session of a process."""
        with self._lock:
            self._is_closed = False
        self.reopen(attempts=1)

    def reopen(self, attempts: int) -> None:
        """Follow a lost session with another; one that does not start is tried again, and the last failure is told."""
        for attempt in range(1, attempts + 1):
            try:
                client = connect(self._hosts, self._session_timeout_s)
                break
            except UnavailableError as error:
                _log.warning("%s: attempt %d of %d: %s", self._name, attempt, attempts, error)
                if attempt == attempts:
                    raise

        def listen(state: KazooState) -> None:
            # Called on kazoo's thread. From here on nobody gets at the lost client any more, and it is ended at once:
            # what somebody still asks of it must not happen in a session that nobody knows.
            with self._lock:
                if state != KazooState.LOST or self._client is not client:
                    return
                self._client = None
                self.losses += 1
                undertaker = threading.Thread(target=_put_away, args=(client, self._name), daemon=True)
                self._undertakers = [*(other for other in self._undertakers if other.is_alive()), undertaker]
            undertaker.start()
            self._on_lost()

        with self._lock:
            has_holder = not self._is_closed
            self._client = client if has_holder else None
        if not has_holder:
            _put_away(client, self._name)
            raise UnavailableError(f"{self._name} ended while it took a new session", "restart it")
        client.add_listener(listen)

    def close(self) -> None:
        """End the session, which removes all its ephemeral nodes; nothing else is cleaned up."""
        with self._lock:
            client, self._client, self._is_closed = self._client, None, True
        if client is not None:
            _put_away(client, self._name)
        for undertaker in list(self._undertakers):
            undertaker.join(END_TIMEOUT_S)

    def expire(self) -> None:
        """Let ZooKeeper expire the session, as after a long pause; its holder learns of it from ZooKeeper."""
        # A second connection that takes the session over and closes it ends it for both.
        twin = KazooClient(self._hosts, timeout=self._session_timeout_s, client_id=self.client.client_id)
        twin.start(timeout=CONNECT_TIMEOUT_S)
        _put_away(twin, self._name)


def _put_away(client: KazooClient, name: str) -> None:
    try:
        client.stop()
        client.close()
    except (KazooException, KazooTimeoutError) as error:
        _log.debug("%s closed its session badly: %r", name, error)
