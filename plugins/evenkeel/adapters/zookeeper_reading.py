"""Many ZooKeeper nodes in few round trips: requests are sent in windows, answers come back in order."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from kazoo.client import KazooClient
from kazoo.exceptions import KazooException, NoAuthError, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError

from evenkeel.adapters.zookeeper_security import client_options, require_admission
from evenkeel.model.errors import InputError, UnavailableError
from evenkeel.model.zookeeper_security import NO_SECURITY, ZooKeeperSecurity

# Requests under way at a time: enough to hide the round trip, few enough not to crowd out the brokers' own.
WINDOW_REQUESTS = 512
READ_DEADLINE_S = 60.0


@dataclass(frozen=True, slots=True)
class ZNode:
    """A node as it was read; `ephemeral_owner` is the session that it ends with, 0 for a lasting node."""

    path: str
    data: bytes
    version: int
    czxid: int
    mzxid: int
    mtime_ms: int
    ephemeral_owner: int


@dataclass(frozen=True, slots=True)
class Children:
    """The names below a node; `pzxid` is the change that last added or removed one."""

    names: tuple[str, ...]
    pzxid: int


class ZNodeTree(Protocol):
    """Nodes by their full path; a node that does not exist is None."""

    def children(self, paths: Sequence[str]) -> list[Children | None]: ...

    def get(self, paths: Sequence[str]) -> list[ZNode | None]: ...

    @property
    def last_zxid(self) -> int:
        """The newest change that the last answer can have seen."""
        ...


class KazooTree:
    """The nodes of a running ZooKeeper, over a client that somebody else connects and closes."""

    def __init__(self, client: KazooClient, deadline_s: float = READ_DEADLINE_S) -> None:
        self._client = client
        self._deadline_s = deadline_s

    def children(self, paths: Sequence[str]) -> list[Children | None]:
        answers = self._pipeline(lambda path: self._client.get_children_async(path, include_data=True), paths)
        return [None if answer is None else _to_children(answer) for _, answer in answers]

    def get(self, paths: Sequence[str]) -> list[ZNode | None]:
        answers = self._pipeline(self._client.get_async, paths)
        return [None if answer is None else to_znode(path, answer) for path, answer in answers]

    @property
    def last_zxid(self) -> int:
        return int(self._client.last_zxid)

    def _pipeline(self, send: Callable[[str], Any], paths: Sequence[str]) -> Iterator[tuple[str, Any]]:
        deadline = time.monotonic() + self._deadline_s
        under_way: deque[tuple[str, Any]] = deque()
        for path in paths:
            if len(under_way) == WINDOW_REQUESTS:
                yield self._settle(*under_way.popleft(), deadline)
            under_way.append((path, send(path)))
        while under_way:
            yield self._settle(*under_way.popleft(), deadline)

    def _settle(self, path: str, request: Any, deadline: float) -> tuple[str, Any]:
        remedy = "check that the ensemble has a quorum, then try again"
        try:
            return path, request.get(timeout=max(0.0, deadline - time.monotonic()))
        except NoNodeError:
            return path, None
        except NoAuthError as error:
            raise InputError(
                f"ZooKeeper does not let this client read {path}", "give it the ACL's credentials"
            ) from error
        except KazooTimeoutError as error:
            raise UnavailableError(
                f"ZooKeeper did not answer for {path} within {self._deadline_s:g} s", remedy
            ) from error
        except KazooException as error:
            raise UnavailableError(f"ZooKeeper lost the request for {path} ({type(error).__name__})", remedy) from error


def connect(hosts: str, timeout_s: float, security: ZooKeeperSecurity = NO_SECURITY) -> KazooClient:
    """A connected client without a chroot; an ensemble that does not answer in time is named."""
    if "/" in hosts:
        raise InputError(
            f"the ZooKeeper address {hosts!r} has a chroot",
            "write host:port,host:port and give Pulsar's root by itself",
        )
    remedy = "check the address, the port and that the server is running"
    try:
        client = KazooClient(hosts, timeout=timeout_s, **client_options(security))
        is_connected = client.start_async().wait(timeout_s)
    except ValueError as error:
        raise InputError(
            f"{hosts!r} is not a list of ZooKeeper hosts ({error})", "write host:port,host:port"
        ) from error
    if not is_connected:
        # Closing waits for a socket that may hang longer than the caller's deadline.
        threading.Thread(target=disconnect, args=(client,), daemon=True).start()
        raise UnavailableError(f"ZooKeeper at {hosts} did not answer within {timeout_s:g} s", remedy)
    try:
        require_admission(client, hosts, security, timeout_s)
    except BaseException:
        disconnect(client)
        raise
    return client


def disconnect(client: KazooClient) -> None:
    """End a client's session and free its threads."""
    try:
        client.stop()
        client.close()
    except KazooException:
        # Its connection hangs; nothing was left to say to the server, and its threads end with the process.
        return


def _to_children(answer: Any) -> Children:
    names, stat = answer
    return Children(tuple(sorted(names)), stat.pzxid)


def to_znode(path: str, answer: tuple[bytes | None, Any]) -> ZNode:
    """A node out of kazoo's answer, its data and its stat."""
    data, stat = answer
    return ZNode(path, data or b"", stat.version, stat.czxid, stat.mzxid, stat.mtime, stat.ephemeralOwner)
