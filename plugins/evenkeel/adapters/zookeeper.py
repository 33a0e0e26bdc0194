"""A ZooKeeper session that dies when ZooKeeper says so, and transactions that fail aloud.

    connected ──▶ suspended ──▶ connected     the same session: what is unknown can be read again
                      └──▶ lost               for good: nothing cached survives, this object refuses everything

kazoo would go on with a new session after a lost one; here a lost session stays lost.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import ConnectionLoss, KazooException, NoNodeError, RolledBackError, RuntimeInconsistency
from kazoo.handlers.threading import KazooTimeoutError
from kazoo.protocol.states import WatchedEvent, ZnodeStat

from evenkeel.model.errors import RunStoppedError, UnavailableError

RECONNECT_POLL_S = 0.05
log = logging.getLogger(__name__)

Watch = Callable[[WatchedEvent], None]
_RESUME = "see that ZooKeeper is well, then run the same command again: the journal tells what was done"


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


class TransactionRefusedError(Exception):
    """ZooKeeper refused a transaction: the first operation that failed, and how."""

    def __init__(self, operation: str, error: Exception) -> None:
        super().__init__(f"{operation}: {type(error).__name__}")
        self.operation = operation
        self.error = error


def check(name: str, path: str, version: int = -1) -> Operation:
    """Require that a node exists, and is at a version unless that is -1."""
    return Operation(name, "check", (path, version))


def set_data(name: str, path: str, data: bytes, version: int = -1) -> Operation:
    return Operation(name, "set_data", (path, data, version))


def create(name: str, path: str, data: bytes, ephemeral: bool = False) -> Operation:
    return Operation(name, "create", (path, data, None, ephemeral))


def delete(name: str, path: str) -> Operation:
    return Operation(name, "delete", (path,))


class ZooKeeperSession:
    """One session with a deadline on every call."""

    def __init__(self, hosts: str, session_timeout_s: float, call_timeout_s: float) -> None:
        self._hosts = hosts
        self._call_timeout_s = call_timeout_s
        self._is_lost = False
        self._client = KazooClient(hosts=hosts, timeout=session_timeout_s)
        self._client.add_listener(self._on_state)

    def __enter__(self) -> Self:
        try:
            self._client.start(timeout=self._call_timeout_s)
        except KazooTimeoutError as error:
            self.close()
            raise UnavailableError(
                f"ZooKeeper at {self._hosts} did not answer within {self._call_timeout_s:.0f} s",
                "check the address and that the server runs",
            ) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        self._client.stop()
        self._client.close()

    def read(self, paths: Sequence[str], watch: Watch | None = None) -> list[Node | None]:
        """Read nodes in one pipelined go; None for one that is absent. A watch also waits for absent ones."""
        pending = [self._require_alive().get_async(path, watch) for path in paths]
        nodes = [self._node(path, watch, result) for path, result in zip(paths, pending, strict=True)]
        if watch is not None:
            for index, path in enumerate(paths):
                if nodes[index] is None and self._repeat("exists_async", path, watch) is not None:
                    (nodes[index],) = self.read([path], watch)
        return nodes

    def children(self, path: str) -> list[str]:
        """Names of a node's children, sorted; none where the node is absent."""
        try:
            return sorted(self._repeat("get_children_async", path))
        except NoNodeError:
            return []

    def ensure_path(self, path: str) -> None:
        self._await(self._require_alive().ensure_path_async(path))

    def commit(self, operations: Sequence[Operation]) -> list[Any]:
        """Do all operations or none. kazoo hands failures back as values; here the first one is raised."""
        transaction = self._require_alive().transaction()
        for operation in operations:
            getattr(transaction, operation.method)(*operation.arguments)
        results = self._await(transaction.commit_async())
        for operation, result in zip(operations, results, strict=True):
            if isinstance(result, Exception) and not isinstance(result, RolledBackError | RuntimeInconsistency):
                raise TransactionRefusedError(operation.name, result)
        return list(results)

    def _require_alive(self) -> KazooClient:
        if self._is_lost:
            raise RunStoppedError(f"the ZooKeeper session at {self._hosts} has expired", _RESUME)
        return self._client

    def _node(self, path: str, watch: Watch | None, first: Any) -> Node | None:
        try:
            data, stat = self._repeat("get_async", path, watch, first=first)
        except NoNodeError:
            return None
        return Node(data or b"", stat)

    def _repeat(self, method: str, *arguments: Any, first: Any = None) -> Any:
        """Await a read; one that got lost with the connection is sent again, as long as the session lives."""
        deadline_s = time.monotonic() + self._call_timeout_s
        result = first or getattr(self._require_alive(), method)(*arguments)
        while True:
            try:
                return result.get(timeout=max(deadline_s - time.monotonic(), 0.0))
            except ConnectionLoss as error:
                if time.monotonic() > deadline_s:
                    raise self._unconfirmed(error) from error
            except NoNodeError:
                raise
            except (KazooException, KazooTimeoutError) as error:
                raise self._unconfirmed(error) from error
            time.sleep(RECONNECT_POLL_S)
            result = getattr(self._require_alive(), method)(*arguments)

    def _await(self, result: Any) -> Any:
        """Await a write; one that got lost may have happened, so it is never sent again."""
        try:
            return result.get(timeout=self._call_timeout_s)
        except NoNodeError:
            raise
        except (KazooException, KazooTimeoutError) as error:
            raise self._unconfirmed(error) from error

    def _unconfirmed(self, error: Exception) -> RunStoppedError:
        return RunStoppedError(f"ZooKeeper at {self._hosts} did not confirm a call ({type(error).__name__})", _RESUME)

    def _on_state(self, state: str) -> None:
        log.info("ZooKeeper session at %s is %s", self._hosts, state.lower())
        if state == KazooState.LOST:
            self._is_lost = True
