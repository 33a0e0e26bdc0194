"""What both of Pulsar's load managers can be asked, and the simulated clients that ask them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Protocol

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from evenkeel.fleet.broker import SimulatedBroker
from evenkeel.fleet.cluster import Cluster
from evenkeel.model.errors import EvenkeelError
from evenkeel.pulsar.topic_hash import hash_topic

CLIENT_RETRY_S = 1.0

_log = logging.getLogger(__name__)


class AnswerError(Exception):
    """A request that a broker answers with an error status and a reason."""

    def __init__(self, status: int, reason: str) -> None:
        super().__init__(reason)
        self.status = status
        self.reason = reason


class UnexpectedError(AnswerError):
    """A request that Pulsar answers as if something had gone wrong in the broker, though the caller did it."""

    def __init__(self, message: str) -> None:
        super().__init__(500, f"\n --- An unexpected error occurred in the server ---\n\nMessage: {message}")


class LoadManager(Protocol):
    """Ownership of bundles as one of Pulsar's load managers handles it."""

    def start(self, timeout_s: float) -> None:
        """Read the ownership that is there, and act on it and on every change from now on."""

    def stop(self) -> None:
        """Cease to observe and to act."""

    def seed(self, owners: Mapping[str, str]) -> None:
        """Write the ownership that the fleet starts with, where there is none yet."""

    def start_broker(self, broker: SimulatedBroker) -> None:
        """Register a broker that has a session, and let it resume what is its own."""

    def on_broker_lost(self, broker_id: str) -> None:
        """A broker's process is gone; drop what was kept in its memory."""

    def on_session_lost(self, broker: SimulatedBroker) -> None:
        """A broker that goes on running lost its session; drop what it must not believe any more."""

    def on_new_session(self, broker: SimulatedBroker) -> None:
        """A broker has another session in place of a lost one; let it find out what is still its own."""

    def on_registry_change(self) -> None:
        """A registration came or went."""

    def owners(self) -> Mapping[str, str]:
        """Who serves which bundle now."""

    def served_by(self, broker: SimulatedBroker) -> list[str]:
        """The bundles whose topics a broker has open now, by name."""

    def owner_of(self, bundle: str) -> str | None:
        """Who serves a bundle now; None while nobody does."""

    def responsible_for(self, bundle: str) -> str | None:
        """Who answers admin requests about a bundle: its owner, or who is about to be."""

    def assign(self, broker: SimulatedBroker, bundle: str) -> bool:
        """Let a broker that serves a lookup find an owner for a bundle without one; False if there is no broker."""

    def look_up(self, broker: SimulatedBroker, bundle: str) -> str | None:
        """The owner of a bundle, assigned now if there is none; None if no broker may own it."""

    def unload(self, broker: SimulatedBroker, bundle: str, destination: str | None) -> None:
        """Let its owner give a bundle up, and wait until it has."""

    def split(self, broker: SimulatedBroker, bundle: str, cuts: Sequence[int], must_unload: bool) -> None:
        """Let its owner split a bundle, and wait until it has."""


class ClientSwarm:
    """The clients of all bundles: a moment after they were cut they look their bundle up again."""

    def __init__(self, cluster: Cluster, assign: Callable[[SimulatedBroker, str], bool]) -> None:
        self._cluster = cluster
        self._assign = assign
        self._lock = threading.Lock()
        self._waiting: set[str] = set()

    def cut(self, bundle: str) -> None:
        """The clients of a bundle lost their broker."""
        if not self._cluster.traffic.has_clients(bundle):
            return
        with self._lock:
            if bundle in self._waiting:
                return
            self._waiting.add(bundle)
        self._cluster.timers.after(self._cluster.settings.clients_look_up_after_s, self._look_up, bundle)

    def _look_up(self, bundle: str) -> None:
        with self._lock:
            self._waiting.discard(bundle)
        if not self._cluster.catalogue.has(bundle):
            return
        brokers = self._cluster.alive_brokers()
        # Clients spread over the brokers; any fixed spread will do.
        broker = brokers[hash_topic(bundle) % len(brokers)] if brokers else None
        if broker is None or not self._try_assign(broker, bundle):
            with self._lock:
                self._waiting.add(bundle)
            self._cluster.timers.after(CLIENT_RETRY_S, self._look_up, bundle)

    def _try_assign(self, broker: SimulatedBroker, bundle: str) -> bool:
        # A broker that dies or loses its session while it answers costs its clients another attempt, no more.
        try:
            return self._assign(broker, bundle)
        except (KazooException, KazooTimeoutError, EvenkeelError) as error:
            _log.debug("%s did not answer for %s: %r", broker.id, bundle, error)
            return False
