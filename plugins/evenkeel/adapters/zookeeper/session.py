"""One ZooKeeper session, for reading and for writing: every call has a deadline, and transactions fail loudly.

The states are those of `session_states`: while the session is suspended its caller waits, and once it is lost it
refuses everything. Reads that got lost with the connection are sent again on the same session. Writes never are: only
the caller knows what to read to find out whether a write happened.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from types import TracebackType
from typing import Any, Self

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import (
    ConnectionClosedError,
    ConnectionLoss,
    KazooException,
    NoAuthError,
    NoNodeError,
    NotReadOnlyCallError,
    RolledBackError,
    RuntimeInconsistency,
    SessionExpiredError,
)
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import KeeperState, WatchedEvent, ZnodeStat

from evenkeel.adapters.zookeeper.nodes import Children, Operation, TransactionRefusedError, ZNode, forbidden
from evenkeel.adapters.zookeeper.security import client_options, require_login
from evenkeel.adapters.zookeeper.session_states import SessionEvent, SessionMachine, SessionState
from evenkeel.adapters.zookeeper.wake_ups import roomy_handler
from evenkeel.model.connection import NO_SECURITY, ClusterConnection, ZooKeeperSecurity
from evenkeel.model.errors import (
    EvenkeelError,
    InputError,
    RunStoppedError,
    SessionLostError,
    UnavailableError,
    UnconfirmedError,
)

log = logging.getLogger(__name__)

Watch = Callable[[WatchedEvent], None]
# Requests in flight at a time: enough to hide the round trip, few enough not to crowd out the brokers' own.
WINDOW_REQUESTS = 512
_RESUME = "check that ZooKeeper is healthy, then run the same command again: the journal says what was done"
_LOST_WITH_THE_SESSION = (SessionExpiredError, ConnectionClosedError)


def open_session(
    connection: ClusterConnection, session_timeout_s: float | None = None, hosts: str | None = None
) -> ZooKeeperSession:
    """A session with a cluster's ZooKeeper, or with other hosts of the same security; enter it to connect."""
    return ZooKeeperSession(
        hosts or connection.zookeeper,
        session_timeout_s or connection.timeout_s,
        connection.timeout_s,
        connection.security,
    )


@contextmanager
def open_stores(
    connection: ClusterConnection, session_timeout_s: float | None = None
) -> Iterator[tuple[ZooKeeperSession, ZooKeeperSession]]:
    """Sessions with a cluster's own store and its configuration store; one session where they are the same ensemble."""
    with ExitStack() as stack:
        session = configuration = stack.enter_context(open_session(connection, session_timeout_s))
        if connection.configuration_zookeeper is not None:
            other = open_session(connection, session_timeout_s, connection.configuration_zookeeper)
            configuration = stack.enter_context(other)
        yield session, configuration


class ZooKeeperSession:
    """One session with a deadline on every call; as a `ZNodeTree` it serves the readers too."""

    def __init__(
        self,
        hosts: str,
        session_timeout_s: float,
        call_timeout_s: float,
        security: ZooKeeperSecurity = NO_SECURITY,
    ) -> None:
        if "/" in hosts:
            raise InputError(
                f"the ZooKeeper address {hosts!r} has a chroot",
                "write host:port,host:port and give Pulsar's root separately",
            )
        self._hosts = hosts
        self._security = security
        self._call_timeout_s = call_timeout_s
        self._machine = SessionMachine(session_timeout_s)
        self._session_id: int | None = None
        self._ending = threading.Lock()
        try:
            self._client = KazooClient(
                hosts=hosts, timeout=session_timeout_s, handler=roomy_handler(), **client_options(security)
            )
        except ValueError as error:
            raise _not_hosts(hosts, error) from error
        self._client.add_listener(self._on_state)

    def __enter__(self) -> Self:
        try:
            is_connected = self._client.start_async().wait(self._call_timeout_s)
        except ValueError as error:
            raise _not_hosts(self._hosts, error) from error
        if not is_connected:
            # Closing waits for a socket that may hang longer than the caller's deadline.
            threading.Thread(target=self.close, daemon=True).start()
            raise UnavailableError(
                f"ZooKeeper at {self._hosts} did not answer within {self._call_timeout_s:.3g} s",
                "check the address and the port, and that a majority of the servers is running",
            )
        try:
            require_login(self._client, self._hosts, self._security, self._call_timeout_s)
        except BaseException:
            self.close()
            raise
        opened = self._client.client_id
        if opened is None:
            # It was lost before anybody could use it: kazoo forgets the id of a session that has expired.
            self.close()
            raise self._lost()
        self._session_id = opened[0]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """End the session and free its threads."""
        self._machine.take(SessionEvent.CLOSED)
        try:
            self._stop_client()
            self._client.close()
        except KazooException as error:
            # Its connection hangs; there was nothing left to tell the server, and its threads end with the process.
            log.warning("the ZooKeeper session at %s did not close in time: %s", self._hosts, error)

    @property
    def session_id(self) -> int:
        """ZooKeeper's id for this session; an ephemeral node with another id belongs to somebody else."""
        if self._session_id is None:
            raise RunStoppedError("the ZooKeeper session was not opened", "enter it first")
        return self._session_id

    @property
    def connected_for_s(self) -> float:
        """How long the connection has held without a break."""
        return self._machine.connected_for_s

    @property
    def last_zxid(self) -> int:
        """The newest change that the last answer can have seen."""
        return int(self._client.last_zxid)

    def await_connection(self) -> None:
        """Wait while the session is suspended; raise SessionLostError once it is lost."""
        if self._machine.wait_while_suspended() is SessionState.LOST:
            raise self._lost()

    def get(self, paths: Sequence[str], watch: Watch | None = None) -> list[ZNode | None]:
        """Read nodes, many per round trip; None for one that is absent. A watch also waits for absent ones."""
        found = list(self._pipeline("get_async", paths, watch))
        nodes = [None if answer is None else _to_znode(path, answer) for path, answer in zip(paths, found, strict=True)]
        if watch is not None:
            for index, path in enumerate(paths):
                if nodes[index] is None and self.stat(path, watch) is not None:
                    (nodes[index],) = self.get([path], watch)
        return nodes

    def get_latest(self, paths: Sequence[str]) -> list[ZNode | None]:
        """Read nodes as the leader knows them: everything that was sent before has happened by then, or never will."""
        if paths:
            self._repeat("sync_async", paths[0])
        return self.get(paths)

    def children(self, paths: Sequence[str]) -> list[Children | None]:
        """Read the children of nodes, many per round trip; None for a node that is absent."""
        found = self._pipeline("get_children_async", paths, None, True)
        return [None if answer is None else Children(tuple(sorted(answer[0])), answer[1].pzxid) for answer in found]

    def child_names(self, path: str) -> list[str]:
        """Names of a node's children, sorted; none where the node is absent."""
        (found,) = self.children([path])
        return [] if found is None else list(found.names)

    def stat(self, path: str, watch: Watch | None = None) -> ZnodeStat | None:
        """A node's stat alone; None for one that is absent."""
        found: ZnodeStat | None = self._repeat("exists_async", path, watch)
        return found

    def stats(self, paths: Sequence[str]) -> list[ZnodeStat | None]:
        """The stats of nodes, many per round trip; needs no permission to read them. None for one that is absent."""
        return list(self._pipeline("exists_async", paths))

    def ensure_path(self, path: str) -> None:
        """Create a node and its parents where they are missing; asking twice does no harm, so it may be repeated."""
        self._repeat("ensure_path_async", path)

    def commit(self, operations: Sequence[Operation]) -> None:
        """Do all operations or none. kazoo returns failures as values; here the first one is raised."""
        self._require_done(operations, self._send(operations))

    def commit_all(
        self, transactions: Sequence[Sequence[Operation]]
    ) -> list[TransactionRefusedError | UnconfirmedError | None]:
        """Send transactions one after the other without waiting in between; returns what went wrong with each."""
        pending = [self._send(operations) for operations in transactions]
        found: list[TransactionRefusedError | UnconfirmedError | None] = []
        for operations, result in zip(transactions, pending, strict=True):
            try:
                self._require_done(operations, result)
                found.append(None)
            except (TransactionRefusedError, UnconfirmedError) as error:
                found.append(error)
        return found

    def _pipeline(self, method: str, paths: Sequence[str], *arguments: Any) -> Iterator[Any]:
        """Await one answer a path, in order, with a window of requests in flight; None where there is no node."""
        in_flight: deque[tuple[str, Any]] = deque()
        for path in paths:
            if len(in_flight) == WINDOW_REQUESTS:
                yield self._await_read(method, arguments, *in_flight.popleft())
            in_flight.append((path, getattr(self._require_alive(), method)(path, *arguments)))
        while in_flight:
            yield self._await_read(method, arguments, *in_flight.popleft())

    def _await_read(self, method: str, arguments: tuple[Any, ...], path: str, first: Any) -> Any:
        try:
            return self._repeat(method, path, *arguments, first=first)
        except NoNodeError:
            return None

    def _repeat(self, method: str, path: str, *arguments: Any, first: Any = None) -> Any:
        """Await a call that may be repeated; if it got lost with the connection, it is sent again on this session."""
        deadline_s = time.monotonic() + self._call_timeout_s
        result = first or getattr(self._require_alive(), method)(path, *arguments)
        while True:
            try:
                return result.get(timeout=max(deadline_s - time.monotonic(), 0.0))
            except NoNodeError:
                raise
            except _LOST_WITH_THE_SESSION as error:
                self._machine.take(SessionEvent.EXPIRED)
                raise self._lost() from error
            except (KazooException, KazooTimeoutError) as error:
                is_suspended = self._machine.state is not SessionState.CONNECTED
                is_lost = isinstance(error, ConnectionLoss) or (isinstance(error, KazooTimeoutError) and is_suspended)
                if not is_lost:
                    raise self._explain(error, method, path) from error
            self.await_connection()
            deadline_s = time.monotonic() + self._call_timeout_s
            result = getattr(self._require_alive(), method)(path, *arguments)

    def _explain(self, error: Exception, method: str, path: str) -> EvenkeelError:
        if isinstance(error, NotReadOnlyCallError):
            return self._read_only()
        if isinstance(error, NoAuthError):
            if method == "ensure_path_async":
                return forbidden(path)
            return InputError(
                f"ZooKeeper's access control does not let this user read {path}",
                "grant it the permission, or use the credentials of a user who has it",
            )
        why = "did not answer" if isinstance(error, KazooTimeoutError) else f"failed ({type(error).__name__})"
        within = f" within {self._call_timeout_s:g} s" if isinstance(error, KazooTimeoutError) else ""
        return UnavailableError(
            f"ZooKeeper at {self._hosts} {why} for {path}{within}",
            "check that the ensemble has a quorum, then try again",
        )

    def _send(self, operations: Sequence[Operation]) -> Any:
        transaction = self._require_alive().transaction()
        for operation in operations:
            getattr(transaction, operation.method)(*operation.arguments)
        return transaction.commit_async()

    def _require_done(self, operations: Sequence[Operation], pending: Any) -> None:
        """Await a transaction; one that got lost may have happened, so it is never sent again from here."""
        try:
            results = pending.get(timeout=self._call_timeout_s)
        except (KazooException, KazooTimeoutError) as error:
            raise self._explain_write(error) from error
        for operation, result in zip(operations, results, strict=True):
            if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency):
                raise TransactionRefusedError(operation.name, result, operation.path)

    def _explain_write(self, error: Exception) -> RunStoppedError:
        if isinstance(error, _LOST_WITH_THE_SESSION):
            self._machine.take(SessionEvent.EXPIRED)
        if isinstance(error, NoAuthError):
            return RunStoppedError(
                f"ZooKeeper's access control at {self._hosts} forbids this user to write",
                "grant it the permissions, or use another user",
            )
        if isinstance(error, NotReadOnlyCallError):
            return self._read_only()
        return UnconfirmedError(
            f"ZooKeeper at {self._hosts} did not confirm a transaction ({type(error).__name__})", _RESUME
        )

    def _read_only(self) -> RunStoppedError:
        return RunStoppedError(
            f"ZooKeeper at {self._hosts} is read-only now", "bring a majority of its servers back, then try again"
        )

    def _require_alive(self) -> KazooClient:
        # kazoo would carry on with a new session; a new id gives that away even before kazoo reports it.
        current = self._client.client_id
        if None not in (self._session_id, current) and current[0] != self._session_id:
            self._machine.take(SessionEvent.EXPIRED)
        if self._machine.state is SessionState.LOST:
            raise self._lost()
        return self._client

    def _lost(self) -> SessionLostError:
        return SessionLostError(f"the ZooKeeper session at {self._hosts} has expired", _RESUME)

    def _on_state(self, state: str) -> None:
        log.info("ZooKeeper session at %s is %s", self._hosts, state.lower())
        if state == KazooState.CONNECTED:
            self._machine.take(SessionEvent.CONNECTED)
        elif state == KazooState.SUSPENDED:
            self._machine.take(SessionEvent.DISCONNECTED)
        else:
            is_closed = self._client.client_state == KeeperState.CLOSED
            self._machine.take(SessionEvent.CLOSED if is_closed else SessionEvent.EXPIRED)
            # kazoo must not take a new session. This is kazoo's own thread, which cannot stop kazoo.
            if not is_closed:
                threading.Thread(target=self._stop_client, daemon=True).start()

    def _stop_client(self) -> None:
        # kazoo's `stop` returns at once while another thread is stopping it, and its `close` then fails.
        with self._ending:
            self._client.stop()


def _not_hosts(hosts: str, error: ValueError) -> InputError:
    return InputError(f"{hosts!r} is not a list of ZooKeeper hosts ({error})", "write host:port,host:port")


def _to_znode(path: str, answer: tuple[bytes | None, ZnodeStat]) -> ZNode:
    data, stat = answer
    return ZNode(path, data or b"", stat.version, stat.czxid, stat.mzxid, stat.mtime, stat.ephemeralOwner, stat.ctime)
