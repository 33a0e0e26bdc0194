"""What a broker remembers of the configuration store; whatever ends its session, or changes the node, empties it."""

from __future__ import annotations

import json
import logging
import threading
from collections.abc import Mapping
from typing import Any

from kazoo.client import KazooClient
from kazoo.exceptions import NoNodeError
from kazoo.protocol.states import WatchedEvent

_log = logging.getLogger(__name__)


class PolicyCache:
    """One broker's copy of the isolation policies, read with its own session when it is first needed."""

    def __init__(self, path: str) -> None:
        self._path = path
        self._lock = threading.Lock()
        self._policies: Mapping[str, Any] | None = None
        self.reads = 0
        """How often the store was asked."""

    def isolation(self, client: KazooClient) -> Mapping[str, Any]:
        """The policies, from memory where they are known to be current."""
        with self._lock:
            if self._policies is None:
                self._policies = self._read(client)
            return self._policies

    def drop(self) -> None:
        """Forget everything; the next question goes to the store."""
        with self._lock:
            self._policies = None

    def _read(self, client: KazooClient) -> Mapping[str, Any]:
        self.reads += 1
        try:
            return read_json(client.get(self._path, watch=self._on_event)[0])
        except NoNodeError:
            if client.exists(self._path, watch=self._on_event) is None:
                return {}
        return self._read(client)

    def _on_event(self, _event: WatchedEvent) -> None:
        # kazoo also calls it when the connection breaks, after which a change could be missed.
        self.drop()


def read_json(data: bytes | None) -> dict[str, Any]:
    """A watched node's object; an empty or unreadable one counts as empty."""
    if not data:
        return {}
    try:
        value = json.loads(data)
    except ValueError as error:
        _log.warning("a watched node holds no JSON: %s", error)
        return {}
    return value if isinstance(value, dict) else {}
