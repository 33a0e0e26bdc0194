"""Who owns which bundle: as ZooKeeper shows it, and as modular brokers remember it.

One session observes for all simulated brokers. kazoo has no recursive watch, so `OwnershipObserver` sets one watch per
node: on the children of every tenant and namespace, and on the data of every bundle. Like Pulsar's own cache it sees
the newest value, not every value in between.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from kazoo.client import KazooClient, KazooState
from kazoo.exceptions import KazooException, NoNodeError
from kazoo.interfaces import IAsyncResult
from kazoo.protocol.states import WatchedEvent

from evenkeel.model.errors import InputError, UnavailableError

BUNDLE_DEPTH = 3
"""tenant / namespace / range: the depth of the bundles below the base."""

Value = TypeVar("Value")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Entry(Generic[Value]):
    """A bundle's node as last read; a write must name its version."""

    value: Value
    version: int
    ephemeral_owner: int
    """Tells a node from one that another session created anew with the same value and version."""


class OwnershipObserver(Generic[Value]):
    """Keeps the newest value of every bundle's node below a base path."""

    def __init__(
        self,
        client: KazooClient,
        base: str,
        decode: Callable[[bytes, str], Value],
        on_change: Callable[[str, Entry[Value] | None], None],
    ) -> None:
        self._client = client
        self._base = base
        self._decode = decode
        self._on_change = on_change
        self._entries: dict[str, Entry[Value]] = {}
        self._watched: set[str] = set()
        self._pending = 0
        self._is_stopped = False
        self._changed = threading.Condition()

    def start(self, timeout_s: float) -> None:
        """Read all nodes and keep watching them."""
        self._client.ensure_path(self._base)
        self._client.add_listener(self._on_state)
        self._read_children(self._base)
        deadline = time.monotonic() + timeout_s
        with self._changed:
            while self._pending and time.monotonic() < deadline:
                self._changed.wait(deadline - time.monotonic())
            if self._pending:
                raise UnavailableError(
                    f"{self._base} was not read within {timeout_s:g} s", "check ZooKeeper and its load"
                )

    def stop(self) -> None:
        """Ignore events from now on, so that no handler waits for a session that is being closed."""
        self._is_stopped = True

    def get(self, bundle: str) -> Entry[Value] | None:
        return self._entries.get(bundle)

    def entries(self) -> dict[str, Entry[Value]]:
        """Return a copy of all entries, by bundle."""
        return self._entries.copy()

    def wait_until(self, is_met: Callable[[], bool], timeout_s: float) -> bool:
        """Wait until a condition on the entries holds; it is checked whenever an entry changes."""
        deadline = time.monotonic() + timeout_s
        with self._changed:
            return self._changed.wait_for(is_met, max(0.0, deadline - time.monotonic()))

    def _on_state(self, state: KazooState) -> None:
        # Events may have been lost while the connection was down.
        if state == KazooState.CONNECTED and not self._is_stopped:
            self._client.handler.spawn(self._read_again)

    def _read_again(self) -> None:
        for path in [self._base, *list(self._watched)]:
            self._read(path)

    def _depth(self, path: str) -> int:
        return path[len(self._base) :].count("/")

    def _on_event(self, event: WatchedEvent) -> None:
        if event.path and not self._is_stopped:
            self._read(event.path)

    def _read(self, path: str) -> None:
        if self._depth(path) == BUNDLE_DEPTH:
            self._read_data(path)
        else:
            self._read_children(path)

    def _read_children(self, path: str) -> None:
        self._begin()
        result = self._client.get_children_async(path, watch=self._on_event)
        result.rawlink(lambda done: self._end(self._take_children, path, done))

    def _read_data(self, path: str) -> None:
        self._begin()
        result = self._client.get_async(path, watch=self._on_event)
        result.rawlink(lambda done: self._end(self._take_data, path, done))

    def _begin(self) -> None:
        with self._changed:
            self._pending += 1

    def _end(self, take: Callable[[str, Any], None], path: str, done: IAsyncResult) -> None:
        try:
            take(path, done.get(block=False))
        except NoNodeError:
            self._forget(path)
        except KazooException as error:
            _log.debug("%s was not read: %r", path, error)
        finally:
            with self._changed:
                self._pending -= 1
                self._changed.notify_all()

    def _take_children(self, path: str, children: list[str]) -> None:
        for child in children:
            child_path = f"{path}/{child}"
            if child_path not in self._watched:
                self._watched.add(child_path)
                self._read(child_path)

    def _take_data(self, path: str, node: tuple[bytes, Any]) -> None:
        data, stat = node
        bundle = path[len(self._base) + 1 :]
        value = self._try_decode(data, path)
        if value is None:
            return
        entry = Entry(value, stat.version, stat.ephemeralOwner or 0)
        if self._entries.get(bundle) != entry:
            self._entries[bundle] = entry
            self._on_change(bundle, entry)

    def _try_decode(self, data: bytes, path: str) -> Value | None:
        try:
            return self._decode(data, path)
        except InputError as error:
            # Like Pulsar's brokers, keep the last value that could be decoded.
            _log.warning("%s", error)
            return None

    def _forget(self, path: str) -> None:
        self._watched.discard(path)
        bundle = path[len(self._base) + 1 :]
        if self._entries.pop(bundle, None) is not None:
            self._on_change(bundle, None)


class OwnershipCaches:
    """The bundles that each modular broker believes it owns; the cache survives the loss of a session.

    Two brokers may hold the same bundle while one of them has not yet noticed that it lost it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._held: dict[str, set[str]] = {}

    def add(self, broker_id: str, bundle: str) -> None:
        with self._lock:
            self._held.setdefault(broker_id, set()).add(bundle)

    def drop(self, broker_id: str, bundle: str) -> None:
        with self._lock:
            self._held.get(broker_id, set()).discard(bundle)

    def clear(self, broker_id: str) -> None:
        with self._lock:
            self._held.pop(broker_id, None)

    def of(self, broker_id: str) -> list[str]:
        """Return the bundles that a broker holds, sorted by name."""
        with self._lock:
            return sorted(self._held.get(broker_id, ()))

    def holds(self, broker_id: str, bundle: str) -> bool:
        with self._lock:
            return bundle in self._held.get(broker_id, ())

    def holders(self, bundle: str) -> list[str]:
        """Return the brokers that hold a bundle, sorted by name."""
        with self._lock:
            return sorted(broker_id for broker_id, held in self._held.items() if bundle in held)
