"""What becomes of a simulated broker whose session ZooKeeper has expired, by PIP-57 and the broker's policy.

local store          policy shutdown    the process ends
                     policy reconnect   another session, tried several times, then the load manager finds out what is
                                        still the broker's own; if none starts, the process ends
configuration store  whatever policy    another session, tried several times; the broker has no ephemeral node there,
                                        so only what it remembers is dropped; if none starts, the process ends
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

from kazoo.exceptions import KazooException
from kazoo.handlers.threading import KazooTimeoutError

from evenkeel.fleet.broker import SimulatedBroker
from evenkeel.fleet.load_manager import LoadManager
from evenkeel.model.errors import EvenkeelError

END_TIMEOUT_S = 5.0
POLL_INTERVAL_S = 0.05

_log = logging.getLogger(__name__)


class SessionKeeper:
    """Follows lost sessions up, each broker's one after another."""

    def __init__(
        self,
        manager: Callable[[], LoadManager],
        clock: Callable[[], float],
        new_session_delay_s: float,
        on_shut_down: Callable[[], None],
    ) -> None:
        self._manager = manager
        self._clock = clock
        self._new_session_delay_s = new_session_delay_s
        self._on_shut_down = on_shut_down
        self._stopping = threading.Event()
        self._lock = threading.Lock()
        self._one_at_a_time: dict[str, threading.Lock] = {}
        self._threads: list[threading.Thread] = []

    def stop(self) -> None:
        """Follow nothing up any more."""
        self._stopping.set()
        with self._lock:
            threads = list(self._threads)
        deadline_s = time.monotonic() + END_TIMEOUT_S
        for thread in threads:
            thread.join(max(0.0, deadline_s - time.monotonic()))

    def on_lost(self, broker: SimulatedBroker) -> None:
        """The session with the local store is lost; called on the session's own thread, which must not wait."""
        self._begin(self._follow_up, broker)

    def on_configuration_lost(self, broker: SimulatedBroker) -> None:
        """The session with the configuration store is lost; called on the session's own thread."""
        self._begin(self._follow_up_configuration, broker)

    def _begin(self, follow_up: Callable[[SimulatedBroker], None], broker: SimulatedBroker) -> None:
        # A thread of its own: waiting for ZooKeeper must not keep the fleet's few workers from their work.
        process = broker.started_s

        def run() -> None:
            with self.turn_of(broker.id):
                if broker.is_running and broker.started_s == process and not self._stopping.is_set():
                    try:
                        follow_up(broker)
                    except Exception:
                        _log.exception("%s was left without a session", broker.id)

        thread = threading.Thread(target=run, name=f"new-session-{broker.id}", daemon=True)
        with self._lock:
            self._threads = [*(other for other in self._threads if other.is_alive()), thread]
        thread.start()

    def turn_of(self, broker_id: str) -> threading.Lock:
        """Held by whoever opens sessions of a broker, so that nobody else does at the same time."""
        with self._lock:
            return self._one_at_a_time.setdefault(broker_id, threading.Lock())

    def _follow_up(self, broker: SimulatedBroker) -> None:
        if broker.local.is_open:
            # An earlier turn found this session lost as well, and has followed it up.
            return
        if not broker.keeps_its_process:
            self._shut_down(broker, "it lost its session")
            return
        losses, manager = broker.local.losses, self._manager()
        manager.on_session_lost(broker)
        self._wait_before_new_session(broker)
        try:
            broker.take_new_session(self._clock())
            manager.on_new_session(broker)
        except (EvenkeelError, KazooException, KazooTimeoutError) as error:
            # The next loss has its own turn; a broker that was killed meanwhile has none to come.
            if broker.is_running and broker.local.losses == losses and not self._stopping.is_set():
                self._shut_down(broker, f"it got no new session ({error or type(error).__name__})")

    def _wait_before_new_session(self, broker: SimulatedBroker) -> None:
        deadline_s = time.monotonic() + self._new_session_delay_s
        while broker.is_running and (left_s := deadline_s - time.monotonic()) > 0:
            if self._stopping.wait(min(left_s, POLL_INTERVAL_S)):
                return

    def _follow_up_configuration(self, broker: SimulatedBroker) -> None:
        try:
            broker.take_new_configuration_session()
        except EvenkeelError as error:
            if broker.is_running and not self._stopping.is_set():
                self._shut_down(broker, f"it got no new session with the configuration store ({error})")

    def _shut_down(self, broker: SimulatedBroker, why: str) -> None:
        _log.warning("%s shuts down: %s", broker.id, why)
        broker.end()
        self._manager().on_broker_lost(broker.id)
        self._on_shut_down()
