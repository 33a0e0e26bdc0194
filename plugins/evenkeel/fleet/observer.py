"""One session that watches every bundle's node and keeps their newest values for all simulated brokers.

kazoo has no recursive watch, so this sets one watch a node: on the children of every tenant and namespace,
and on the data of every bundle. Like Pulsar's own cache it sees the newest value, not every value in between.
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
"""tenant / namespace / range: how far below the base the bundles are."""

Value = TypeVar("Value")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Entry(Generic[Value]):
    """A bundle's node as last seen: what it says, and the version that a write must name."""

    value: Value
    version: int
    ephemeral_owner: int


class OwnershipObserver(Generic[Value]):
    """The newest value of every bundle's node below a base path."""

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
        self._settled = threading.Condition()

    def start(self, timeout_s: float) -> None:
        """Read everything that is there and watch it from now on."""
        self._client.ensure_path(self._base)
        self._client.add_listener(self._on_state)
        self._read_children(self._base)
        deadline = time.monotonic() + timeout_s
        with self._settled:
            while self._pending and time.monotonic() < deadline:
                self._settled.wait(deadline - time.monotonic())
            if self._pending:
                raise UnavailableError(f"{self._base} could not be read in {timeout_s:g} s", "check ZooKeeper")

    def stop(self) -> None:
        """Look away: events are ignored from now on, so that none waits for a session that is being closed."""
        self._is_stopped = True

    def get(self, bundle: str) -> Entry[Value] | None:
        return self._entries.get(bundle)

    def entries(self) -> dict[str, Entry[Value]]:
        """A copy of all entries, by bundle."""
        return self._entries.copy()

    def wait_until(self, is_met: Callable[[], bool], timeout_s: float) -> bool:
        """Wait for a condition over the entries; it is looked at whenever one changes."""
        deadline = time.monotonic() + timeout_s
        with self._settled:
            return self._settled.wait_for(is_met, max(0.0, deadline - time.monotonic()))

    def _on_state(self, state: KazooState) -> None:
        # Watches may have been missed while the connection was down.
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
        result.rawlink(lambda answer: self._end(self._take_children, path, answer))

    def _read_data(self, path: str) -> None:
        self._begin()
        result = self._client.get_async(path, watch=self._on_event)
        result.rawlink(lambda answer: self._end(self._take_data, path, answer))

    def _begin(self) -> None:
        with self._settled:
            self._pending += 1

    def _end(self, take: Callable[[str, Any], None], path: str, answer: IAsyncResult) -> None:
        try:
            take(path, answer.get(block=False))
        except NoNodeError:
            self._forget(path)
        except KazooException as error:
            _log.debug("%s was not read: %r", path, error)
        finally:
            with self._settled:
                self._pending -= 1
                self._settled.notify_all()

    def _take_children(self, path: str, children: list[str]) -> None:
        for child in children:
            child_path = f"{path}/{child}"
            if child_path not in self._watched:
                self._watched.add(child_path)
                self._read(child_path)

    def _take_data(self, path: str, answer: tuple[bytes, Any]) -> None:
        data, stat = answer
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
            # Pulsar's brokers keep the last value that they could read, too.
            _log.warning("%s", error)
            return None

    def _forget(self, path: str) -> None:
        self._watched.discard(path)
        bundle = path[len(self._base) + 1 :]
        if self._entries.pop(bundle, None) is not None:
            self._on_change(bundle, None)
