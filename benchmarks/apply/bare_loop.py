"""The baseline for the guarded writer: compare-and-set writes without fence, journal or checks."""

from __future__ import annotations

import queue
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from kazoo.client import KazooClient
from kazoo.protocol.states import WatchedEvent

from evenkeel.model.errors import UnavailableError
from evenkeel.model.service_unit import ServiceUnitRecord, ServiceUnitState

CONNECT_TIMEOUT_S = 30.0
LOOP_TIMEOUT_S = 120.0


class BareLoop:
    """Moves bundles through one session: read, write, and watch each bundle until its new owner has it."""

    def __init__(self, hosts: str, root: str, in_flight: int) -> None:
        self._client = KazooClient(hosts, timeout=CONNECT_TIMEOUT_S)
        self._root = f"{root}/service_unit_state"
        self._in_flight = in_flight
        self._replies: queue.SimpleQueue[tuple[str, str, Any]] = queue.SimpleQueue()
        self.requests = 0

    def move(self, destinations: Mapping[str, str]) -> float:
        """Move every bundle to its destination; returns the seconds from the first write to the last new owner."""
        self._client.start(timeout=CONNECT_TIMEOUT_S)
        try:
            return self._move(destinations)
        finally:
            self._client.stop()
            self._client.close()

    def _move(self, destinations: Mapping[str, str]) -> float:
        waiting = list(destinations)
        in_flight: set[str] = set()
        started_s: float | None = None
        deadline_s = time.monotonic() + LOOP_TIMEOUT_S
        while waiting or in_flight:
            while waiting and len(in_flight) < self._in_flight:
                bundle = waiting.pop()
                in_flight.add(bundle)
                self._read(bundle)
            kind, bundle, reply = self._next(deadline_s)
            if kind == "changed":
                self._read(bundle)
            elif kind == "read":
                data, stat = reply.get(block=False)
                record = ServiceUnitRecord.decode(data, bundle)
                if record.state is not ServiceUnitState.OWNED:
                    continue
                if record.destination == destinations[bundle]:
                    in_flight.discard(bundle)
                elif bundle in in_flight:
                    started_s = started_s or time.monotonic()
                    self._release(bundle, record, stat.version, destinations[bundle])
            else:
                reply.get(block=False)
        return time.monotonic() - (started_s or time.monotonic())

    def _next(self, deadline_s: float) -> tuple[str, str, Any]:
        try:
            return self._replies.get(timeout=max(deadline_s - time.monotonic(), 0.0))
        except queue.Empty:
            raise UnavailableError(
                f"the bare loop did not finish within {LOOP_TIMEOUT_S:g} s", "read the fleet's log"
            ) from None

    def _read(self, bundle: str) -> None:
        def on_change(event: WatchedEvent) -> None:
            if event.path is not None:
                self._replies.put(("changed", bundle, None))

        self.requests += 1
        result = self._client.get_async(f"{self._root}/{bundle}", on_change)
        result.rawlink(partial(self._take, "read", bundle))

    def _release(self, bundle: str, current: ServiceUnitRecord, version: int, destination: str) -> None:
        record = ServiceUnitRecord(
            ServiceUnitState.RELEASING,
            round(time.time() * 1000),
            current.version_id + 1,
            destination=destination,
            source=current.destination,
        )
        self.requests += 1
        result = self._client.set_async(f"{self._root}/{bundle}", record.encode(), version)
        result.rawlink(partial(self._take, "written", bundle))

    def _take(self, kind: str, bundle: str, reply: Any) -> None:
        self._replies.put((kind, bundle, reply))
