"""Znodes as they are read, and the operations that a transaction is made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from evenkeel.adapters.zookeeper.security import OPEN_TO_ALL
from evenkeel.model.errors import RunStoppedError

ANY_VERSION = -1


@dataclass(frozen=True, slots=True)
class ZNode:
    """A node as it was read; `ephemeral_owner` is the session that it ends with, 0 for a persistent node."""

    path: str
    data: bytes
    version: int
    czxid: int
    mzxid: int
    mtime_ms: int
    ephemeral_owner: int
    ctime_ms: int = 0


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


@dataclass(frozen=True, slots=True)
class Operation:
    """One operation of a transaction; refusals name it."""

    name: str
    method: str
    arguments: tuple[Any, ...]

    @property
    def path(self) -> str:
        return str(self.arguments[0])

    @property
    def guarded_version(self) -> int | None:
        """The version that a write requires of its node; None if it requires none."""
        is_guard = self.method == "set_data" and self.arguments[-1] != ANY_VERSION
        return int(self.arguments[-1]) if is_guard else None


def check(name: str, path: str, version: int = ANY_VERSION) -> Operation:
    """Require that a node exists, at a given version unless any will do."""
    return Operation(name, "check", (path, version))


def set_data(name: str, path: str, data: bytes, version: int = ANY_VERSION) -> Operation:
    return Operation(name, "set_data", (path, data, version))


def create(name: str, path: str, data: bytes, ephemeral: bool = False, is_pulsars: bool = False) -> Operation:
    """Create a node with the session's own ACL, or, in Pulsar's tree, with one that lets every broker write it."""
    return Operation(name, "create", (path, data, OPEN_TO_ALL if is_pulsars else None, ephemeral))


def delete(name: str, path: str, version: int = ANY_VERSION) -> Operation:
    return Operation(name, "delete", (path, version))


class TransactionRefusedError(Exception):
    """ZooKeeper refused a transaction: the first operation that failed, and how."""

    def __init__(self, operation: str, error: Exception, path: str = "") -> None:
        super().__init__(f"{operation}: {type(error).__name__}")
        self.operation = operation
        self.error = error
        self.path = path


def forbidden(path: str) -> RunStoppedError:
    """The error for a user who may not write a node."""
    return RunStoppedError(
        f"ZooKeeper's access control forbids this user to write {path}",
        "grant it permission to create, write and delete there, then run the same command again",
    )
