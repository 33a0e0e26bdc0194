"""A ZooKeeper session that dies when ZooKeeper says so, and transactions that fail aloud.

Its states are those of `session_states`: a suspended session makes its caller wait, a lost one refuses everything.
Reads that got lost with the connection are sent again on the same session. Writes never are: what became of one is
for the caller to find out, who knows what to read.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
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

from evenkeel.adapters.session_states import SessionEvent, SessionMachine, SessionState
from evenkeel.adapters.zookeeper_security import OPEN_TO_ALL, client_options, require_admission
from evenkeel.model.errors import RunStoppedError, SessionLostError, UnavailableError
from evenkeel.model.zookeeper_security import NO_SECURITY, ZooKeeperSecurity

log = logging.getLogger(__name__)

Watch = Callable[[WatchedEvent], None]
_RESUME = "see that ZooKeeper is well, then run the same command again: the journal tells what was done"
_LOST_WITH_THE_SESSION = (SessionExpiredError, ConnectionClosedError)


@dataclass(frozen=True, slots=True)
class Node:
    """A znode's data and stat as read once."""

    data: bytes
    stat: ZnodeStat


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a transaction, with the name by which a refusal speaks of it."""

    name: str
    method: str
    arguments: tuple[Any, ...]

    @property
    def path(self) -> str:
        return str(self.arguments[0])


class TransactionRefusedError(Exception):
    """ZooKeeper refused a transaction: the first operation that failed, and how."""

    def __init__(self, operation: str, error: Exception, path: str = "") -> None:
        super().__init__(f"{operation}: {type(error).__name__}")
        self.operation = operation
        self.error = error
        self.path = path


class UnconfirmedError(RunStoppedError):
    """A write was sent and no answer came: it may have happened or not."""


def forbidden(path: str) -> RunStoppedError:
    """What a user is told who may not write a node."""
    return RunStoppedError(
        f"ZooKeeper's access control forbids this user to write {path}",
        "give it the rights to create, write and delete there, then run the same command again",
    )


def check(name: str, path: str, version: int = -1) -> Operation:
    """Require that a node exists, and is at a version unless that is -1."""
    return Operation(name, "check", (path, version))


def set_data(name: str, path: str, data: bytes, version: int = -1) -> Operation:
    return Operation(name, "set_data", (path, data, version))


def create(name: str, path: str, data: bytes, ephemeral: bool = False, is_pulsars: bool = False) -> Operation:
    """Make a node: Evenkeel's own, by the session's rule, or one in Pulsar's tree, which is everybody's."""
    return Operation(name, "create", (path, data, OPEN_TO_ALL if is_pulsars else None, ephemeral))


def delete(name: str, path: str, version: int = -1) -> Operation:
    return Operation(name, "delete", (path, version))


class ZooKeeperSession:
    """One session with a deadline on every call."""

    def __init__(
        self,
        hosts: str,
        session_timeout_s: float,
        call_timeout_s: float,
        security: ZooKeeperSecurity = NO_SECURITY,
    ) -> None:
        self._hosts = hosts
        self._security = security
        self._call_timeout_s = call_timeout_s
        self._machine = SessionMachine(session_timeout_s)
        self._session_id: int | None = None
        self._ending = threading.Lock()
        self._client = KazooClient(hosts=hosts, timeout=session_timeout_s, **client_options(security))
        self._client.add_listener(self._on_state)

    def __enter__(self) -> Self:
        try:
            self._client.start(timeout=self._call_timeout_s)
        except KazooTimeoutError as error:
            self.close()
            raise UnavailableError(
                f"ZooKeeper at {self._hosts} did not answer within {self._call_timeout_s:.0f} s",
                "check the address, that the servers run, and that most of them do: without a majority none may write",
            ) from error
        try:
            require_admission(self._client, self._hosts, self._security, self._call_timeout_s)
        except BaseException:
            self.close()
            raise
        self._session_id = self._client.client_id[0]
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._machine.take(SessionEvent.CLOSED)
        self._stop_client()
        self._client.close()

    @property
    def session_id(self) -> int:
        """The id that ZooKeeper knows this session by; an ephemeral node of any other session is another's."""
        if self._session_id is None:
            raise RunStoppedError("the ZooKeeper session was not opened", "enter it first")
        return self._session_id

    @property
    def connected_for_s(self) -> float:
        """How long the connection has held without a break."""
        return self._machine.connected_for_s

    def await_connection(self) -> None:
        """Wait while the session is suspended; raise SessionLostError once it is lost."""
        if self._machine.wait_while_suspended() is SessionState.LOST:
            raise self._lost()

    def read(self, paths: Sequence[str], watch: Watch | None = None) -> list[Node | None]:
        """Read nodes in one pipelined go; None for one that is absent. A watch also waits for absent ones."""
        pending = [self._require_alive().get_async(path, watch) for path in paths]
        nodes = [self._node(path, watch, result) for path, result in zip(paths, pending, strict=True)]
        if watch is not None:
            for index, path in enumerate(paths):
                if nodes[index] is None and self.stat(path, watch) is not None:
                    (nodes[index],) = self.read([path], watch)
        return nodes

    def read_latest(self, paths: Sequence[str]) -> list[Node | None]:
        """Read nodes as the leader knows them: everything that was sent before has happened by then, or never will."""
        if paths:
            self._repeat("sync_async", paths[0])
        return self.read(paths)

    def stat(self, path: str, watch: Watch | None = None) -> ZnodeStat | None:
        """A node's stat alone; None for one that is absent."""
        found: ZnodeStat | None = self._repeat("exists_async", path, watch)
        return found

    def children(self, path: str) -> list[str]:
        """Names of a node's children, sorted; none where the node is absent."""
        try:
            return sorted(self._repeat("get_children_async", path))
        except NoNodeError:
            return []

    def ensure_path(self, path: str) -> None:
        """Make a node and its parents where they are missing; asking twice does no harm, so it may be repeated."""
        self._repeat("ensure_path_async", path)

    def commit(self, operations: Sequence[Operation]) -> list[Any]:
        """Do all operations or none. kazoo hands failures back as values; here the first one is raised."""
        return self._outcome(operations, self._send(operations))

    def commit_all(
        self, transactions: Sequence[Sequence[Operation]]
    ) -> list[TransactionRefusedError | UnconfirmedError | None]:
        """Send transactions one behind the other without waiting between them; answers what went wrong with each."""
        pending = [self._send(operations) for operations in transactions]
        found: list[TransactionRefusedError | UnconfirmedError | None] = []
        for operations, result in zip(transactions, pending, strict=True):
            try:
                self._outcome(operations, result)
                found.append(None)
            except (TransactionRefusedError, UnconfirmedError) as error:
                found.append(error)
        return found

    def _send(self, operations: Sequence[Operation]) -> Any:
        transaction = self._require_alive().transaction()
        for operation in operations:
            getattr(transaction, operation.method)(*operation.arguments)
        return transaction.commit_async()

    def _outcome(self, operations: Sequence[Operation], pending: Any) -> list[Any]:
        results = self._await(pending)
        for operation, result in zip(operations, results, strict=True):
            if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency):
                raise TransactionRefusedError(operation.name, result, operation.path)
        return list(results)

    def _require_alive(self) -> KazooClient:
        # kazoo would go on with a new session: its id betrays it, should its word come late.
        current = self._client.client_id
        if None not in (self._session_id, current) and current[0] != self._session_id:
            self._machine.take(SessionEvent.EXPIRED)
        if self._machine.state is SessionState.LOST:
            raise self._lost()
        return self._client

    def _node(self, path: str, watch: Watch | None, first: Any) -> Node | None:
        try:
            data, stat = self._repeat("get_async", path, watch, first=first)
        except NoNodeError:
            return None
        return Node(data or b"", stat)

    def _repeat(self, method: str, *arguments: Any, first: Any = None) -> Any:
        """Await a call that changes nothing; one that got lost with the connection is sent again on this session."""
        deadline_s = time.monotonic() + self._call_timeout_s
        result = first or getattr(self._require_alive(), method)(*arguments)
        while True:
            try:
                return result.get(timeout=max(deadline_s - time.monotonic(), 0.0))
            except ConnectionLoss:
                self.await_connection()
                deadline_s = time.monotonic() + self._call_timeout_s
            except NoNodeError:
                raise
            except _LOST_WITH_THE_SESSION as error:
                self._machine.take(SessionEvent.EXPIRED)
                raise self._lost() from error
            except (KazooException, KazooTimeoutError) as error:
                is_waiting = isinstance(error, KazooTimeoutError) and self._machine.state is not SessionState.CONNECTED
                if not is_waiting:
                    raise self._explain(error, str(arguments[0])) from error
                self.await_connection()
                deadline_s = time.monotonic() + self._call_timeout_s
            result = getattr(self._require_alive(), method)(*arguments)

    def _await(self, result: Any) -> Any:
        """Await a write; one that got lost may have happened, so it is never sent again from here."""
        try:
            return result.get(timeout=self._call_timeout_s)
        except (KazooException, KazooTimeoutError) as error:
            raise self._explain(error, "a transaction") from error

    def _explain(self, error: Exception, what: str) -> RunStoppedError:
        if isinstance(error, _LOST_WITH_THE_SESSION):
            self._machine.take(SessionEvent.EXPIRED)
        if isinstance(error, NoAuthError):
            return RunStoppedError(
                f"ZooKeeper's access control forbids {what} to this user", "give it the rights, or name another user"
            )
        if isinstance(error, NotReadOnlyCallError):
            return RunStoppedError(
                f"ZooKeeper at {self._hosts} is read-only now", "bring a majority of its servers back, then try again"
            )
        return UnconfirmedError(f"ZooKeeper at {self._hosts} did not confirm a call ({type(error).__name__})", _RESUME)

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
            # kazoo must not take a new session; its own thread, which speaks here, cannot be the one that stops it.
            if not is_closed:
                threading.Thread(target=self._stop_client, daemon=True).start()

    def _stop_client(self) -> None:
        # kazoo's `stop` returns at once while another thread is stopping it, and its `close` then fails.
        with self._ending:
            self._client.stop()
