"""What modular brokers remember to own: each its own bundles, over the loss of a session."""

from __future__ import annotations

import threading


class OwnershipCaches:
    """Every broker's ownership cache; two may hold a bundle while one of them does not know yet that it lost it."""

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
        """The bundles that a broker holds, by name."""
        with self._lock:
            return sorted(self._held.get(broker_id, ()))

    def holds(self, broker_id: str, bundle: str) -> bool:
        with self._lock:
            return bundle in self._held.get(broker_id, ())

    def holders(self, bundle: str) -> list[str]:
        """The brokers that hold a bundle, by name."""
        with self._lock:
            return sorted(broker_id for broker_id, held in self._held.items() if bundle in held)
